"""``wstar reproduce zg`` at tiny sizes: hard teachers, runs, fits and words on planted numbers, page, numbers."""

import base64
import csv
import io
import json
import shutil

import numpy as np
import plotly.graph_objects as go
import pytest
from from_outside import recoloured, wstar_says
from scipy.stats import beta

import wstar
from wstar.experiments.config import ZgConfig
from wstar.experiments.papers import zg_first_step, zg_recovery, zg_samples, zg_summary, zg_teachers, zg_training
from wstar.experiments.papers.parts import packaged_config
from wstar.experiments.papers.zg import prepare, run_zg
from wstar.experiments.store import RunFolder
from wstar.kernels.activations import ABS, RELU
from wstar.kernels.angles import angles
from wstar.networks.student import Student
from wstar.report.page import write_report
from wstar.report.reading import read_run
from wstar.report.zg import zg_page
from wstar.report.zg_words import (
    headline,
    sample_sentences,
    sentence_of_hard,
    sentence_of_learnt,
    sentence_of_phases,
    sentence_of_widths,
    training_sentences,
)
from wstar.theory.claims.training import frozen_loss

TINY = {
    "quick": True, "dim": 6, "rank": 2, "teacher_width": 3, "min_angle": 0.5, "min_kappa": 0.3, "width": 24,
    "weight_decay": 0.01, "seeds": [3], "n_epochs": 4, "max_steps": 3000, "net_ranks": [2, 3], "net_dims": [20],
    "net_widths": [8, 16, 32, 64], "net_draws": 3, "frozen_ranks": [2], "frozen_widths": [4, 8, 16, 32],
    "frozen_draws": 3, "sample_dims": [4, 5, 6, 7], "sample_ratios": [1.0, 8.0, 64.0], "sample_draws": 3,
    "learn_dims": [4], "learn_ratios": [2.0, 16.0], "learn_draws": 1,
    "phase_widths": [4, 16], "phase_angles": [0.2, 0.6], "phase_ranks": [2, 3], "phase_decays": [0.01, 0.002],
    "phase_decay": 0.002, "last_decay": 3e-4, "phase_draws": 3, "hard_angles": [0.2, 0.5], "hard_kappas": [0.05, 0.2],
    "hard_draws": 3,
}  # fmt: skip
CONFIG = ZgConfig.build(TINY)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    run = RunFolder.create(tmp_path_factory.mktemp("zg") / "run", "zg", CONFIG)
    result = run_zg(CONFIG, prepare(CONFIG), run)
    write_report(run.path)
    return run, result


# ---------------------------------------------------------------------- teachers


@pytest.mark.parametrize("signs", ["equal", "opposite", "mixed"])
def test_a_pair_is_exactly_as_far_apart_as_asked(signs):
    for seed in range(4):
        teacher = zg_teachers.pair_teacher(CONFIG, 0.07, signs, np.random.default_rng(seed))
        assert teacher.separation == pytest.approx(0.07, rel=1e-12)
        assert angles(teacher.weights[:1], teacher.weights[-1:])[0, 0] == pytest.approx(0.07, rel=1e-12)
        assert teacher.rank == CONFIG.rank
        assert teacher.kappa >= CONFIG.min_kappa
        product = np.sign(teacher.outputs[0] * teacher.outputs[-1])
        assert signs == "mixed" or product == (1.0 if signs == "equal" else -1.0)


@pytest.mark.parametrize("kappa", [1e-4, 0.01, 0.2])
def test_kappa_is_what_was_asked(kappa):
    for seed in range(4):
        teacher = zg_teachers.kappa_teacher(CONFIG, kappa, np.random.default_rng(seed))
        assert teacher.kappa == pytest.approx(kappa, rel=1e-3)


def test_cancelling_signs_leave_no_trace():
    teacher = zg_teachers.balanced_teacher(CONFIG, np.random.default_rng(0))
    moment = teacher.weights.T @ (teacher.outputs[:, None] * teacher.weights)
    assert abs(np.trace(moment)) < 1e-12


@pytest.mark.parametrize("share", [0.5, -1.0])
def test_an_antipodal_pair_is_its_sum_beyond_order_one(share):
    both, merged = zg_teachers.antipodal_teacher(CONFIG, share, np.random.default_rng(1))
    assert both.width == merged.width + (2 if share == -1.0 else 1)
    bare = Student(merged.outputs, merged.weights)
    fitted = Student(
        bare.outputs, bare.weights, -bare.masses.sum() / np.sqrt(2.0 * np.pi), -0.5 * bare.masses @ bare.directions
    )
    assert wstar.PopulationRisk(both).value(fitted) == pytest.approx(0.0, abs=1e-14)


# ---------------------------------------------------------------------- runs


@pytest.mark.parametrize(("activation", "seed"), [(RELU, 0), (RELU, 1), (ABS, 2)])
def test_runs_without_a_record_are_those_of_the_three_stages(activation, seed):
    teacher = zg_teachers.with_activation(CONFIG, activation, np.random.default_rng(seed))
    risk, schedule = wstar.PopulationRisk(teacher), zg_recovery.decays(0.008, 0.001)
    assert schedule == pytest.approx([0.008, 0.004, 0.002, 0.001])
    stepped = zg_recovery.first_layer(risk, 60, np.random.default_rng(seed), activation)
    ours = zg_recovery.settled(risk, stepped, schedule)
    plain = wstar.three_stage(
        risk, 60, seed, 0.008, 4, activation=activation, solver="newton", certify=False, orders=()
    ).student
    assert risk.value(ours, 0.001) == pytest.approx(risk.value(plain, 0.001), rel=1e-9)
    heavy = [np.sort(network.masses[np.abs(network.masses) > 1e-6]) for network in (ours, plain)]
    np.testing.assert_allclose(*heavy, atol=1e-5)


def test_a_first_decay_above_everything_leaves_nothing():
    teacher = zg_teachers.with_activation(CONFIG, RELU, np.random.default_rng(0))
    risk = wstar.PopulationRisk(teacher)
    stepped = zg_recovery.first_layer(risk, 20, np.random.default_rng(0))
    ending = zg_recovery.judged(zg_recovery.settled(risk, stepped, [100.0, 1.0]), teacher)
    assert not ending.recovered
    assert np.isnan(ending.loss)


@pytest.mark.parametrize(("first", "last"), [(0.02, 1e-5), (0.003, 0.003), (0.008, 0.0041), (0.05, 0.02)])
def test_a_schedule_starts_and_ends_where_it_should_and_never_more_than_halves(first, last):
    schedule = zg_recovery.decays(first, last)
    assert (schedule[0], schedule[-1]) == (first, last)
    ratios = np.array(schedule[:-1]) / schedule[1:]
    assert (ratios <= 2.0 + 1e-12).all()
    assert (ratios > 1.0).all()


def test_the_least_frozen_loss_is_that_of_the_mass_problem():
    teacher = zg_teachers.with_activation(CONFIG, RELU, np.random.default_rng(0))
    rows = np.random.default_rng(1).standard_normal((7, CONFIG.dim))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    gram, correlation, energy = wstar.PopulationRisk(teacher).mass_problem(RELU, rows)
    least = energy - correlation @ np.linalg.solve(gram, correlation)
    assert frozen_loss(rows, teacher) == pytest.approx(least, rel=1e-10)
    assert frozen_loss(np.concatenate([rows, teacher.directions]), teacher) < 1e-12


def test_the_cover_radius_is_that_of_all_pairs():
    rng = np.random.default_rng(0)
    seen, probes = rng.standard_normal((40, 3)), rng.standard_normal((50, 3))
    seen, probes = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (seen, probes))
    slow = [angles(seen[:n], probes).min(axis=0).max() for n in (5, 17, 40)]
    np.testing.assert_allclose(zg_first_step._cover(seen, probes, [5, 17, 40]), slow, rtol=1e-12)


def test_principal_angles_of_a_tilted_plane():
    tilt = 1e-6
    weights = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, np.cos(tilt), np.sin(tilt), 0.0], [2.0, 0.0, 0.0, 0.0]])
    assert zg_samples.principal_angle(weights, 2) == pytest.approx(tilt, rel=1e-6)
    assert zg_samples.principal_angle(np.eye(4)[[0, 3]], 2) == pytest.approx(0.5 * np.pi)


def test_the_gap_by_lemma_six_solves_its_equation():
    zeta, decay, constant = 3e-4, 0.01, 40.0
    time = np.linspace(0.0, 5e4, 2001)
    curve = zg_training.proved_gap(zeta, decay, constant, time)
    assert curve[0] == pytest.approx(zeta, rel=1e-12)
    slope = np.gradient(curve, time)
    np.testing.assert_allclose(slope[5:-5], -constant * curve[5:-5] ** 4 / decay**2, rtol=1e-3)


def test_a_planted_rate_and_constant_are_read_off_a_curve():
    time = np.linspace(0.0, 30.0, 40)
    zeta = 1e-3 * (np.exp(-0.5 * time) + 9.0 * np.exp(-5.0 * time))
    curve = {
        "epoch": [0] * 40, "time": time.tolist(), "zeta": zeta.tolist(), "zeta_error": [1e-15] * 40,
        "slope": (7.0 * zeta**4 / 0.01**2).tolist(),
    }  # fmt: skip
    rate, geometric = zg_training.late_rate(curve, 0)
    assert rate == pytest.approx(0.5, rel=1e-3)
    assert geometric
    assert zg_training.late_rate(curve, 1) is None
    slow = curve | {"zeta": (1e-3 * (0.1 + time) ** -2.0).tolist()}
    assert not zg_training.late_rate(slow, 0)[1]
    assert zg_training.lemma_six_constant(curve, [{"weight_decay": 0.01}]) == pytest.approx(7.0)


def test_a_run_is_recorded_as_it_was(finished):
    """The gap falls within each epoch, time only grows, and the last loss is that of the plain run."""
    for run in finished[1]["theorem_2"]["runs"]:
        curve = run["curve"]
        assert (np.diff(curve["time"]) >= 0.0).all()
        total = sum(row["n_steps"] * row["learning_rate"] for row in run["epochs"])
        assert curve["time"][-1] == pytest.approx(total)
        assert curve["loss"][-1] == pytest.approx(run["epochs"][-1]["loss"], rel=1e-6)
        for k in range(4):
            gaps = [zeta for zeta, epoch in zip(curve["zeta"], curve["epoch"], strict=True) if epoch == k]
            assert (np.diff(gaps) <= 1e-12).all()


def test_more_directions_and_samples_bring_angles_down(finished):
    result = finished[1]
    for part in [*result["nets"], *result["net_dims"]]:
        for key in ("teacher", "cover", "uniform_cover"):
            medians = [np.median(row[key]) for row in part["rows"]]
            assert (np.diff(medians) <= 0.0).all()
    for part in result["samples"]["dims"]:
        assert np.median(part["rows"][-1]["neuron"]) < np.median(part["rows"][0]["neuron"])


def test_trained_directions_beat_frozen_ones(finished):
    (part,) = finished[1]["frozen"]
    last = part["medians"]
    assert last["trained"][-1] < 1e-2 * last["one step"][-1]
    assert last["trained"][-1] < last["trained before"][-1]
    # the least loss over all masses can only fall as directions are added
    assert (np.diff(last["one step"]) <= 1e-12).all()


# ---------------------------------------------------------------------- fits


def test_planted_powers_are_found_whatever_the_constants_of_the_runs():
    groups = [[(x, c * x**1.7) for x in np.geomspace(low, 10.0 * low, 6)] for c, low in ((1.0, 0.1), (50.0, 3.0))]
    fit = zg_summary.fitted_within(groups)
    assert fit["exponent"] == pytest.approx(1.7, abs=1e-9)
    pooled = zg_summary.fitted([x for g in groups for x, _ in g], [y for g in groups for _, y in g])
    assert abs(pooled["exponent"] - 1.7) > 0.3
    assert zg_summary.fitted_within([[(1.0, 0.0)]]) is None


@pytest.mark.parametrize(("found", "total"), [(0, 5), (3, 7), (20, 20)])
def test_the_interval_of_a_share_is_clopper_and_pearsons(found, total):
    share = zg_summary.share([True] * found + [False] * (total - found))
    low = beta.ppf(0.025, found, total - found + 1) if found else 0.0
    high = beta.ppf(0.975, found + 1, total - found) if found < total else 1.0
    assert share["interval"] == pytest.approx([low, high], abs=1e-9)
    assert (share["found"], share["total"]) == (found, total)


def planted_samples(power):
    """Curves whose angle passes π/8 at N = 5 d^power, at every d."""
    rows = lambda dim: [  # noqa: E731
        {"ratio": ratio, "samples": round(ratio * dim**2), "neuron": [angle] * 3, "span": [angle] * 3}
        for ratio in np.geomspace(0.01, 100.0, 25)
        for angle in [0.39 * np.sqrt(5.0 * dim**power / (ratio * dim**2))]
    ]
    dims = [{"dim": dim, "rows": rows(dim)} for dim in (10, 20, 40, 80)]
    return {"dims": dims, "collapse": zg_summary.collapse(dims)}


@pytest.mark.parametrize(
    ("power", "says"),
    [(2.0, "the curves collapse"), (1.0, "fewer samples than d²"), (2.6, "more samples than d²")],
)
def test_curves_that_collapse_are_told_from_those_that_do_not(power, says):
    samples = planted_samples(power)
    assert samples["collapse"]["span"]["fit"]["exponent"] == pytest.approx(power, abs=0.15)
    assert all(says in sentence for sentence in sample_sentences(samples))


# ---------------------------------------------------------------------- words


def planted_fit(exponent, spread=0.02):
    return {"exponent": exponent, "constant": 1.0, "interval": [exponent - spread, exponent + spread], "points": 9}


@pytest.mark.parametrize(("found", "says"), [(3, "Every one of 3 runs"), (2, "2 of 3 runs"), (0, "None of 3 runs")])
def test_the_headline_counts(found, says):
    runs = [{"recovered": k < found} for k in range(3)]
    assert says in headline({"theorem_2": {"runs": runs}})


@pytest.mark.parametrize(
    ("loss", "time", "says"),
    [
        (2.0, 0.5, ("the order of the bound λ²", "far within the bound")),
        (1.2, 1.9, ("slower than the bound λ²", "within the bound")),
        (2.9, 2.5, ("faster than the bound λ²", "beyond the bound")),
    ],
)
def test_sentences_on_training_follow_the_fits(loss, time, says):
    fits = {"loss": planted_fit(loss), "angle": planted_fit(1.0), "time": planted_fit(time), "rate": None, "rates": []}
    said = " ".join(training_sentences({"theorem_2": {"fits": fits}}))
    assert all(words in said for words in says)


def test_the_sentence_on_widths_extrapolates_only_what_was_fitted():
    needed = {"trained": [4, 8, None, None], "one step": [16, None, None, None]}
    part = {
        "rank": 2, "rows": [{"width": 64}], "epsilons": [1e-2, 1e-4, 1e-6, 1e-8], "needed": needed,
        "fits": {"one step": {"exponent": -2.0, "constant": 4.0}},
    }  # fmt: skip
    said = sentence_of_widths([part])
    assert "8 trained directions reach ε = 10⁻⁴" in said
    assert "64 frozen after one step do not (by the fitted power, 200 would)" in said
    assert "would" not in sentence_of_widths([part | {"fits": {"one step": None}}])


def test_where_hard_teachers_break_is_the_first_gap_from_above():
    def row(value, share):
        return {"value": value, "name": f"g{value}", "share": {"share": share}}

    curve = [row(0.02, 0.9), row(0.1, 0.2), row(0.3, 0.8)]
    hard = dict.fromkeys(("equal", "opposite", "kappa"), curve)
    hard |= {"geometry": [row(1, 0.4), row(2, 0.6)], "activations": [row(1, 0.9)]}
    said = sentence_of_hard(hard)
    assert "down to 0.30\u00a0rad, not below" in said[0]
    assert "g1" in said[3]
    assert "g2" not in said[3]
    assert "in every row" in said[4]


def planted_row(value, counts, optimum):
    cells = [{"width": 2**k, "share": {"share": n / 10.0, "found": n}} for k, n in enumerate(counts)]
    return {
        "angle": value,
        "rank": 2,
        "decay": value,
        "cells": cells,
        "optimum_share": {"share": optimum / 10.0, "found": optimum},
    }


def test_phases_say_where_recovery_begins_and_what_is_missing():
    early, late, short = (
        planted_row(0.3, [0, 6, 10], 10),
        planted_row(0.2, [0, 4, 9], 10),
        planted_row(0.1, [0, 2, 4], 4),
    )
    said = " ".join(sentence_of_phases({name: [early, late, short] for name in ("angle", "rank", "decay")}))
    assert "0.10\u00a0rad: more than 4, 0.20\u00a0rad: 4, 0.30\u00a0rad: 2" in said
    # the optimum misses as much at 0.1, but not at 0.2
    assert "At separations of 0.10\u00a0rad the widest networks recover as often as the optimum" in said
    same = " ".join(sentence_of_phases({name: [early, early] for name in ("angle", "rank", "decay")}))
    assert "At every rank half of the runs recover from 2 neurons on" in same
    assert "optimum" not in same


@pytest.mark.parametrize(
    ("power", "says"), [(2.0, "the curves collapse in N/d²"), (1.0, "fewer samples"), (3.0, "more samples")]
)
def test_whole_runs_from_samples_are_told_by_their_law(power, says):
    parts = [
        {
            "dim": dim,
            "rows": [
                {"samples": round(factor * dim**power), "recovered": [factor >= 4.0] * 3} for factor in (1, 2, 4, 8)
            ],
        }
        for dim in (10, 20, 40, 80)
    ]
    learnt = zg_summary.learnt_summary(parts)
    assert says in sentence_of_learnt(learnt)
    assert learnt["fit"]["exponent"] == pytest.approx(power, abs=0.02)
    assert "fits no power" in sentence_of_learnt(zg_summary.learnt_summary(parts[:3]))
    never = [{"dim": 5, "rows": [{"samples": n, "recovered": [False]} for n in (10, 20)]}]
    assert "At no d" in sentence_of_learnt(zg_summary.learnt_summary(never))


# ---------------------------------------------------------------------- folder, page, command


def test_a_killed_run_goes_on_with_what_is_missing(finished, tmp_path):
    run = RunFolder.create(tmp_path / "run", "zg", CONFIG)
    shutil.copytree(finished[0].path / "parts", run.path / "parts")
    for name in ("hard-kappa", "phase-rank-2"):
        (run.path / "parts" / f"{name}.json").unlink()
    seen = []

    def stop(progress):
        seen.append(progress)
        if progress.name == "hard-kappa" and progress.done > 0.0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_zg(CONFIG, prepare(CONFIG), run, stop)
    assert {progress.name for progress in seen} == {"phase-rank-2", "hard-kappa"}
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    assert not run.finished
    result, expected = run_zg(CONFIG, prepare(CONFIG), run), dict(finished[1])
    for whole in (result, expected):
        whole.pop("seconds")
    assert _less_seconds(result) == _less_seconds(expected)


def _less_seconds(value):
    if isinstance(value, dict):
        return {key: _less_seconds(item) for key, item in value.items() if key != "seconds"}
    return [_less_seconds(item) for item in value] if isinstance(value, list) else value


def test_the_page_shows_every_figure_and_holds_all_numbers(finished):
    run, result = finished
    page = zg_page(read_run(run.path))
    text = (run.path / "report.html").read_text()
    for name, figure in page["figures"].items():
        assert f'id="{name}"' in text
        go.Figure(recoloured(figure))
    assert headline(result) in text
    ((name, address),) = page["downloads"]
    assert name == "zg.json"
    assert json.loads(base64.b64decode(address.split("base64,")[1])) == result


@pytest.mark.parametrize("quick", [True, False])
def test_the_packaged_settings_are_whole(quick):
    config = ZgConfig.read(packaged_config("zg", quick=quick))
    jobs = prepare(config)
    assert config.quick == quick
    assert len({job.name for job in jobs}) == len(jobs)
    assert all(job.cost > 0.0 for job in jobs)


def test_the_same_command_shows_a_finished_run_again(finished, monkeypatch, capsys):
    run, result = finished
    code, said = wstar_says(
        monkeypatch, capsys, "reproduce", "zg", "--config", run.path / "config.toml", "--out", run.path
    )
    assert code == 0
    assert headline(result) in said.out
    assert "Theorem 2" in said.out


def test_an_interrupted_run_is_resumed_by_its_folder(finished, tmp_path, monkeypatch, capsys):
    run = RunFolder.create(tmp_path / "run", "zg", CONFIG)
    shutil.copytree(finished[0].path / "parts", run.path / "parts")
    code, said = wstar_says(monkeypatch, capsys, "resume", run.path, "--json")
    assert code == 0
    assert _less_seconds(json.loads(said.out)) == _less_seconds(finished[1])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"seeds": [1, 1]}, "seeds=[1, 1]"),
        ({"net_ranks": [1, 2]}, "net_ranks="),
        ({"phase_widths": [4, 7]}, "phase_widths=[4, 7]"),
        ({"phase_angles": [0.2, 2.0]}, "phase_angles="),
        ({"hard_kappas": [0.0, 0.1]}, "hard_kappas="),
        ({"dim": 2}, "dim=2 is below the largest rank, 3"),
        ({"teacher_width": 2}, "teacher_width=2 must be above rank=2"),
        ({"last_decay": 0.5}, "last_decay=0.5"),
        ({"hard_angles": [0.2, 1.5]}, "hard_angles: no teacher of 3 neurons in rank 2"),
        ({"hard_kappas": [0.1, 50.0]}, "hard_kappas (50.0): no teacher"),
        ({"min_angle": 1.2}, "min_angle"),
        ({"n_epochs": 2}, "n_epochs=2"),
        ({"netdims": [3]}, "did you mean 'net_dims'"),
    ],
)
def test_bad_settings_are_one_line(change, says, tmp_path, monkeypatch, capsys, as_shipped):
    file = tmp_path / "sizes.toml"
    file.write_text("\n".join(f"{key} = {json.dumps(value)}" for key, value in (TINY | change).items()))
    monkeypatch.chdir(tmp_path)
    code, said = wstar_says(monkeypatch, capsys, "reproduce", "zg", "--config", file)
    assert code == 2
    assert says in said.err
    assert said.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [file]


CHROMIUM = shutil.which("chromium")


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_the_page_opens_clean_and_gives_the_numbers_of_a_figure(finished, tmp_path):
    sync_api = pytest.importorskip("playwright.sync_api")
    figures = zg_page(read_run(finished[0].path))["figures"]
    hostile, text = tmp_path / "report.html", (finished[0].path / "report.html").read_text()
    assert '"name":"seed 3"' in text
    hostile.write_text(text.replace('"name":"seed 3"', r'"name":"=1+1,\"a\" &lt;b><img src=x onerror=alert(1)>"'))
    with sync_api.sync_playwright() as running:
        browser = running.chromium.launch(
            executable_path=CHROMIUM, args=["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"]
        )
        page = browser.new_page(viewport={"width": 390, "height": 844}, has_touch=True, accept_downloads=True)
        page.set_default_timeout(180_000)
        troubles, requests = [], []
        page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(hostile.as_uri())
        page.wait_for_selector("html[data-drawn=yes]", timeout=180_000)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
        assert page.locator("a.numbers").count() == len(figures)
        trace = figures["loss-decay"]["data"][0]
        # what a spreadsheet would take for a formula comes as text, commas and quotes inside
        rows = [row for row in _downloaded(page, "loss-decay") if row["series"] == '\'=1+1,"a" <b>']
        np.testing.assert_allclose([float(row["x"]) for row in rows], trace["x"], rtol=1e-12)
        np.testing.assert_allclose([float(row["y"]) for row in rows], trace["y"], rtol=1e-12)
        (heat,) = figures["phase-angle"]["data"]
        cells = {(row["x"], row["y"]): float(row["z"]) for row in _downloaded(page, "phase-angle")}
        assert cells == {(x, y): heat["z"][i][j] for i, y in enumerate(heat["y"]) for j, x in enumerate(heat["x"])}
        assert troubles == []
        assert [url for url in requests if not url.startswith(("data:", "blob:", "file:"))] == []
        browser.close()


def _downloaded(page, figure):
    """The CSV of a figure, asked for by keyboard."""
    page.focus(f"#{figure} + a.numbers")
    with page.expect_download() as wanted:
        page.keyboard.press("Enter")
    assert wanted.value.suggested_filename == f"{figure}.csv"
    with open(wanted.value.path(), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(io.StringIO(file.read())))
