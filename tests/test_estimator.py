"""The scikit-learn estimators: conformity, invariances, units, planted truth, bad input."""

import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from wstar import TwoLayerRegressor, TwoLayerRegressorCV

BOTH = pytest.mark.parametrize("regressor", [TwoLayerRegressor, TwoLayerRegressorCV])


@parametrize_with_checks([TwoLayerRegressor(), TwoLayerRegressorCV()])
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    with warnings.catch_warnings():
        # checks with tiny tables have columns that equal y, and constant y
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)


@pytest.fixture(scope="module")
def bent():
    """400 rows, y = |x0 + x1| − max(x2, 0) + x3 + 0.05 noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    truth = np.abs(X[:, 0] + X[:, 1]) - np.maximum(X[:, 2], 0.0) + X[:, 3]
    return SimpleNamespace(X=X, y=truth + 0.05 * rng.normal(size=400), truth=truth)


@pytest.fixture(scope="module")
def fitted(bent):
    return TwoLayerRegressor(random_state=0).fit(bent.X, bent.y)


def three_neurons(seed, n=3000, d=20, noise=0.1):
    """Three positive ReLU neurons in a plane, at angles of 60°, 75° and 45°, f scaled to standard deviation 1."""
    rng = np.random.default_rng(seed)
    plane = np.linalg.qr(rng.normal(size=(d, 2)))[0].T
    turns = np.deg2rad([0.0, 60.0, 135.0])
    W = np.column_stack([np.cos(turns), np.sin(turns)]) @ plane
    scale = np.maximum(rng.normal(size=(100_000, d)) @ W.T, 0.0).sum(axis=1).std()
    X = rng.normal(size=(n, d))
    return X, np.maximum(X @ W.T, 0.0).sum(axis=1) / scale + noise * rng.normal(size=n), W


def cosines(directions, W):
    return np.abs(directions @ W.T / np.linalg.norm(directions, axis=1, keepdims=True)).max(axis=0)


def test_neurons_of_a_small_table_are_named_in_its_units(bent, fitted):
    W = np.array([[1.0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]]) / np.array([[2**0.5], [1.0]])
    assert len(fitted.masses_) == 2
    assert cosines(fitted.directions_, W).min() > 0.998
    # y's own units: |x0 + x1| is √2 · |a projection of variance 1|; noise and sampling leave 2 %
    assert abs(fitted.masses_.max()) == pytest.approx(np.sqrt(2.0), rel=0.05)


def test_attributes_are_the_prediction(bent, fitted):
    own = fitted.intercept_ + bent.X @ fitted.linear_ + fitted.transform(bent.X) @ fitted.masses_
    assert np.allclose(own, fitted.predict(bent.X), rtol=0.0, atol=1e-7)
    assert (np.diff(fitted.importances_) <= 0.0).all()
    spread = np.std(bent.X @ fitted.directions_.T, axis=0)
    assert np.allclose(spread, 1.0, rtol=1e-9)


@pytest.mark.parametrize("seed", [0, 1])
def test_more_neurons_than_dimensions_are_all_named(seed):
    """Test error is that of least squares on the true neurons: 60 parameters at noise 0.1 give 2e-4 ± 4e-5 (one sd)."""
    X, y, W = three_neurons(seed)
    model = TwoLayerRegressor(random_state=0).fit(X, y)
    fresh = np.random.default_rng(100 + seed).normal(size=(5000, 20))
    scale = np.maximum(np.random.default_rng(seed + 7).normal(size=(200_000, 20)) @ W.T, 0.0).sum(axis=1).std()
    clean = np.maximum(fresh @ W.T, 0.0).sum(axis=1) / scale
    assert cosines(model.directions_, W).min() > 0.998
    assert len(model.masses_) == 3
    assert (model.n_supported_neurons_, model.n_supported_directions_) == (3, 2)
    # the scales are drawn: each is off by at most 1 %
    best = np.sum(clean * model.predict(fresh)) / np.sum(clean**2)
    assert best == pytest.approx(1.0, abs=0.02)
    assert np.mean((model.predict(fresh) - best * clean) ** 2) / clean.var() < 4e-4


def test_orthonormal_abs_without_noise_is_exact():
    rng = np.random.default_rng(0)
    W = np.linalg.qr(rng.normal(size=(30, 5)))[0].T
    X, fresh = rng.normal(size=(4000, 30)), rng.normal(size=(2000, 30))
    model = TwoLayerRegressor(random_state=0).fit(X, np.abs(X @ W.T).sum(axis=1))
    assert cosines(model.directions_, W).min() > 1.0 - 1e-9
    assert np.allclose(model.predict(fresh), np.abs(fresh @ W.T).sum(axis=1), atol=1e-5)
    assert (model.n_supported_neurons_, model.n_supported_directions_) == (5, 5)


def test_pure_noise_and_a_line_support_no_neuron():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 5))
    for y in (rng.normal(size=500), X[:, 0] + 0.5 * rng.normal(size=500)):
        model = TwoLayerRegressor(random_state=0).fit(X, y)
        assert model.n_supported_neurons_ == 0


@BOTH
@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_units_change_nothing(bent, regressor, scale):
    model = regressor(random_state=0).fit(bent.X, bent.y)
    units = np.array([scale, 1.0, 1.0 / scale, 3.0, 1.0, 0.1])
    other = regressor(random_state=0).fit(bent.X * units, scale * bent.y)
    own, theirs = model.predict(bent.X), other.predict(bent.X * units) / scale
    assert np.allclose(theirs, own, rtol=0.0, atol=1e-6 * np.abs(own).max())
    assert np.allclose(other.directions_ * units, model.directions_, atol=1e-5)


@BOTH
def test_weights_are_repetitions_and_order_is_nothing(bent, regressor):
    rng = np.random.default_rng(1)
    X, y, counts = bent.X[:150], bent.y[:150], rng.integers(0, 4, 150).astype(float)
    before = counts.copy()
    weighted = regressor(random_state=0).fit(X, y, sample_weight=counts)
    repeated = regressor(random_state=0).fit(*(np.repeat(part, counts.astype(int), axis=0)[::-1] for part in (X, y)))
    assert np.array_equal(counts, before)
    assert np.array_equal(weighted.predict(X), repeated.predict(X))
    assert np.array_equal(weighted.directions_, repeated.directions_)


def test_ridge_is_the_first_point(bent):
    """With only one λ above which nothing enters, the fit is scikit-learn's ridge at the penalty chosen."""
    model = TwoLayerRegressor(1e3, random_state=0).fit(bent.X, bent.y)
    Z = StandardScaler().fit_transform(bent.X)
    ridge = Ridge(alpha=model.alpha_ * len(Z)).fit(Z, bent.y)
    assert len(model.masses_) == 0
    assert np.allclose(model.predict(bent.X), ridge.predict(Z), atol=1e-10)
    chosen = RidgeCV(10.0 ** np.arange(-6, 3.01, 0.25) * len(Z)).fit(Z, bent.y)
    assert model.alpha_ * len(Z) == pytest.approx(chosen.alpha_)


def test_certificate_is_the_measure_solvers(bent):
    """Optimal_measure has the linear part free; at α → 0 both problems are one, and its optimum is bounded by ours."""
    from wstar import EmpiricalRisk, optimal_measure

    model = TwoLayerRegressor(0.1, refit=False, certify_fit=True, random_state=0).fit(bent.X, bent.y)
    certificate = model.certificate_
    kept = model.networks_[0].inputs
    labels = (bent.y - bent.y.mean()) / bent.y.std()
    optimum = optimal_measure(EmpiricalRisk(kept(bent.X), labels), 0.1, tolerance=1e-5)
    slack = model.alpha_ * 10.0
    assert certificate.gap >= 0.0
    assert optimum.objective - 1e-5 - certificate.gap <= certificate.objective + slack
    assert certificate.objective - certificate.gap <= optimum.objective + slack
    assert certificate.neuron_gain <= certificate.gap + 1e-12


@BOTH
def test_constant_labels(regressor):
    X = np.random.default_rng(0).normal(size=(60, 4))
    with pytest.warns(UserWarning, match="y is 3 in all rows") as caught:
        model = regressor(random_state=0).fit(X, np.full(60, 3.0))
    assert len(caught) == 1
    assert np.array_equal(model.predict(X), np.full(60, 3.0))
    assert model.directions_.shape == (0, 4)
    assert model.transform(X).shape == (60, 0)


@BOTH
def test_hard_tables_run(regressor):
    """One feature, few rows, fewer rows than columns, constant, repeated and near-collinear columns."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(80, 1))
    model = regressor(random_state=0).fit(x, np.abs(x[:, 0]))
    assert np.abs(model.predict(x) - np.abs(x[:, 0])).max() < 0.05
    wide = rng.normal(size=(20, 50))
    assert np.isfinite(regressor(random_state=0).fit(wide, wide[:, 0] + np.abs(wide[:, 1])).predict(wide)).all()
    poor = np.column_stack([x, x, np.ones(80), x + 1e-6 * rng.normal(size=(80, 1)), rng.normal(size=80)])
    model = regressor(random_state=0).fit(poor, np.abs(x[:, 0]))
    assert np.abs(model.predict(poor) - np.abs(x[:, 0])).max() < 0.05
    assert np.array_equal(model.directions_[:, 2], np.zeros(len(model.masses_)))
    for n in (1, 2, 3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            assert np.isfinite(regressor(random_state=0).fit(wide[:n], wide[:n, 0]).predict(wide)).all()


@BOTH
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ratio": 1.0}, "ratio=1.0"),
        ({"n_steps": 0}, "n_steps=0"),
        ({"guard": -1.0}, "guard=-1.0"),
        ({"threshold_scale": 0.0}, "threshold_scale=0.0"),
    ],
)
def test_bad_parameters_are_named(bent, regressor, change, message):
    with pytest.raises(ValueError, match=message):
        regressor(**change).fit(bent.X, bent.y)


@BOTH
def test_bad_rows_are_named(bent, regressor):
    with pytest.raises(ValueError, match="NaN"):
        regressor().fit(np.where(bent.X > 2.5, np.nan, bent.X), bent.y)
    with pytest.raises(ValueError, match="zero"):
        regressor().fit(bent.X, bent.y, sample_weight=np.zeros(400))
    with pytest.raises(ValueError, match="1d array"):
        regressor().fit(bent.X, np.column_stack([bent.y, bent.y]))
    text = pd.DataFrame({"a": bent.X[:, 0], "b": ["word"] * 400})
    with pytest.raises(ValueError, match="word"):
        regressor().fit(text, bent.y)
    with pytest.warns(UserWarning, match="column 1 is y up to scale"):
        regressor(random_state=0).fit(np.column_stack([bent.X[:, 0], 3.0 * bent.y - 1.0]), bent.y)


def test_one_row_far_out_is_guarded(bent):
    model = TwoLayerRegressor(random_state=0).fit(bent.X, bent.y)
    far = np.zeros((1, 6))
    far[0, 0] = 1e6
    low, high = bent.y.min(), bent.y.max()
    assert low - 3.0 * (high - low) < model.predict(far)[0] < high + 3.0 * (high - low)


def test_random_states_and_the_global_generator(bent):
    state = np.random.get_state()[1].copy()
    for make in (lambda: 0, lambda: np.random.RandomState(0), lambda: np.random.default_rng(0)):
        first, again = (TwoLayerRegressor(random_state=make()).fit(bent.X, bent.y) for _ in range(2))
        assert np.array_equal(first.predict(bent.X), again.predict(bent.X))
    TwoLayerRegressorCV().fit(bent.X, bent.y)
    assert np.array_equal(state, np.random.get_state()[1])
    model = TwoLayerRegressor(random_state=5).fit(bent.X, bent.y)
    assert np.array_equal(clone(model).fit(bent.X, bent.y).predict(bent.X), model.predict(bent.X))
    model.set_params(random_state=0).fit(bent.X, bent.y)
    assert np.array_equal(TwoLayerRegressor(random_state=0).fit(bent.X, bent.y).predict(bent.X), model.predict(bent.X))


def test_inputs_are_left_alone(bent, tmp_path, fitted):
    np.save(tmp_path / "X.npy", bent.X)
    np.save(tmp_path / "y.npy", bent.y)
    X, y = (np.load(tmp_path / name, mmap_mode="r") for name in ("X.npy", "y.npy"))
    model = TwoLayerRegressor(random_state=0).fit(X, y)
    assert np.array_equal(X, bent.X)
    assert np.array_equal(y, bent.y)
    assert np.array_equal(model.predict(X), fitted.predict(bent.X))
    single = TwoLayerRegressor(random_state=0).fit(bent.X.astype(np.float32), bent.y)
    assert np.allclose(single.predict(bent.X), fitted.predict(bent.X), atol=1e-4)


def test_pandas_pipelines_search_and_pickles(bent, fitted):
    frame = pd.DataFrame(bent.X, columns=list("abcdef"))
    model = TwoLayerRegressor(random_state=0).set_output(transform="pandas").fit(frame, bent.y)
    features = model.transform(frame)
    assert list(features.columns) == list(model.get_feature_names_out()) == ["ridge0", "ridge1"]
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(frame), model.predict(frame))
    assert len(pickle.dumps(fitted)) < 20_000
    search = GridSearchCV(
        make_pipeline(StandardScaler(), TwoLayerRegressor(random_state=0)),
        {"twolayerregressor__weight_decay": [10.0, 0.01]},
        cv=KFold(3),
    )
    assert search.fit(frame, bent.y).best_params_ == {"twolayerregressor__weight_decay": 0.01}
    text = model.summary()
    assert "a" in text
    assert "2 neurons in 2 directions" in text


def test_cross_validation_reports_what_it_did(bent):
    model = TwoLayerRegressorCV(random_state=0).fit(bent.X, bent.y)
    chosen = int(np.argmin(model.cv_errors_))
    assert model.weight_decay_ == model.weight_decays_[chosen]
    assert model.refitted_ == model.refits_[chosen]
    assert np.isinf(model.weight_decays_[0])
    assert len(model.networks_) == 6
    assert model.predict(bent.X) == pytest.approx(np.mean([one(bent.X) for one in model.networks_], axis=0))
    assert (model.stability_ > 0.99).all()
    careful = TwoLayerRegressorCV(random_state=0, one_standard_error=True, average=False).fit(bent.X, bent.y)
    assert len(careful.networks_) == 1
    assert np.min(careful.cv_errors_) == np.min(model.cv_errors_)
    same = TwoLayerRegressorCV(random_state=0, n_jobs=1).fit(bent.X, bent.y)
    assert np.array_equal(same.predict(bent.X), model.predict(bent.X))


def test_bands_hold_the_truth(bent, fitted):
    """90 % bands of the √2 mass: 40 resamples; outside four of the bootstrap's standard deviations is 1 in 10⁴."""
    bands = fitted.bootstrap(bent.X, bent.y, n_resamples=40)
    at = int(np.argmax(fitted.masses_))
    masses = bands.masses[:, at]
    assert abs(masses.mean() - np.std(bent.X[:, 0] + bent.X[:, 1])) < 4.0 * masses.std()
    low, high = bands.band(at, np.linspace(-2.0, 2.0, 9))
    assert (low <= high).all()
    assert (np.median(bands.cosines, axis=0) > 0.99).all()


@pytest.mark.parametrize("seed", [0, 4, 17])
def test_outliers_are_weighed_down(seed):
    """2 % of the labels are 20 standard deviations up."""
    X, y, W = three_neurons(seed, n=1500)
    y = y.copy()
    y[np.random.default_rng(seed + 100).choice(1500, 30, replace=False)] += 20.0
    robust = TwoLayerRegressor(random_state=0, robust=True).fit(X, y)
    assert cosines(robust.directions_, W).min() > 0.99
