"""The regressor on long tables: memory, blocks of rows, inputs of every kind."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from wstar import TwoLayerRegressor, TwoLayerRegressorCV
from wstar.algorithms.optimum.problem import Atoms, unit
from wstar.estimator import problem as problem_module
from wstar.estimator.inputs import Inputs
from wstar.estimator.ladder import Ladder
from wstar.estimator.polish import _value_and_gradient
from wstar.estimator.problem import TableProblem

# rows are made in blocks, so that X is the only array of its size before the fit
PEAK = """
import threading, time
import numpy as np
from wstar import TwoLayerRegressor

def resident():
    with open("/proc/self/statm") as file:
        return 4096 * int(file.read().split()[1])

small = np.random.default_rng(1).normal(size=(200, 4))
TwoLayerRegressor(random_state=0).fit(small, np.abs(small[:, 0]) + small[:, 1])
n, d = 200_000, 30
before, X, y = resident(), np.empty((n, d)), np.empty(n)
rng = np.random.default_rng(0)
for start in range(0, n, 10_000):
    rows = slice(start, start + 10_000)
    X[rows] = rng.normal(size=(10_000, d))
    y[rows] = np.abs(X[rows, 0] + X[rows, 1]) + X[rows, 2] + 0.1 * rng.normal(size=10_000)
peak, running = resident(), True

def watch():
    global peak
    while running:
        peak = max(peak, resident())
        time.sleep(0.005)

watcher = threading.Thread(target=watch)
watcher.start()
model = TwoLayerRegressor(random_state=0, n_steps=4).fit(X, y)
running = False
watcher.join()
print(peak - before, X.nbytes, n, len(model.masses_))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the resident set is read from /proc")
def test_memory_is_the_tables_and_what_the_path_keeps():
    """The stated model: X, 200 bytes a row, and 100 MB for the 50,000 rows of the path; at 10⁶ rows below 2 times X."""
    done = subprocess.run([sys.executable, "-c", PEAK], check=True, capture_output=True, text=True)
    peak, table, n, neurons = map(int, done.stdout.split())
    assert neurons >= 1
    assert peak < table + 200 * n + 100 * 2**20


def make_problem(rng, alpha=0.01):
    X = rng.normal(size=(700, 5)) @ rng.normal(size=(5, 5)) + 3.0
    y, weights = rng.normal(size=700), rng.uniform(0.5, 1.5, size=700)
    weights /= weights.sum()
    inputs = Inputs.fit(X, weights, 30.0, 2.0, 0.25, Ladder.none(5))
    return TableProblem(inputs, X, y - weights @ y, weights, 700.0, alpha)


def test_blocks_made_again_are_the_kept_ones(monkeypatch):
    rng = np.random.default_rng(3)
    kept = make_problem(np.random.default_rng(0))
    atoms = Atoms(rng.normal(size=4), unit(rng.normal(size=(4, 6))))
    parameters, signs = rng.normal(size=4 + 4 * 6), np.sign(atoms.masses)
    gram, correlation = kept.mass_problem(atoms.directions)
    value, gradient = _value_and_gradient(parameters, kept, signs, 0.1)
    projected = kept.projected(kept.residual(atoms))
    monkeypatch.setattr(problem_module, "KEPT_ROWS", 10)
    monkeypatch.setattr("wstar.estimator.inputs._BLOCK_ENTRIES", 256)
    again = make_problem(np.random.default_rng(0))
    assert again._kept is None
    assert len(list(again.blocks())) > 1
    assert np.allclose(again.mass_problem(atoms.directions)[0], gram, atol=1e-12)
    assert np.allclose(again.mass_problem(atoms.directions)[1], correlation, atol=1e-12)
    assert np.allclose(again.projected(again.residual(atoms)), projected, atol=1e-12)
    other_value, other_gradient = _value_and_gradient(parameters, again, signs, 0.1)
    assert other_value == pytest.approx(value, rel=1e-12)
    assert np.allclose(other_gradient, gradient, atol=1e-11)
    step = 1e-6 * rng.normal(size=parameters.shape)
    ahead, behind = (_value_and_gradient(parameters + sign * step, again, signs, 0.1)[0] for sign in (1.0, -1.0))
    assert (ahead - behind) / 2.0 == pytest.approx(gradient @ step, rel=1e-4)


def test_long_memory_maps_are_left_alone(tmp_path):
    """60,000 rows: more than the path walks on, so that the blocks of the last polish read the map."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 4)).astype(np.float32)
    y = np.abs(X[:, 0] + X[:, 1]).astype(float) + 0.1 * rng.normal(size=60_000)
    np.save(tmp_path / "X.npy", X)
    before = (tmp_path / "X.npy").read_bytes()
    model = TwoLayerRegressor(random_state=0, n_steps=4).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    assert (tmp_path / "X.npy").read_bytes() == before
    assert len(model.masses_) == 1
    direction = model.directions_[0] / np.linalg.norm(model.directions_[0])
    assert abs(direction @ np.array([1.0, 1.0, 0.0, 0.0])) / np.sqrt(2.0) > 0.9999


def test_polars_in_and_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = np.abs(X[:, 0] + X[:, 1]) + X[:, 2]
    frame = pl.DataFrame(X, schema=list("abcd"))
    model = TwoLayerRegressor(random_state=0).set_output(transform="polars").fit(frame, pl.Series("y", y))
    assert list(model.feature_names_in_) == list("abcd")
    features = model.transform(frame)
    assert isinstance(features, pl.DataFrame)
    assert features.columns == list(model.get_feature_names_out())
    assert np.array_equal(TwoLayerRegressor(random_state=0).fit(X, y).predict(X), model.predict(frame))


def test_a_logarithm_is_found_where_it_helps_only():
    """Lognormal x: y = log x asks for the logarithm, y = x for the column as it is."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.exp(1.5 * rng.normal(size=300)), rng.normal(size=300)])
    noise = 0.1 * rng.normal(size=300)
    model = TwoLayerRegressor(random_state=0).fit(X, np.log(X[:, 0]) + noise)
    assert model.powers_[0] == 0.0
    assert model.powers_[1] == 1.0
    assert "log(x0)" in model.summary()
    own = model.intercept_ + model.columns(X) @ model.linear_ + model.transform(X) @ model.masses_
    assert np.allclose(own, model.predict(X), atol=1e-7)
    units = TwoLayerRegressor(random_state=0).fit(X * np.array([1e6, 1e-6]), np.log(X[:, 0]) + noise)
    assert np.allclose(units.predict(X * np.array([1e6, 1e-6])), model.predict(X), atol=1e-6)
    plain = TwoLayerRegressor(random_state=0).fit(X, X[:, 0] + noise)
    assert np.array_equal(plain.powers_, np.ones(2))
    assert np.array_equal(plain.columns(X), X)
    with pytest.raises(ValueError, match="powers='yes'"):
        TwoLayerRegressor(powers="yes").fit(X, noise)


@pytest.mark.parametrize("regressor", [TwoLayerRegressor, TwoLayerRegressorCV])
def test_breaking_a_near_dependence_does_not_explode(regressor):
    """Three shares that sum to one up to 1e-4: a row for which they do not is far out though each column is not."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(3), size=120) + 1e-4 * rng.normal(size=(120, 3))
    X = np.column_stack([shares, rng.normal(size=120)])
    y = np.abs(X[:, 3]) + X[:, 0] + 0.1 * rng.normal(size=120)
    model = regressor(random_state=0).fit(X, y)
    far = np.array([[0.6, 0.6, 0.6, 0.0]])
    room = 0.25 * np.ptp(y)
    assert y.min() - room <= model.predict(far)[0] <= y.max() + room
