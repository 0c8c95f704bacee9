"""``wstar reproduce lmz`` at tiny sizes: going on after a kill, verdicts on planted curves, page, numbers."""

import base64
import csv
import io
import json

import numpy as np
import plotly.graph_objects as go
import pytest
from from_outside import recoloured, wstar_says
from numpy.polynomial.hermite_e import hermevander
from rich.console import Console

import wstar
from wstar.cli.reproduce import part_bar
from wstar.experiments.config import LmzConfig
from wstar.experiments.papers import lmz_parts
from wstar.experiments.papers.lmz import describe, exponents, prepare, run_lmz
from wstar.experiments.papers.parts import PartProgress, packaged_config
from wstar.experiments.store import RunFolder
from wstar.report.lmz import downloads, headline, lmz_page
from wstar.report.page import write_report
from wstar.report.reading import read_run

TINY = {
    "quick": True, "seeds": [0, 3], "dim": 4, "samples": 200, "learning_rate": 0.1, "wide": 12, "wide_steps": 300,
    "narrow": 8, "narrow_steps": 400, "dims": [3, 4, 5, 6], "dim_seeds": [0], "width_factor": 3, "baseline_dims": [4],
    "samples_per_square": 10, "features": 20, "limit_dim": 3, "limit_particles": 8, "limit_widths": [4, 8, 16, 32],
}  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    config = LmzConfig.build(TINY)
    run = RunFolder.create(tmp_path_factory.mktemp("lmz") / "run", "lmz", config)
    result = run_lmz(config, prepare(config), run)
    write_report(run.path)
    return run, result


def curves(last, order_0=1e-3, order_2=1e-3, order_4=0.5):
    """A run whose losses are as given up to step ``last``, and small after."""
    steps = [0, 10, 100, 1000]
    high = [order_0, order_2, order_4, order_4, order_4]
    relative = [high if step <= last else [1e-5] * 5 for step in steps]
    return {
        "step": steps, "order": [0, 2, 4, 6, 8], "relative": relative, "least_cosine": [0.5, 0.5, 0.5, 0.97],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("runs", "stuck", "waiting", "last_stuck", "last_waiting", "fitted"),
    [
        ([curves(1000, order_2=0.2)], 1, 1, [1000], [1000], 0),
        ([curves(1000)], 0, 1, [None], [1000], 0),
        ([curves(100, order_2=0.2), curves(10)], 0, 0, [100, None], [100, 10], 2),
        ([curves(1000, order_0=0.05, order_2=0.2)], 0, 0, [None], [None], 0),
    ],
)
def test_a_run_is_stuck_only_if_the_whole_account_holds_at_its_end(
    runs, stuck, waiting, last_stuck, last_waiting, fitted
):
    found = describe(runs)
    assert (found["stuck"], found["waiting"], found["fitted"]) == (stuck, waiting, fitted)
    assert found["last_stuck"] == last_stuck
    assert found["last_waiting"] == last_waiting
    assert found["found"] == len(runs)


def test_planted_powers_are_found_and_what_was_not_reached_is_left_out():
    dims = [10, 20, 40, 80]
    runs = [
        {"dim": d, "runs": [{"settled": 3.0 * d, "plateau_end": d**1.7, "warm": None, "fitted": None, "loss": d**-1.2}]}
        for d in dims
    ]
    fits = exponents(runs)
    assert fits["settled"]["exponent"] == pytest.approx(1.0, abs=1e-9)
    assert fits["settled"]["constant"] == pytest.approx(3.0, rel=1e-9)
    assert fits["plateau_end"]["exponent"] == pytest.approx(1.7, abs=1e-9)
    assert fits["loss"]["exponent"] == pytest.approx(-1.2, abs=1e-9)
    assert fits["loss"]["paper"] == pytest.approx(-1.0, abs=1e-9)
    assert fits["warm"] is None
    # the slope of d log d between 10 and 80 lies between its slopes at the ends, 1 + 1/log d
    assert 1.0 + 1.0 / np.log(80) < fits["settled"]["paper"] < 1.0 + 1.0 / np.log(10)


@pytest.mark.parametrize("order", lmz_parts.FLOORS)
def test_a_floor_is_what_the_best_polynomial_leaves(order):
    """By least squares in one dimension on a fine grid: orders of different coordinates are orthogonal."""
    x = np.linspace(-12.0, 12.0, 24_001)
    # the grid has a point at the kink, so the trapezoidal rule is right to the square of its spacing
    root = np.sqrt(np.exp(-0.5 * x**2) / np.sqrt(2.0 * np.pi) * (x[1] - x[0]))
    basis = root[:, None] * hermevander(x, order)
    labels = root * np.abs(x)
    left = labels - basis @ np.linalg.lstsq(basis, labels, rcond=None)[0]
    assert lmz_parts.floor(order, 5) * 5 == pytest.approx(float(left @ left), abs=1e-6)


def test_the_population_part_is_the_plain_run(finished):
    _, result = finished
    teacher = lmz_parts.lmz_teacher(4)
    run = result["panels"]["wide"]["population"]["runs"][1]
    assert run["seed"] == 3
    plain = wstar.truncated_descent(
        wstar.PopulationRisk(teacher, preprocessed=False), 12, 3, 300, record_steps=run["step"]
    )
    np.testing.assert_allclose(run["relative"], plain.trajectory.relative_tensor_loss, rtol=1e-8, atol=1e-13)
    np.testing.assert_allclose(run["least_cosine"], plain.trajectory.best_cosine.min("teacher"), rtol=1e-10)


def test_infinite_width_and_finite_networks_start_together(finished):
    limit = finished[1]["infinite_width"]
    assert limit["own_error"][0] == 0.0
    assert [row["width"] * row["networks"] for row in limit["rows"]] == [32] * 4
    for row in limit["rows"]:
        assert row["distance"][0] == 0.0
        assert row["distance"][-1] > 0.0
    assert limit["step"][-1] == limit["marks"]["end"]


def test_every_baseline_is_scored_on_the_same_rows(finished):
    (part,) = finished[1]["baselines"]
    teacher = lmz_parts.lmz_teacher(4)
    X, y = lmz_parts.lmz_rows(teacher, 160, 0, 1)
    fresh, labels = lmz_parts.lmz_rows(teacher, 10_000, 0, 3)
    model = lmz_parts.baselines(20)["random features, ReLU"].fit(X, y)
    errors = {row["name"]: row["error"] for row in part["rows"]}
    assert errors["random features, ReLU"] == pytest.approx(np.mean((model.predict(fresh) - labels) ** 2), rel=1e-9)
    assert set(errors) == {"truncated descent", "truncated descent, steps by formula", *lmz_parts.baselines(20)}
    assert errors["truncated descent"] < min(errors[name] for name in lmz_parts.baselines(20))


def test_a_killed_run_goes_on_with_what_is_missing(finished, tmp_path):
    """Killed inside a part: finished parts are not computed again, and the result is the same."""
    config = LmzConfig.build(TINY | {"dims": [3, 4, 5, 7]})
    run = RunFolder.create(tmp_path / "run", "lmz", config)
    (run.path / "parts").mkdir()
    for name in ("infinite-width", "baselines-4", "dimension-3", "dimension-4", "dimension-5"):
        file = f"{name}.json"
        (run.path / "parts" / file).write_text((finished[0].path / "parts" / file).read_text())
    seen = []

    def stop(progress):
        seen.append(progress)
        if progress.name == "narrow-samples-0":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_lmz(config, prepare(config), run, stop)
    names = [progress.name for progress in seen]
    assert "infinite-width" not in names
    assert "dimension-7" in names
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    assert all(0.0 <= p.done <= p.total for p in seen)
    assert not run.finished
    stamps = {file.name: file.stat().st_mtime_ns for file in (run.path / "parts").iterdir()}
    result = run_lmz(config, prepare(config), run)
    assert all((run.path / "parts" / name).stat().st_mtime_ns == stamp for name, stamp in stamps.items())
    for panel, expected in finished[1]["panels"].items():
        for data in ("samples", "population"):
            for ours, theirs in zip(result["panels"][panel][data]["runs"], expected[data]["runs"], strict=True):
                assert ours["relative"] == theirs["relative"]


def test_a_damaged_part_is_named(finished, tmp_path):
    config = LmzConfig.build(TINY)
    run = RunFolder.create(tmp_path / "run", "lmz", config)
    (run.path / "parts").mkdir()
    for file in (finished[0].path / "parts").iterdir():
        (run.path / "parts" / file.name).write_text(file.read_text())
    (run.path / "parts" / "dimension-5.json").write_text("{")
    with pytest.raises(ValueError, match=r"dimension-5.json is damaged"):
        run_lmz(config, prepare(config), run)


def test_the_page_shows_every_figure_and_holds_all_numbers(finished):
    run, result = finished
    page = lmz_page(read_run(run.path))
    text = (run.path / "report.html").read_text()
    for name, figure in page["figures"].items():
        assert f'id="{name}"' in text
        go.Figure(recoloured(figure))
    assert headline(result) in text
    files = dict(downloads(result))
    assert set(files) == {"figure2.csv", "dimensions.csv", "baselines.csv", "infinite-width.csv", "lmz.json"}
    rows = list(csv.DictReader(io.StringIO(_content(files["figure2.csv"]))))
    first = result["panels"]["wide"]["samples"]["runs"][0]
    assert float(rows[0]["relative_loss"]) == first["relative"][0][0]
    assert len(rows) == sum(
        5 * len(part["step"])
        for panel in result["panels"].values()
        for data in ("samples", "population")
        for part in panel[data]["runs"]
    )
    assert json.loads(_content(files["lmz.json"])) == result


def _content(address):
    return base64.b64decode(address.split("base64,")[1]).decode()


@pytest.mark.parametrize("quick", [True, False])
def test_the_packaged_settings_are_whole(quick):
    config = LmzConfig.read(packaged_config("lmz", quick=quick))
    jobs = prepare(config)
    assert config.quick == quick
    assert len({job.name for job in jobs}) == len(jobs)
    assert config.narrow == 2 * config.dim
    if not quick:
        assert (config.dim, config.wide, config.samples) == (30, 100, 10_000)
        assert len(config.seeds) >= 10


def test_the_same_command_shows_a_finished_run_again(finished, monkeypatch, capsys):
    run, result = finished
    code, said = wstar_says(
        monkeypatch, capsys, "reproduce", "lmz", "--config", run.path / "config.toml", "--out", run.path
    )
    assert code == 0
    assert headline(result) in said.out
    assert "d²/log d" in said.out


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"seeds": [1, 1]}, "seeds=[1, 1]"),
        ({"dims": [3, 4, 5, 1]}, "dims="),
        ({"limit_widths": [3, 4, 8, 16]}, "3 does not divide the widest, 16"),
        ({"dims": [3, 4]}, "dims"),
        ({"learning_rate": 0.0}, "learning_rate=0.0"),
    ],
)
def test_bad_settings_are_one_line(change, says, tmp_path, monkeypatch, capsys, as_shipped):
    file = tmp_path / "sizes.toml"
    file.write_text("\n".join(f"{key} = {json.dumps(value)}" for key, value in (TINY | change).items()))
    monkeypatch.chdir(tmp_path)
    code, said = wstar_says(monkeypatch, capsys, "reproduce", "lmz", "--config", file)
    assert code == 2
    assert says in said.err
    assert said.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [file]


def test_quick_and_a_file_exclude_each_other(monkeypatch, capsys):
    code, said = wstar_says(monkeypatch, capsys, "reproduce", "lmz", "--quick", "--config", "x.toml")
    assert code == 2
    assert "exclude each other" in said.err


def test_the_bar_says_which_part_and_what_share_of_the_work():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with part_bar(console, shown=True) as told:
        told(PartProgress("dimension-20", 3.0, 12.0))
    drawn = console.file.getvalue()
    assert "dimension-20" in drawn
    assert "25 %" in drawn


def test_an_interrupted_run_is_resumed_by_its_folder(finished, tmp_path, monkeypatch, capsys):
    run = RunFolder.create(tmp_path / "run", "lmz", LmzConfig.build(TINY))
    (run.path / "parts").mkdir()
    for file in (finished[0].path / "parts").iterdir():
        (run.path / "parts" / file.name).write_text(file.read_text())
    code, said = wstar_says(monkeypatch, capsys, "resume", run.path, "--json")
    assert code == 0
    shown, expected = json.loads(said.out), dict(finished[1])
    shown.pop("seconds"), expected.pop("seconds")
    assert shown == expected
    assert (run.path / "report.html").is_file()
