"""What the pages say, checked against the run folders that they were made from (their looks: test_report_browser)."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from run_folders import N_EPOCHS, STUDENTS_EACH, fit_folder, recover_folder

from wstar.experiments.config import RecoverConfig
from wstar.experiments.recover import KIND, prepare, run_recover
from wstar.experiments.store import RunFolder
from wstar.networks.network import TwoLayer
from wstar.report import fit, numbers, recover
from wstar.report.figures import axis
from wstar.report.page import write_report
from wstar.report.reading import epoch_ends


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (numbers.number(0.0123456), "0.0123"),
        (numbers.number(12345.6), "12,300"),
        (numbers.number(-4.5e-9, 2), "−4.5 × 10⁻⁹"),
        (numbers.number(1e-6), "10⁻⁶"),
        (numbers.number(9.996, 3), "10.0"),
        (numbers.number(float("nan")), "–"),
        (numbers.number(None), "–"),
        (numbers.number(0.0), "0"),
        (numbers.percent(0.00034), "0.034 %"),
        (numbers.percent(1e-7), "< 0.01 %"),
        (numbers.percent(1.0), "100 %"),
        (numbers.degrees(np.pi / 6), "30°"),
        (numbers.duration(3.21), "3.2 s"),
        (numbers.duration(59.97), "60 s"),
        (numbers.duration(125.0), "2 min 05 s"),
        (numbers.duration(3725.0), "1 h 02 min"),
        (numbers.plural(1, "column"), "1 column"),
        (numbers.plain("<b>x</b>"), "&lt;b&gt;x&lt;/b&gt;"),
    ],
)
def test_numbers_are_written_for_people(shown: str, expected: str) -> None:
    assert shown.replace("\u00a0", " ") == expected


def test_thinning_keeps_both_ends_and_never_more_than_asked() -> None:
    for n in (1, 2, 7, 1000):
        kept = numbers.thinned(n, 7)
        assert kept[0] == 0
        assert kept[-1] == n - 1
        assert len(kept) == min(n, 7)


def test_epoch_ends_are_the_last_records_of_each_epoch() -> None:
    assert epoch_ends(np.array([0, 0, 0, 1, 2, 2])).tolist() == [0, 2, 3, 5]
    assert epoch_ends(np.array([0])).tolist() == [0]
    assert len(epoch_ends(np.repeat(np.arange(500), 3))) == 61


@pytest.mark.parametrize(
    ("errors", "heavy", "expected"),
    [
        ((0.001, 0.002), 5e-4, "Both hidden directions found, to within 5 × 10⁻⁴ rad"),
        ((0.001,) * 4, 5e-4, "All 4 hidden directions found, to within 5 × 10⁻⁴ rad"),
        ((0.001,), 5e-4, "The hidden direction was found, to within 5 × 10⁻⁴ rad"),
        # a stray heavy neuron elsewhere does not make the ones found any worse
        ((0.001, 0.002), 0.7, "Both hidden directions found, to within 2 × 10⁻⁴ rad"),
        ((0.001, 0.3, None), 0.7, "1 of 3 hidden directions found"),
        ((0.3, 1.0), 0.7, "None of the 2 hidden directions found"),
        ((0.3,), 0.7, "The hidden direction was not found"),
    ],
)
def test_the_headline_says_what_was_found(errors: tuple[float | None, ...], heavy: float, expected: str) -> None:
    rows = [{"mass_error": error, "nearest_angle": 2e-4} for error in errors]
    said = recover.headline({"neurons": rows, "within_angle": 0.01, "largest_heavy_angle": heavy})
    assert said.replace("\u00a0", " ") == expected


@pytest.mark.parametrize(
    ("model", "ridge", "expected"),
    [
        (0.86, 0.71, "R² 0.86 on 80 unseen rows, where ridge regression reaches 0.71"),
        (0.66, 0.71, "R² 0.66 on 80 unseen rows, below ridge regression’s 0.71"),
        (0.714, 0.71, "R² 0.71 on 80 unseen rows, as much as ridge regression"),
        (None, None, "A fit scored on 80 unseen rows that do not vary"),
    ],
)
def test_the_headline_of_a_fit_compares_with_ridge_regression(
    model: float | None, ridge: float | None, expected: str
) -> None:
    scores = {name: {"train": {"r2": 0.9}, "test": {"r2": r2}} for name, r2 in (("model", model), ("ridge", ridge))}
    assert fit.headline(scores, 80) == expected
    unscored = {name: {"train": {"r2": 0.9}, "test": None} for name in scores}
    assert fit.headline(unscored, 0) == "R² 0.90 on the rows it was fitted to; none were held back"


def page_data(page: Path) -> dict[str, Any]:
    text = page.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="page-data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found.group(1))


@pytest.fixture(scope="module")
def recovered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(recover_folder(tmp_path_factory.mktemp("runs") / "recover"))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(fit_folder(tmp_path_factory.mktemp("runs") / "fit"))


def test_a_page_is_one_small_file_that_asks_for_nothing_else(recovered: Path, fitted: Path) -> None:
    for page in (recovered, fitted):
        text = page.read_text(encoding="utf-8")
        ours = text.replace(re.search(r"<script>/\*\*.*?</script>", text, re.DOTALL).group(0), "")  # type: ignore[union-attr]
        assert not re.search(r"https?://|\bsrc=|@import|url\(|<link", ours)
        assert "default-src 'none'" in ours
        assert page.stat().st_size < 5.2e6
        assert not list(page.parent.glob(".*"))


def test_every_figure_is_valid_plotly(recovered: Path, fitted: Path, tmp_path: Path) -> None:
    others = [write_report(recover_folder(tmp_path / f"{r}", rank=r, width=m)) for r, m in ((1, 1), (2, 3), (5, 7))]
    for page in (recovered, fitted, *others):
        figures = page_data(page)["figures"]
        expected = {"predictions", "path-error", "ridge-2"} if page == fitted else {"loss", "steps-per-epoch"}
        assert expected <= figures.keys()
        for figure in figures.values():
            go.Figure(figure)


def trace(figure: dict[str, Any], name: str) -> dict[str, Any]:
    return next(part for part in figure["data"] if part["name"] == name)


def test_the_gap_is_shown_beside_the_square_of_the_weight_decay(recovered: Path, fitted: Path) -> None:
    figures = page_data(recovered)["figures"]
    zeta, squares, ratio = (np.array(trace(figures["optimality-gap"], name)["y"]) for name in ("ζ", "λ²", "ζ/λ²"))
    np.testing.assert_allclose(zeta, 1e-5 * 0.25 ** np.arange(6), rtol=1e-5)
    np.testing.assert_allclose(ratio, zeta / squares, rtol=1e-4)
    points = trace(figures["gradient-against-gap"], "recorded steps")
    # ‖∇L_λ‖ = L and ζ = L/1000 in this folder
    slopes, bounds = np.array(points["y"]), np.array(points["x"])
    decay = np.sqrt(1e-12 * slopes**2 / bounds)
    assert set(np.round(np.log2(0.02 / decay)).astype(int)) == set(range(6))
    assert "optimality-gap" not in page_data(fitted)["figures"]


def test_an_axis_over_hundreds_of_decades_is_drawn() -> None:
    assert axis("ratio", log=[1e-312, 1.0])["dtick"] == 45
    assert axis("ratio", log=[0.5, 1.0])["dtick"] == "D2"


def places(part: dict[str, Any]) -> np.ndarray:
    return np.array([part["x"], part["y"], part["z"]], dtype=float).T


@pytest.mark.parametrize(("rank", "width"), [(1, 1), (2, 3), (3, 4)])
def test_dots_stand_at_their_angle_from_the_rings(tmp_path: Path, rank: int, width: int) -> None:
    """Up to rank 3 the picture is an isometry on S_*, so the angles of the run can be read off it."""
    data = page_data(write_report(recover_folder(tmp_path / "run", rank=rank, width=width)))
    rings = places(trace(data["figures"]["sphere"], "teachers"))
    with np.load(tmp_path / "run" / "teacher.npz") as stored:
        teacher = TwoLayer.from_arrays(stored)
    np.testing.assert_allclose(rings[:width] @ rings[:width].T, teacher.weights @ teacher.weights.T, atol=2e-5)
    np.testing.assert_array_equal(rings[width:], -rings[:width])
    assert len(data["frames"]) == N_EPOCHS + 1
    for epoch, frame in enumerate(data["frames"]):
        own = np.repeat(rings[:width], STUDENTS_EACH, axis=0)
        cosines = np.abs((places(frame) * own).sum(axis=1))
        np.testing.assert_allclose(cosines, np.cos(0.4 * 0.5**epoch), atol=2e-5)
        np.testing.assert_allclose(np.linalg.norm(places(frame), axis=1), 1.0, atol=2e-5)


def test_beyond_rank_three_dots_lie_in_the_ball(tmp_path: Path) -> None:
    data = page_data(write_report(recover_folder(tmp_path / "run", rank=5, width=7)))
    lengths = np.linalg.norm(places(data["frames"][-1]), axis=1)
    assert (lengths <= 1.0 + 1e-4).all()
    assert (lengths < 0.99).any()


def test_dots_grow_with_mass_and_vanish_without(tmp_path: Path) -> None:
    path = recover_folder(tmp_path / "run")
    folder = RunFolder.open(path)
    trajectory = folder.read_trajectory().load()
    masses = trajectory["masses"].values.copy()
    masses[:, :3] = [4.0, 1.0, 0.0]
    folder.write_trajectory(trajectory.assign(masses=(("step", "neuron"), masses)))
    frame = page_data(write_report(path))["frames"][-1]
    assert frame["size"][0] > frame["size"][1] > frame["size"][2]
    assert frame["x"][2] is None
    assert frame["x"][1] is not None


def test_what_the_tables_show(recovered: Path, fitted: Path) -> None:
    text = recovered.read_text(encoding="utf-8")
    table = re.search(r'<table id="recovery-table">.*?</table>', text, re.DOTALL).group(0)  # type: ignore[union-attr]
    assert table.count(">found<") == 4
    assert len(re.findall(r"<tr>", re.search(r'<table id="epoch-table">.*?</table>', text, re.DOTALL).group(0))) == (  # type: ignore[union-attr]
        N_EPOCHS + 1
    )
    assert "The last epoch did not converge, it ended by: step cap." in text


def table_cells(text: str, name: str) -> list[list[str]]:
    """Cells of each row of a table's body, tags taken out."""
    body = re.search(rf'<table id="{name}".*?<tbody>(.*?)</tbody>', text, re.DOTALL).group(1)  # type: ignore[union-attr]
    rows = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    return [[re.sub(r"<.*?>", "", cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)] for row in rows]


def test_bars_are_the_heaviest_columns_in_order(tmp_path: Path) -> None:
    path = fit_folder(tmp_path / "run", columns=tuple(f"column {k}" for k in range(20)))
    direction = json.loads((path / "result.json").read_text())["directions"][0]
    text = write_report(path).read_text(encoding="utf-8")
    standardised = np.array(direction["standardised"])
    order = np.argsort(-np.abs(standardised))[:8]
    assert table_cells(text, "bars-1") == [
        [f"column {k}", "", numbers.number(standardised[k], 2), numbers.number(direction["weights"][k], 2)]
        for k in order
    ]
    table = re.search(r'<table id="bars-1".*?</table>', text, re.DOTALL).group(0)  # type: ignore[union-attr]
    drawn = re.findall(r'<span class="(\w+)" style="width: ([\d.]+)%">', table)
    assert [name == "positive" for name, _ in drawn] == (standardised[order] > 0.0).tolist()
    lengths = np.abs(standardised[order]) / np.abs(standardised).max()
    np.testing.assert_allclose([float(width) / 50.0 for _, width in drawn], lengths, atol=2e-3)
    rest = float((np.delete(standardised, order) ** 2).sum() / (standardised**2).sum())
    assert f"The other 12 columns hold {numbers.percent(rest)} of its squared length." in text


def test_what_the_page_of_a_fit_shows(fitted: Path) -> None:
    text, figures = fitted.read_text(encoding="utf-8"), page_data(fitted)["figures"]
    for said in (
        "3 empty training cells of rooms hold its median 6.",
        "Column &#39;tax&#39; is &#39;price&#39; up to scale.",
        "the fit misses price by 2 on average",
        "age has values far out.",
        "The rows support 2 bends in 1 direction: the stated rule.",
    ):
        assert said in text
    assert table_cells(text, "score-table")[1] == ["ridge regression", "0.750", "0.710", "2.90", "2.32"]
    path = table_cells(text, "path-table")
    assert [row[-1] for row in path].count("chosen") == 1
    assert path[3] == ["penalised", "0.0720", "4", "0.800", "0.030", "chosen"]
    assert trace(figures["path-error"], "penalised")["y"] == [0.72, 0.78, 0.8, 0.78, 0.72]
    assert trace(figures["path-error"], "refitted without penalty")["y"] == [0.75]
    assert trace(figures["path-error"], "linear part alone")["y"] == [0.6, 0.6]
    assert trace(figures["path-error"], "chosen")["y"] == [0.8]
    assert trace(figures["path-neurons"], "bends")["y"] == [2, 3, 4, 5, 6]
    band = [trace(figures["ridge-1"], f"band, {edge}")["y"][-1] for edge in ("lower", "upper")]
    np.testing.assert_allclose(band, [2.9, 3.2])
    unseen, seen = (trace(figures["predictions"], name) for name in ("unseen rows", "rows it was fitted to"))
    assert unseen["customdata"] == list(range(301, 381))
    assert seen["customdata"] == list(range(1, 301))
    residual = trace(figures["residuals"], "unseen rows")
    np.testing.assert_allclose(residual["y"], np.array(unseen["x"]) - unseen["y"], atol=1e-4)


def test_directions_that_do_next_to_nothing_are_counted_and_not_drawn(tmp_path: Path) -> None:
    path = fit_folder(tmp_path / "run")
    edit_result(path, lambda result: result["directions"][1].update(importance=0.004))
    text = write_report(path).read_text(encoding="utf-8")
    assert "1 further direction, with 0.40\u00a0% together, not drawn" in text
    assert "ridge-2" not in page_data(path / "report.html")["figures"]


def test_a_fit_without_held_back_rows_or_directions_has_a_page(tmp_path: Path) -> None:
    path = fit_folder(tmp_path / "run", n_test=0)
    linear = {"directions": [], "path": [], "certificate": None, "cautions": []}
    ridge = json.loads((path / "result.json").read_text())["path"][0] | {"chosen": True}
    edit_result(path, lambda result: result.update(linear | {"path": [ridge]}))
    text = write_report(path).read_text(encoding="utf-8")
    assert "No direction was found beyond the linear part" in text
    assert "The linear part alone leaves nothing to explain." in text
    assert table_cells(text, "score-table")[0] == ["this fit", "0.910", "–", "–", "–"]
    assert page_data(path / "report.html")["figures"].keys() == {"predictions", "residuals"}


def test_a_run_without_epochs_has_a_page(tmp_path: Path) -> None:
    path = recover_folder(tmp_path / "run")
    folder = RunFolder.open(path)
    folder.write_trajectory(folder.read_trajectory().load().isel(step=[0], epoch=[]))
    edit_result(path, lambda result: result.update(epochs=[]))
    data = page_data(write_report(path))
    assert data["figures"].keys() == {"sphere"}
    assert [label["epoch"] for label in data["labels"]] == ["Start"]


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script>"
    page = write_report(fit_folder(tmp_path / "run", columns=(hostile, "<img src=x onerror=alert(1)>", "a & b")))
    text = page.read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "<img" not in text
    page_data(page)


def test_a_real_run(tmp_path: Path) -> None:
    config = RecoverConfig(dim=10, rank=3, teacher_width=3, width=60, n_epochs=2, seed=1, max_steps=400)
    run = RunFolder.create(tmp_path / "run", KIND, config)
    result = run_recover(config, prepare(config), run)
    page = write_report(run.path)
    data = page_data(page)
    assert recover.headline(result["recovery"]).replace("\u00a0", " ") in page.read_text(encoding="utf-8").replace(
        "\u00a0", " "
    )
    assert len(data["frames"]) == len(data["labels"]) == len(result["epochs"]) + 1
    assert data["labels"][-1]["epoch"] == "Epoch 2 of 2"
    for figure in data["figures"].values():
        go.Figure(figure)
    with np.load(run.path / "student.npz") as stored:
        student = TwoLayer.from_arrays(stored)
    alive = np.abs(student.masses) > 0.0
    np.testing.assert_allclose(
        sorted(mass for mass in data["frames"][-1]["mass"] if mass), sorted(student.masses[alive]), rtol=1e-3
    )


def edit_result(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    result = json.loads((path / "result.json").read_text())
    change(result)
    (path / "result.json").write_text(json.dumps(result))


def lose_a_chunk(path: Path) -> None:
    for chunk in (path / "trajectory.zarr" / "loss").iterdir():
        if not chunk.name.startswith("."):
            chunk.write_bytes(b"not a chunk")


def lose_a_variable(path: Path) -> None:
    folder = RunFolder.open(path)
    folder.write_trajectory(folder.read_trajectory().load().drop_vars("masses"))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (shutil.rmtree, "does not exist"),
        (lambda path: (path / "config.toml").unlink(), "config.toml"),
        (lambda path: (path / "result.json").unlink(), "wstar resume"),
        (lambda path: (path / "result.json").write_text('{"kind": "recov'), "result.json"),
        (lambda path: edit_result(path, lambda result: result.pop("recovery")), "lacks recovery"),
        (lambda path: edit_result(path, lambda result: result.update(kind="dance")), "'dance'"),
        (lambda path: edit_result(path, lambda result: result["recovery"].pop("neurons")), "neurons"),
        (lambda path: edit_result(path, lambda result: result.update(epochs=3)), "not whole"),
        (lambda path: shutil.rmtree(path / "trajectory.zarr"), "trajectory.zarr"),
        (lose_a_chunk, "trajectory.zarr"),
        (lose_a_variable, "lacks masses"),
        (lambda path: (path / "teacher.npz").unlink(), "teacher.npz"),
        (lambda path: (path / "teacher.npz").write_bytes(b"PK\x03\x04"), "teacher.npz"),
    ],
)
def test_a_broken_run_is_refused_in_one_line(tmp_path: Path, damage: Callable[[Path], object], said: str) -> None:
    path = recover_folder(tmp_path / "run")
    damage(path)
    before = sorted(path.iterdir()) if path.exists() else []
    with pytest.raises(ValueError, match=re.escape(said)) as refused:
        write_report(path)
    assert "\n" not in str(refused.value)
    assert (sorted(path.iterdir()) if path.exists() else []) == before


def test_a_failed_write_leaves_the_old_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recover_folder(tmp_path / "run")
    (path / "report.html").write_text("the old page")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_report(path)
    assert (path / "report.html").read_text() == "the old page"
    assert not list(path.glob(".report-*"))
