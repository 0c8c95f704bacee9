"""``wstar fit``: it finds what was planted, learns nothing from rows held back, and says only what the model says."""

import json
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import RidgeCV

from wstar.cli.main import main
from wstar.estimator.bands import Resamples
from wstar.estimator.cross_validation import TwoLayerRegressorCV
from wstar.experiments.config import FitConfig
from wstar.experiments.store import RunFolder
from wstar.experiments.table.diagnosis import diagnose
from wstar.experiments.table.fit import KIND, fit_table, prepare
from wstar.experiments.table.index_model import IndexModel
from wstar.experiments.table.predict import predict_table
from wstar.experiments.table.result import describe
from wstar.experiments.table.ridge import ridge_functions
from wstar.experiments.table.scores import certainty, r_squared
from wstar.experiments.table.table import Table
from wstar.experiments.table.training import encode, in_units, train
from wstar.experiments.table.words import shape

WSTAR = [sys.executable, "-c", "from wstar.cli.main import main; main()"]
CONFIG = FitConfig(table="planted.csv", target="y", folds=3, resamples=10)
DIRECTION = np.array([2.0, -1.0, 0.0, 0.5]) / np.sqrt(5.25)


def planted(n=400, seed=0, noise=0.05):
    """One ridge function with its kink off zero, and a linear column."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    y = 3.0 * np.maximum(X @ DIRECTION - 0.4, 0.0) + 0.5 * X[:, 2] + 7.0 + noise * rng.standard_normal(n)
    return X, y


def as_table(X, y):
    inputs = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    return Table("planted.csv", "y", inputs, y, np.arange(1, len(y) + 1), ())


def fitted_to(X, y, n_train, config=CONFIG):
    prepared = encode(as_table(X, y), np.arange(n_train), np.arange(n_train, len(y)))
    fitted = train(config, prepared)
    return prepared, fitted, describe(config, prepared, fitted)


@pytest.fixture(scope="module")
def whole():
    return fitted_to(*planted(), 320)


# ---------------------------------------------------------------- what is found


def test_the_planted_hinge_is_found_as_one(whole):
    prepared, _, result = whole
    first = result["directions"][0]
    weights = np.array(first["weights"])
    assert abs(weights @ DIRECTION) / np.linalg.norm(weights) > 0.999
    assert first["importance"] > 0.9
    assert first["stability"]["median"] > 0.99
    assert first["shape"] == "is flat, then rises"
    assert first["made_of"] == "x0 (+), x1 (−) and x3 (+)"
    # noise 0.05 against a target of standard deviation 1.5 leaves 1e-3
    assert result["scores"]["model"]["test"]["r2"] > 0.995
    assert result["scores"]["ridge"]["test"]["r2"] < 0.92
    t, value = (np.array(first["curve"][name]) for name in ("t", "value"))
    steepest = np.argmax(np.abs(np.diff(np.diff(value) / np.diff(t))))
    kink = t[steepest + 1] / np.linalg.norm(weights) + prepared.X_train.mean(axis=0) @ DIRECTION
    assert abs(kink - 0.4) < 0.05
    # what is left beside the hinge is the linear column
    np.testing.assert_allclose(result["linear"]["weights"], [0.0, 0.0, 0.5, 0.0], atol=0.05)
    assert result["support"] == {"neurons": 1, "directions": 1, "rule": result["support"]["rule"]}


def test_bands_hold_the_truth(whole):
    """Pointwise 90 % bands of 10 resamples, at 5 points of the middle: the planted curve within twice their width."""
    first = whole[2]["directions"][0]
    curve = {name: np.array(first["curve"][name]) for name in ("t", "value", "low", "high")}
    assert (curve["low"] <= curve["high"]).all()
    X, _ = planted()
    weights = np.array(first["weights"])
    truth = 3.0 * np.maximum(X[:320] @ DIRECTION - 0.4, 0.0)
    order = np.argsort((X[:320] - X[:320].mean(axis=0)) @ weights)[40:-40:50]
    t = ((X[:320] - X[:320].mean(axis=0)) @ weights)[order]
    low, high = (np.interp(t, curve["t"], curve[name]) for name in ("low", "high"))
    width = high - low
    assert (truth[order] - truth.mean() >= low - width - 0.05).all()
    assert (truth[order] - truth.mean() <= high + width + 0.05).all()


def test_the_result_is_whole(whole):
    prepared, fitted, result = whole
    assert (result["n_train"], result["n_test"]) == (320, 80)
    predictions = {name: np.array(values) for name, values in result["predictions"].items()}
    unseen = predictions["unseen"].astype(bool)
    assert unseen.sum() == 80
    np.testing.assert_array_equal(predictions["row"], np.arange(1, 401))
    for rows, part in ((~unseen, "train"), (unseen, "test")):
        score = r_squared(predictions["observed"][rows], predictions["predicted"][rows])
        assert score == pytest.approx(result["scores"]["model"][part]["r2"], rel=1e-12)
    errors = predictions["observed"][unseen] - predictions["predicted"][unseen]
    assert result["scores"]["model"]["test"]["mae"] == pytest.approx(np.abs(errors).mean())
    assert result["scores"]["mean"]["train"]["r2"] == pytest.approx(0.0, abs=1e-12)
    assert sum(d["importance"] for d in result["directions"]) == pytest.approx(1.0)
    assert [row["chosen"] for row in result["path"]].count(True) == 1
    chosen = next(row for row in result["path"] if row["chosen"])
    assert chosen["cv_error"] == min(row["cv_error"] for row in result["path"])
    assert chosen["n_neurons"] == len(fitted.regressor.masses_)
    assert 0.0 < chosen["cv_standard_error"] < chosen["cv_error"]
    assert result["certificate"]["gap"] >= 0.0
    json.dumps(result["directions"])
    assert len(result["columns"]) == len(result["column_sd"]) == len(result["linear"]["weights"]) == 4
    ridge = RidgeCV(np.logspace(-3, 6, 37)).fit(prepared.X_train, prepared.y_train)
    plain = ridge.score(prepared.X_test, prepared.y_test)
    assert result["scores"]["ridge"]["test"]["r2"] == pytest.approx(plain, abs=2e-3)


def test_the_page_adds_up_to_the_prediction(whole):
    """Curves, linear part and intercept of result.json give back what the model predicts for the training rows."""
    prepared, fitted, result = whole
    centred = prepared.X_train - np.array(result["column_mean"])
    total = result["linear"]["intercept"] + centred @ result["linear"]["weights"]
    for one in result["directions"]:
        total = total + np.interp(centred @ one["weights"], one["curve"]["t"], one["curve"]["value"])
    predicted = fitted.predict(prepared.X_train)
    # neurons in line within 0.2 rad are drawn as one
    assert np.std(total - predicted) < 0.02 * np.std(predicted)


def test_rows_held_back_teach_nothing(whole):
    """Neither their labels (a paper's notebook used them in preprocessing) nor their inputs."""
    _, fitted, result = whole
    X, y = planted()
    X[320:], y[320:] = 50.0 * X[320:][::-1], -1e3 * y[320:] ** 2
    _, again, other = fitted_to(X, y, 320)
    for name in ("masses", "directions", "thresholds", "linear", "intercept", "low", "high"):
        np.testing.assert_array_equal(getattr(again.model, name), getattr(fitted.model, name))
    for name in ("preprocessing", "directions", "path", "support", "column_sd"):
        assert other[name] == result[name]
    assert other["scores"]["model"]["test"] != result["scores"]["model"]["test"]


def test_units_do_not_matter(whole):
    units = np.array([1e-6, 3.0, 1e5, 7.0])
    X, y = planted()
    _, _, other = fitted_to(X * units + 2.0, 1e4 * y - 5.0, 320)
    here, there = whole[2]["scores"], other["scores"]
    assert there["model"]["test"]["r2"] == pytest.approx(here["model"]["test"]["r2"], abs=1e-6)
    assert there["ridge"]["test"]["r2"] == pytest.approx(here["ridge"]["test"]["r2"], abs=1e-6)
    assert there["model"]["test"]["mae"] == pytest.approx(1e4 * here["model"]["test"]["mae"], rel=1e-5)
    first, again = whole[2]["directions"][0], other["directions"][0]
    np.testing.assert_allclose(np.array(again["weights"]) * units, first["weights"], atol=1e-6)
    np.testing.assert_allclose(again["standardised"], first["standardised"], atol=1e-6)
    np.testing.assert_allclose(again["curve"]["value"], 1e4 * np.array(first["curve"]["value"]), atol=1e-2)


def test_one_column_is_enough():
    x = np.linspace(-2.0, 2.0, 60)
    order = np.random.default_rng(0).permutation(60)
    _, _, result = fitted_to(x[order, None], np.abs(x - 0.5)[order], 45)
    assert result["scores"]["model"]["test"]["r2"] > 0.999
    assert result["directions"][0]["shape"].startswith("falls, then rises")
    assert result["directions"][0]["standardised"] == pytest.approx([1.0])


def test_a_linear_target_needs_no_direction():
    X, _ = planted(n=80)
    _, fitted, result = fitted_to(X, X @ [1.0, 2.0, 0.0, -1.0] + 3.0, 60)
    assert result["directions"] == []
    # the linear part keeps the ridge penalty that leave-one-out chooses
    assert result["scores"]["model"]["test"]["r2"] == pytest.approx(1.0, abs=1e-5)
    assert result["certificate"] is None
    assert fitted.resamples is None
    assert any("the fit is linear" in sentence for sentence in result["summary"])
    np.testing.assert_allclose(result["linear"]["weights"], [1.0, 2.0, 0.0, -1.0], atol=5e-3)


def test_the_simplest_model_within_one_standard_error_has_no_more_neurons():
    X, y = planted(n=120, noise=0.8)
    models = [
        fitted_to(X, y, 120, CONFIG.model_copy(update={"rule": rule, "resamples": 0})) for rule in ("min", "one-se")
    ]
    counts = [len(fitted.model.masses) for _, fitted, _ in models]
    assert counts[1] <= counts[0]
    path = models[1][2]["path"]
    chosen = next(row for row in path if row["chosen"])
    best = min(row["cv_error"] for row in path)
    assert chosen["cv_error"] <= best + 2.0 * max(row["cv_standard_error"] for row in path)
    assert models[1][2]["scores"]["model"]["test"] is None
    assert models[1][2]["scores"]["certainty"] is None


def test_a_robust_fit_bears_outliers():
    X, y = planted(n=300)
    rows = np.random.default_rng(2).choice(240, 12, replace=False)
    y[rows] += 60.0
    scores = [
        fitted_to(X, y, 240, CONFIG.model_copy(update={"robust": robust, "resamples": 0}))[2]["scores"]["model"]["test"]
        for robust in (False, True)
    ]
    assert scores[1]["mae"] < 0.5 * scores[0]["mae"]


# ---------------------------------------------------------------- ridge functions


def scattered(rng, width=4, dim=5, relu=False):
    """A model whose directions are far apart, and rows with mean 0 on which their projections have spread 1."""
    X = rng.standard_normal((200, dim))
    X -= X.mean(axis=0)
    directions = np.eye(width, dim) + 0.1 * rng.standard_normal((width, dim))
    directions /= (X @ directions.T).std(axis=0)[:, None]
    model = IndexModel(
        rng.normal(size=width),
        directions,
        0.5 * rng.normal(size=width),
        rng.normal(size=dim),
        0.7,
        X.min(axis=0) - 1.0,
        X.max(axis=0) + 1.0,
        relu,
    )
    return model, X


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_ridge_functions_add_up_to_the_prediction(seed, relu):
    rng = np.random.default_rng(seed)
    model, X = scattered(rng, relu=relu)
    labels = model(X) + rng.standard_normal(200)
    directions, linear = ridge_functions(model, X, labels)
    total = linear["intercept"] + X @ linear["weights"]
    assert len(directions) == 4
    for direction in directions:
        t = X @ direction["weights"]
        # all kinks are on the grid: linear interpolation is exact
        curve = np.interp(t, direction["curve"]["t"], direction["curve"]["value"])
        assert curve.mean() == pytest.approx(0.0, abs=1e-12)
        assert t.std() == pytest.approx(1.0)
        np.testing.assert_allclose(direction["points"]["value"], curve + labels - model(X), atol=1e-12)
        np.testing.assert_allclose(direction["points"]["t"], t)
        total = total + curve
    np.testing.assert_allclose(total, model(X), atol=1e-12)


def test_neurons_without_a_kink_among_the_rows_are_linear():
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (50, 2))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    far = np.full(2, 10.0)
    model = IndexModel(np.array([2.0, -1.0]), np.eye(2), np.array([5.0, -5.0]), np.zeros(2), 0.0, -far, far, False)
    directions, linear = ridge_functions(model, X, np.zeros(50))
    assert directions == []
    assert linear["intercept"] == pytest.approx(2.0 * 5.0 - 5.0)
    np.testing.assert_allclose(linear["weights"], [2.0, 1.0])


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_v_beside_a_slope_is_a_hinge(side):
    """``|t| ± t = 2 max(±t, 0)``: one function, and the one without a linear part is shown."""
    X = np.random.default_rng(0).standard_normal((100, 2))
    X -= X.mean(axis=0)
    u = np.array([0.6, 0.8])
    u /= (X @ u).std()
    far = np.full(2, 10.0)
    model = IndexModel(np.array([1.5]), u[None], np.array([0.3]), side * 1.5 * u, side * 0.45, -far, far, False)
    directions, linear = ridge_functions(model, X, np.zeros(100))
    np.testing.assert_allclose(linear["weights"], 0.0, atol=1e-14)
    value = np.interp(X @ u, directions[0]["curve"]["t"], directions[0]["curve"]["value"])
    expected = 3.0 * np.maximum(side * (X @ u + 0.3), 0.0)
    np.testing.assert_allclose(value, expected - expected.mean(), atol=1e-12)


def test_neurons_of_one_direction_are_one_function():
    X = np.random.default_rng(0).standard_normal((100, 2))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    directions = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    far = np.full(2, 10.0)
    thresholds = np.array([0.0, 0.4, 0.0])
    model = IndexModel(np.array([1.0, 1.0, -0.5]), directions, thresholds, np.zeros(2), 0.0, -far, far, False)
    found, _ = ridge_functions(model, X, np.zeros(100))
    assert [(one["mass"], one["n_neurons"]) for one in found] == [(2.0, 2), (-0.5, 1)]
    np.testing.assert_allclose(np.abs([one["weights"] for one in found]), np.eye(2), atol=1e-12)


@pytest.mark.parametrize("relu", [False, True])
def test_resamples_that_agree_have_no_band(relu):
    model, X = scattered(np.random.default_rng(0), relu=relu)
    same = Resamples(np.ones((7, 4)), np.tile(model.masses, (7, 1)), np.tile(model.thresholds, (7, 1)), relu)
    found, _ = ridge_functions(model, X, model(X), same)
    for one in found:
        np.testing.assert_allclose(one["curve"]["low"], one["curve"]["value"], atol=1e-12)
        np.testing.assert_allclose(one["curve"]["high"], one["curve"]["value"], atol=1e-12)
        assert one["stability"] == {"median": 1.0, "low": 1.0}


def test_a_band_of_masses_is_that_of_the_curve():
    """Masses of 1 ± 0.5 give curves of 1 ± 0.5 times the fit's; resampling a quarter of the rows, half as far."""
    X = np.random.default_rng(0).standard_normal((300, 1))
    X = (X - X.mean()) / X.std()
    far = np.full(1, 10.0)
    model = IndexModel(np.ones(1), np.ones((1, 1)), np.zeros(1), np.zeros(1), 0.0, -far, far, False)
    masses = np.linspace(0.5, 1.5, 101)[:, None]
    drawn = Resamples(np.ones((101, 1)), masses, np.zeros((101, 1)), False)
    for shrunk, spread in ((1.0, 0.45), (0.5, 0.225)):
        curve = {
            name: np.array(v) for name, v in ridge_functions(model, X, model(X), drawn, shrunk)[0][0]["curve"].items()
        }
        np.testing.assert_allclose(curve["high"] - curve["value"], spread * np.abs(curve["value"]), atol=1e-9)
        np.testing.assert_allclose(curve["value"] - curve["low"], spread * np.abs(curve["value"]), atol=1e-9)


def test_resampled_neurons_are_matched_once_and_about_the_columns_means():
    """A band along a direction is that of the function: moving the columns moves nothing, and no mass counts twice."""
    X, y = planted(n=150, noise=0.5)
    bands = []
    for mean in (0.0, 1000.0):
        regressor = TwoLayerRegressorCV(3, average=False, refit=False, random_state=0).fit(X + mean, y)
        drawn = regressor.bootstrap(X + mean, y, n_resamples=6)
        bands.append(drawn.band(0, (X + mean) @ regressor.directions_[0]))
        for masses, thresholds in zip(drawn.masses, drawn.thresholds, strict=True):
            assert len(set(zip(masses[masses != 0.0], np.abs(thresholds)[masses != 0.0], strict=True))) == sum(
                masses != 0
            )
    np.testing.assert_allclose(bands[1], bands[0], atol=1e-4 * np.abs(bands[0]).max())


def test_a_model_is_clipped_stored_and_turned_into_v(tmp_path):
    rng = np.random.default_rng(0)
    model, X = scattered(rng, relu=True)
    np.testing.assert_allclose(model.without_relu()(X), model(X), atol=1e-12)
    far = 100.0 * X
    np.testing.assert_array_equal(model(far), model(np.clip(far, model.low, model.high)))
    assert model.outside(far).sum() == (np.clip(far, model.low, model.high) != far).sum() > 0
    np.savez(tmp_path / "network.npz", **model.to_arrays())
    with np.load(tmp_path / "network.npz", allow_pickle=False) as stored:
        again = IndexModel.from_arrays(dict(stored))
    np.testing.assert_array_equal(again(X), model(X))


# ---------------------------------------------------------------- words and warnings

LINE = np.linspace(-2.0, 2.0, 41)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.zeros(41), "is flat"),
        (LINE, "rises evenly"),
        (-2.0 * LINE, "falls evenly"),
        (np.maximum(LINE, 0.0), "is flat, then rises"),
        (np.minimum(LINE, 0.0), "rises, then is flat"),
        (-np.maximum(LINE, 0.0), "is flat, then falls"),
        (np.exp(LINE) + LINE, "rises, ever more steeply"),
        (-np.exp(-LINE) + LINE, "rises, ever less steeply"),
        (np.abs(LINE - 0.5), "falls, then rises: least near 0.5"),
        (-np.abs(LINE), "rises, then falls: greatest near 0"),
        (np.sin(4.0 * LINE), "goes up and down"),
    ],
)
def test_the_shape_of_a_curve_in_words(value, said):
    assert shape(LINE, value) == said


def test_the_certainty_of_a_score():
    rng = np.random.default_rng(0)
    y = rng.standard_normal(400)
    noisy, noisier = y + 0.5 * rng.standard_normal(400), y + 0.7 * rng.standard_normal(400)
    same = certainty(y, noisy, noisy, 0)
    assert same["better_than_ridge"] == 0.5
    better = certainty(y, noisy, noisier, 0)
    assert better["better_than_ridge"] > 0.99
    # 0.25 of a variance of 1, over 400 rows: the standard error of R² is about 0.25 √(2/400 · 2)
    assert better["r2_low"] < r_squared(y, noisy) < better["r2_high"]
    assert 0.02 < better["r2_high"] - better["r2_low"] < 0.12
    assert certainty(y[:5], noisy[:5], noisier[:5], 0) is None


def test_heavy_tails_and_classes_are_told_of_and_gaussian_columns_are_not():
    """20 Gaussian tables of 200 rows: skewness of a projection above 1 is six standard errors out."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((200, 3))
        assert diagnose(X, X[:, 0], list("abc"), np.eye(3))["applies"]
    X = np.column_stack([X, np.exp(3.0 * rng.standard_normal(200)), rng.integers(0, 2, 200), rng.standard_normal(200)])
    found = diagnose(X, np.exp(2.0 * X[:, 0]), list("abcdef"), np.eye(6)[[0, 3]])
    assert not found["applies"]
    assert found["heavy"] == ["d"]
    assert found["few_valued"] == ["e"]
    said = " ".join(found["sentences"])
    assert "logarithm of d" in said
    assert "projections on direction 2" in said
    assert "target is far skewed" in said


def test_few_rows_for_many_columns_are_cautioned_of():
    rng = np.random.default_rng(0)
    prepared = encode(
        as_table(rng.standard_normal((30, 15)), rng.standard_normal(30)), np.arange(24), np.arange(24, 30)
    )
    assert any("24 training rows for 15 columns" in caution for caution in prepared.cautions)
    assert encode(as_table(*planted(60)), np.arange(50), np.arange(50, 60)).cautions == ()


# ---------------------------------------------------------------- the whole way


def messy(n=260, seed=0):
    """The planted hinge with a level that shifts it, a trend in time, gaps, and a column of names."""
    rng = np.random.default_rng(seed)
    X, y = planted(n, seed)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["kind"] = rng.choice(["u", "v", "w"], n)
    days = rng.integers(0, 800, n)
    frame["day"] = pd.Timestamp("2021-06-01") + pd.to_timedelta(days, unit="D")
    frame["name"] = [f"row {i}" for i in rng.permutation(n)]
    frame["y"] = y + 2.0 * (frame["kind"] == "v") + 0.003 * days
    frame.loc[rng.choice(n, 20, replace=False), "c"] = np.nan
    return frame


@pytest.fixture(scope="module")
def run_of_messy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("messy")
    messy().to_csv(folder / "t.csv", index=False)
    config = CONFIG.model_copy(update={"table": str(folder / "t.csv")})
    prepared = prepare(config)
    run = RunFolder.create(folder / "run", KIND, config)
    return run, config, prepared, fit_table(config, prepared, run)


def test_from_a_messy_file_to_a_run_folder(run_of_messy):
    run, _, prepared, result = run_of_messy
    stored = json.loads((run.path / "result.json").read_text())
    assert stored["scores"] == result["scores"]
    assert {p.name for p in run.path.iterdir()} == {"config.toml", "result.json", "columns.json", "network.npz"}
    assert (stored["n_train"], stored["n_test"]) == (208, 52)
    assert stored["scores"]["model"]["test"]["r2"] > 0.93
    said = " ".join(stored["preprocessing"])
    for words in ("Dropped name", "kind is text", "day is a date", "hold its median", "Numbers that stay"):
        assert words in said
    assert "c=(empty)" in stored["columns"]
    assert set(prepared.train) | set(prepared.test) == set(range(260))


def test_predictions_for_new_rows_are_the_models(run_of_messy, tmp_path):
    run, _, _, result = run_of_messy
    frame = messy()
    frame.drop(columns="name").to_parquet(tmp_path / "again.parquet")
    found = predict_table(run, tmp_path / "again.parquet")
    shown = result["predictions"]
    at = np.array(shown["row"]) - 1
    np.testing.assert_allclose(found.values[at], shown["predicted"], rtol=1e-9)
    assert any(note.startswith("R² 0.9") for note in found.notes)
    new = frame.drop(columns=["name", "y"]).head(4).astype({"kind": object, "a": object})
    new.loc[0, "kind"], new.loc[1, "a"], new.loc[2, "b"], new.loc[3, "day"] = "zebra", "much", 1e6, pd.NaT
    new.to_csv(tmp_path / "new.csv", index=False)
    odd = predict_table(run, tmp_path / "new.csv")
    assert np.isfinite(odd.values).all()
    assert list(odd.frame.columns) == [*new.columns, "predicted y"]
    said = " ".join(odd.notes)
    for words in (
        "kind holds in 1 row a rare",
        "a holds in 1 row no number",
        "b is beyond the range that was fitted in 1 row",
    ):
        assert words in said
    assert "R²" not in said


def without(result, *names):
    return {key: value for key, value in result.items() if key not in ("seconds", *names)}


def test_neither_the_kind_of_file_nor_the_order_of_rows_matters(run_of_messy, tmp_path):
    _, config, _, result = run_of_messy
    shuffled = messy().sample(frac=1.0, random_state=3)
    shuffled.to_parquet(tmp_path / "t.parquet")
    config = config.model_copy(update={"table": str(tmp_path / "t.parquet")})
    other = fit_table(config, prepare(config))
    changed = ("table", "preprocessing", "predictions")
    assert without(other, *changed) == without(result, *changed)
    assert other["predictions"]["predicted"] == result["predictions"]["predicted"]
    assert other["preprocessing"][1:] == result["preprocessing"][1:]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"target": "z"}, "no column 'z'"),
        ({"test_size": 0.98}, "training rows"),
        ({"leave_out": ["a", "b", "c", "d"]}, "no input column"),
        ({"leave_out": ["aa"]}, "did you mean 'a'"),
    ],
)
def test_wrong_settings_are_refused_before_any_work(tmp_path, change, words):
    X, y = planted(n=60)
    pd.DataFrame(X, columns=list("abcd")).assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    config = CONFIG.model_copy(update={"table": str(tmp_path / "t.csv")} | change)
    with pytest.raises(ValueError, match=words):
        prepare(config)


def test_a_target_that_is_constant_in_training():
    X, y = planted(n=60)
    y[:50] = 1.0
    with pytest.raises(ValueError, match="all training rows"):
        encode(as_table(X, y), np.arange(50), np.arange(50, 60))


# ---------------------------------------------------------------- the command line


def call(monkeypatch, capsys, *arguments):
    """Exit code, output and errors of the command in this process."""
    monkeypatch.setattr(sys, "argv", ["wstar", *map(str, arguments)])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with pytest.raises(SystemExit) as ended:
            main()
    printed = capsys.readouterr()
    return ended.value.code, printed.out, printed.err


def test_fit_report_and_predict_from_the_command_line(tmp_path, monkeypatch, capsys, as_shipped):
    monkeypatch.chdir(tmp_path)
    X, y = planted(n=120)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y, twice=2.0 * y)
    frame.to_csv("t.csv", index=False)
    options = ("--target", "y", "--folds", "3", "--resamples", "0", "--out", "run")
    code, out, err = call(monkeypatch, capsys, "fit", "t.csv", *options)
    assert code == 0
    assert "'twice' is 'y' up to scale" in err
    code, out, err = call(monkeypatch, capsys, "fit", "t.csv", *options, "--leave-out", "twice", "--force")
    assert (code, err) == (0, "")
    for words in ("direction", "this fit", "ridge regression", "unseen rows", "run/report.html", "a, b, c, d"):
        assert words in out
    page = (tmp_path / "run" / "report.html").read_text()
    assert "ridge regression reaches" in page
    code, out, err = call(monkeypatch, capsys, "fit", "--config", "run/config.toml", "--json", "--out", "again")
    assert without(json.loads(out)) == without(json.loads((tmp_path / "run" / "result.json").read_text()))
    code, out, err = call(monkeypatch, capsys, "predict", "run", "t.csv", "--out", "p.csv")
    assert (code, out) == (0, "")
    assert "R² 0.99" in err
    written = pd.read_csv("p.csv")
    assert list(written.columns) == [*frame.columns, "predicted y"]
    code, out, _ = call(monkeypatch, capsys, "predict", "run", "t.csv")
    assert out.splitlines()[0] == ",".join(written.columns)
    assert len(out.splitlines()) == 121


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["fit"], "TABLE is missing"),
        (["fit", "t.csv"], "--target is missing"),
        (["fit", "t.csv", "--target", "yy"], "did you mean 'y'"),
        (["fit", "none.csv", "--target", "y"], "does not exist"),
        (["fit", "t.csv", "--target", "word"], "holds text"),
        (["fit", "t.csv", "--target", "day"], "holds dates"),
        (["fit", "t.csv", "--target", "y", "--missing", "refuse"], "--missing impute"),
        (["fit", "t.csv", "--target", "y", "--categories", "refuse"], "--categories onehot"),
        (["fit", "t.csv", "--target", "y", "--dates", "refuse"], "--dates parts"),
        (["fit", "t.csv", "--target", "y", "--missing", "mean"], "'mean'"),
        (["fit", "t.csv", "--target", "y", "--leave-out", "dayy"], "did you mean 'day'"),
        (["fit", "t.csv", "--target", "y", "--folds", "1"], "folds=1"),
        (["fit", "t.csv", "--target", "y", "--width", "40"], "--width"),
        (["fit", "short.csv", "--target", "y"], "one row"),
        (["fit", "empty.csv", "--target", "y"], "empty"),
        (["fit", "days.csv", "--target", "y", "--dates", "drop"], "no input column"),
        (["predict", "nowhere", "t.csv"], "not a run folder"),
        (["predict", "other", "t.csv"], "of kind 'recover'"),
        (["predict", "unfinished", "t.csv"], "resume"),
        (["predict", "t.csv"], "TABLE"),
        (["predict", "other", "t.csv", "--out", "p.xlsx"], ".csv and .parquet"),
        (["predict", "other", "t.csv", "--out", "t.csv"], "--force"),
    ],
)
def test_bad_input_is_one_line_with_exit_code_two_and_leaves_nothing(
    tmp_path, arguments, says, monkeypatch, capsys, as_shipped
):
    lines = [f"{i},{i * i % 7},2024-01-{10 + i},{'uvw'[i % 3]}" for i in range(15)]
    (tmp_path / "t.csv").write_text("\n".join(["a,y,day,word", *lines, ",3,2024-02-01,u"]))
    (tmp_path / "short.csv").write_text("a,y\n1,2\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "days.csv").write_text("\n".join(["day,y", *(f"2024-01-{10 + i},{i * i % 7}" for i in range(15))]))
    for name, kind in (("other", "recover"), ("unfinished", "fit")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.toml").write_text(f'kind = "{kind}"\n')
    before = sorted(tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    code, out, err = call(monkeypatch, capsys, *arguments)
    assert (code, out) == (2, "")
    lines = err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("wstar: error: ")
    assert says in lines[0]
    assert sorted(tmp_path.iterdir()) == before


def test_a_table_of_dates_alone_can_be_fitted(tmp_path):
    days = pd.date_range("2023-01-01", periods=150, freq="3D")
    y = np.cos(2 * np.pi * days.day_of_year / 365.25) + 0.002 * np.arange(150)
    pd.DataFrame({"day": days.strftime("%Y-%m-%d"), "y": y}).to_csv(tmp_path / "t.csv", index=False)
    config = CONFIG.model_copy(update={"table": str(tmp_path / "t.csv"), "resamples": 0})
    result = fit_table(config, prepare(config))
    assert result["scores"]["model"]["test"]["r2"] > 0.99
    assert result["columns"][0] == "day (days since 2023-01-01)"


@pytest.mark.parametrize("damage", ["gone", "cut short"])
@pytest.mark.parametrize("name", ["columns.json", "network.npz"])
def test_a_damaged_model_is_refused(run_of_messy, tmp_path, damage, name):
    source = run_of_messy[0].path
    for file in source.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    if damage == "gone":
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes((source / name).read_bytes()[:100])
    with pytest.raises(ValueError, match=r"run the fit again"):
        predict_table(RunFolder.open(tmp_path), source.parent / "t.csv")


def test_a_killed_fit_starts_over_to_the_same_result(run_of_messy, tmp_path):
    _, config, _, result = run_of_messy
    folder = tmp_path / "run"
    options = ["--target", "y", "--folds", str(config.folds), "--resamples", str(config.resamples)]
    process = subprocess.Popen(
        [*WSTAR, "fit", config.table, *options, "--out", str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not folder.exists():
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (folder / "result.json").exists()
    resumed = subprocess.run([*WSTAR, "resume", str(folder)], capture_output=True, text=True, timeout=300, check=False)
    assert resumed.returncode == 0, resumed.stderr
    found = json.loads((folder / "result.json").read_text())
    assert without(found) == without(json.loads((run_of_messy[0].path / "result.json").read_text()))
    with np.load(folder / "network.npz") as ours, np.load(run_of_messy[0].path / "network.npz") as theirs:
        assert all(np.array_equal(ours[name], theirs[name]) for name in theirs.files)
    assert (folder / "report.html").is_file()
    assert result["n_train"] == found["n_train"]


def test_the_model_in_units_is_the_model(whole):
    prepared, fitted, _ = whole
    np.testing.assert_allclose(in_units(fitted)(prepared.X_test), fitted.predict(prepared.X_test), atol=1e-10)


def test_a_row_off_the_line_of_two_columns_that_hardly_differ_stays_near_the_labels():
    """Each of its cells has been seen; their difference, which the fit gives a slope of hundreds, has not."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal(300)
    b = a + 1e-3 * rng.standard_normal(300)
    y = 500.0 * (b - a) + 0.1 * rng.standard_normal(300)
    prepared = encode(as_table(np.column_stack([a, b]), y), np.arange(300), np.arange(0))
    model = in_units(train(FitConfig(table="-", target="y", resamples=0), prepared))
    assert model.linear[1] - model.linear[0] > 200.0
    ends = model(np.array([[1.0, -1.0], [-1.0, 1.0]]))
    room = 0.25 * (y.max() - y.min())
    np.testing.assert_allclose(np.sort(ends), [y.min() - room, y.max() + room])
