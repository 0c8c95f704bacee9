"""``wstar truncate`` as a user types it: the folder, the page, going on after a kill, and wrong input."""

import io
import json
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import plotly.graph_objects as go
import pytest
from from_outside import recoloured
from rich.console import Console

import wstar
from wstar.algorithms.truncated.run import TruncatedProgress
from wstar.cli.main import main
from wstar.experiments.config import TruncateConfig
from wstar.experiments.store import RunFolder
from wstar.experiments.truncate import prepare, run_truncate
from wstar.kernels.hermite import coefficient_energy
from wstar.networks.teacher import Teacher
from wstar.report.page import write_report
from wstar.report.reading import read_run
from wstar.report.truncate import truncate_page
from wstar.report.truncate_terminal import step_bar
from wstar.theory.tensor_dynamics import gradient_by_order

WSTAR = [sys.executable, "-c", "from wstar.cli.main import main; main()"]
SMALL = {"dim": 6, "width": 24, "seed": 1}


def run_in(folder, **options):
    """A finished run with its page, made in this process."""
    config = TruncateConfig.build(SMALL | options)
    run = RunFolder.create(folder, "truncate", config)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = run_truncate(config, prepare(config), run)
    write_report(run.path)
    return run, result


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return run_in(tmp_path_factory.mktemp("truncate") / "run")


def test_the_folder_holds_what_the_result_says(finished):
    run, result = finished
    assert json.loads((run.path / "result.json").read_text())["loss"] == result["loss"]
    with np.load(run.path / "student.npz") as stored:
        student = wstar.Student.from_arrays(stored)
    with np.load(run.path / "teacher.npz") as stored:
        teacher = Teacher.from_arrays(stored)
    assert wstar.PopulationRisk(teacher, preprocessed=False).value(student) == pytest.approx(result["loss"], rel=1e-9)
    cosines = np.abs(student.directions @ teacher.directions.T).max(axis=0)
    np.testing.assert_allclose(result["cosines"], cosines, rtol=1e-12)
    assert result["found"] == 6
    assert [stage["threshold"] for stage in result["stages"]] == pytest.approx([36.0, 1296.0])


def test_the_record_agrees_with_itself(finished):
    """Orders of the loss, mass errors and gradients of one trajectory are tied by LMZ's identities."""
    trajectory = finished[0].read_trajectory()
    d = 6
    # T_0 = Δ², and T_2 ≥ Σ δ_i² ≥ max(δ₊, δ₋)²: the diagonal of a matrix is the smaller part of its norm
    np.testing.assert_allclose(trajectory.tensor_loss.sel(order=0), trajectory.mass_error**2, atol=1e-14)
    worst = np.maximum(trajectory.largest_excess, trajectory.largest_deficit)
    assert (trajectory.tensor_loss.sel(order=2) >= worst**2 - 1e-14).all()
    # order 0 pulls every neuron by 4 c_0 Δ w
    expected = 4.0 * coefficient_energy(0) * abs(trajectory.mass_error) * np.sqrt((trajectory.norms**2).mean("neuron"))
    np.testing.assert_allclose(trajectory.order_gradient_norm.sel(order=0), expected, rtol=1e-9, atol=1e-14)
    weights = trajectory.weights.values
    np.testing.assert_allclose(trajectory.start_square, weights[0] ** 2, rtol=1e-12)
    np.testing.assert_allclose(trajectory.end_cosine.max("neuron"), trajectory.best_cosine[-1], rtol=1e-12)
    assert trajectory.sizes["teacher"] == d


def test_the_gradient_parts_add_up_to_the_step_that_was_taken(finished):
    config = TruncateConfig.build(SMALL)
    _, risk = prepare(config)
    trajectory = finished[0].read_trajectory()
    first, second = (trajectory.weights.sel(step=step).values for step in (1, 2))
    parts = gradient_by_order(risk, first, trajectory.order.values.tolist())
    np.testing.assert_allclose(first - second, config.learning_rate * parts.total, atol=1e-13)
    lengths = np.sqrt((parts.gradients**2).sum(axis=2).mean(axis=1))
    np.testing.assert_allclose(trajectory.order_gradient_norm.sel(step=1), lengths, rtol=1e-12)


def test_the_page_has_every_figure_in_plotly_s_schema(finished):
    page = truncate_page(read_run(finished[0].path))
    expected = {"tensor-losses", "loss", "cosines", "norms", "basis-like", "gradients", "tickets", "mass-errors"}
    assert set(page["figures"]) == expected
    for figure in page["figures"].values():
        go.Figure(recoloured(figure))
    text = (finished[0].path / "report.html").read_text()
    assert "All 6 directions found" in text
    for name in expected:
        assert f'id="{name}"' in text


def test_shaded_stages_follow_each_other_to_the_last_one_reached(finished):
    _, result = finished
    page = truncate_page(read_run(finished[0].path))
    shapes = page["figures"]["tensor-losses"]["layout"]["shapes"]
    ends = [result["stage_times"][key] for key in ("settled", "plateau_end", "warm", "fitted")]
    assert [shape["x1"] for shape in shapes] == pytest.approx(ends)
    assert [shape["x0"] for shape in shapes[1:]] == pytest.approx(ends[:-1])


def test_a_run_that_is_cut_short_says_which_stages_it_did_not_reach(tmp_path):
    run, result = run_in(tmp_path / "short", n_steps=20)
    assert np.isnan(result["stage_times"]["plateau_end"])
    assert result["tickets"]["rule"] is None
    page = truncate_page(read_run(run.path))
    assert page["stages"][1][1] == "not reached"
    assert page["headline"] == f"{result['found']} of 6 directions found"
    assert page["rule"] == []


def test_a_relu_target_without_its_linear_part_is_the_even_target(finished, tmp_path):
    """LMZ's reduction: on the population the two runs differ by rounding alone."""
    _, result = run_in(tmp_path / "relu", target_activation="relu", remove_linear=True)
    assert result["notices"] == []
    assert result["loss"] == pytest.approx(finished[1]["loss"], rel=1e-6)
    assert result["stage_times"]["fitted"] == pytest.approx(finished[1]["stage_times"]["fitted"], rel=1e-6)


def test_turning_the_target_leaves_nothing_undefined_and_finds_it(tmp_path):
    _, result = run_in(tmp_path / "turned", directions="rotated", kappa=2.0, stage_one="detect")
    assert result["teacher"]["orthonormal"]
    ratio = result["teacher"]["largest_mass"] / result["teacher"]["smallest_mass"]
    assert 1.0 < ratio <= 4.0
    assert result["found"] == 6


def test_oblique_targets_are_run_and_what_loses_its_meaning_is_named(tmp_path):
    run, result = run_in(tmp_path / "oblique", directions="random", samples=1500, noise=0.01)
    assert not result["teacher"]["orthonormal"]
    assert result["tickets"]["rule"] is None
    assert "mass_error" not in run.read_trajectory()
    text = (run.path / "report.html").read_text()
    assert "W* is not orthonormal" in text
    assert 'id="mass-errors"' not in text
    with np.load(run.path / "student.npz") as stored:
        student = wstar.Student.from_arrays(stored)
    config = TruncateConfig.read(run.path / "config.toml")
    exact = wstar.PopulationRisk(prepare(config)[0], preprocessed=False).value(student)
    assert result["samples"]["population_loss"] == pytest.approx(exact, rel=1e-12)


def test_labels_of_another_scale_are_warned_about_unless_normalised(tmp_path):
    file = tmp_path / "target.toml"
    file.write_text("outputs = [2.0, 2.0, 2.0]\nweights = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]\nactivation = 'abs'\n")
    plain, first = run_in(tmp_path / "plain", teacher=str(file), n_steps=10, learning_rate=0.01)
    assert any("sum to 6" in notice for notice in first["notices"])
    assert "normalise" in (plain.path / "report.html").read_text()
    _, second = run_in(tmp_path / "scaled", teacher=str(file), normalise=True)
    assert second["notices"] == []
    assert second["found"] == 3
    assert second["teacher"]["smallest_mass"] == pytest.approx(1.0 / 3.0, rel=1e-9)


def test_a_killed_run_resumes_to_the_same_bits(tmp_path):
    """A real process, killed once its checkpoint is there."""
    options = ["truncate", "--dim", "12", "--width", "40", "--samples", "4000", "--n-steps", "1500"]
    for name in ("whole", "killed"):
        process = subprocess.Popen([*WSTAR, *options, "--out", name], cwd=tmp_path, stdout=subprocess.DEVNULL)
        if name == "whole":
            assert process.wait(timeout=300) == 0
            continue
        deadline = time.monotonic() + 200
        while not (tmp_path / name / "checkpoint" / "state.npz").exists():
            assert process.poll() is None, "the run ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "killed" / "result.json").exists()
    done = subprocess.run(
        [*WSTAR, "resume", "killed"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "directions found" in done.stdout
    assert "winning tickets" in done.stdout
    whole, killed = (RunFolder.open(tmp_path / name).read_trajectory() for name in ("whole", "killed"))
    assert set(whole.variables) == set(killed.variables)
    for name in whole.variables:
        np.testing.assert_array_equal(whole[name].values, killed[name].values, err_msg=name)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--width", "0"], "width=0"),
        (["--kappa", "0.5"], "kappa=0.5"),
        (["--noise", "0.1"], "noise=0.1 needs samples"),
        (["--stage-one", "soon"], "stage_one='soon'"),
        (["--lambda-0", "5", "--dim", "4"], "freezes every neuron at the start"),
        (["--lambda-0", "1e-3", "--lambda-1", "1e-2"], "is above lambda_0"),
        (["--lambda-0", "1e-320"], "is too small: 1/(2λ) overflows"),
        (["--teacher", "nowhere.npz"], "does not exist"),
        (["--learning-rate", "nan"], "learning_rate"),
        (["--target-activation", "tanh"], "is not one of"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(tmp_path, arguments, says, monkeypatch, capsys, as_shipped):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["wstar", "truncate", *arguments])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert says in printed.err
    assert printed.err.count("\n") == 1
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_a_rate_that_diverges_is_stopped_and_shown(tmp_path, nans_allowed):
    run, result = run_in(tmp_path / "wild", learning_rate=50.0, n_steps=100)
    assert result["reason"] == "diverged"
    assert any("lower learning_rate=50" in notice for notice in result["notices"])
    assert "The run diverged" in (run.path / "report.html").read_text()


def test_the_bar_says_which_stage_and_how_many_steps():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with step_bar(console, shown=True) as told:
        told(TruncatedProgress(2, 300, 1000, 0.1))
    with step_bar(console, shown=False) as told:
        assert told is None
    drawn = console.file.getvalue()
    assert "Stage 2" in drawn
    assert "300 of 1,000 steps" in drawn
