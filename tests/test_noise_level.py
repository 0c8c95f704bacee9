"""The weight decay that a sample calls for, and the three stages on rows: read-only, weighted, of any scale."""

import numpy as np
import pytest

import wstar
from wstar.experiments.noise_level import plan_weight_decay

DIRECTION = np.array([2.0, -1.0, 0.0, 0.5]) / np.sqrt(5.25)


def planted(n=500, seed=0, noise=0.05):
    """One ridge function with its kink off zero, and a linear column."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    y = 3.0 * np.maximum(X @ DIRECTION - 0.4, 0.0) + 0.5 * X[:, 2] + 7.0 + noise * rng.standard_normal(n)
    return X, y


def test_read_only_arrays_are_read_only_read(tmp_path):
    X, y = planted(n=300)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y[:, None])
    X_map, y_map = np.load(tmp_path / "X.npy", mmap_mode="r"), np.load(tmp_path / "y.npy", mmap_mode="r")
    weights = np.ones(300)
    weights.setflags(write=False)
    before = (tmp_path / "X.npy").read_bytes(), (tmp_path / "y.npy").read_bytes()
    risk = wstar.EmpiricalRisk(X_map, y_map, sample_weight=weights)
    plan = plan_weight_decay(risk, 40, 0)
    result = wstar.three_stage(risk, width=40, weight_decay=plan.first, n_epochs=2, max_steps=100)
    plain = wstar.EmpiricalRisk(X, y)
    assert risk.value(result.student) == pytest.approx(plain.value(result.student), rel=1e-12)
    assert before == ((tmp_path / "X.npy").read_bytes(), (tmp_path / "y.npy").read_bytes())


def test_whole_weights_are_repeated_rows():
    X, y = planted(n=120)
    counts = np.random.default_rng(1).integers(0, 4, 120).astype(float)
    given = counts.copy()
    weighted = wstar.EmpiricalRisk(X, y, sample_weight=counts)
    repeated = wstar.EmpiricalRisk(np.repeat(X, counts.astype(int), axis=0), np.repeat(y, counts.astype(int)))
    students = [
        wstar.three_stage(risk, width=40, weight_decay=0.05, n_epochs=2, max_steps=50).student
        for risk in (weighted, repeated)
    ]
    X_new = planted(n=50, seed=9)[0]
    np.testing.assert_allclose(students[0](X_new), students[1](X_new), rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(counts, given)


def test_noise_is_called_noise():
    """Where the first neuron is weaker than in pure noise nothing is fitted; a strength above 1.6 has a rate of 5 %.

    Of 20 tables of noise more than 5 exceed it with probability 3e-4 at that rate.
    """
    strengths = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        risk = wstar.EmpiricalRisk(rng.standard_normal((150, 4)), rng.standard_normal(150))
        plan = plan_weight_decay(risk, 100, 0)
        strengths.append(plan.strength)
        assert (plan.first >= plan.largest) == (plan.strength < 1.0)
    assert sum(s > 1.6 for s in strengths) <= 5
    assert 0.7 < np.median(strengths) < 1.4


def test_the_plan_scales_with_the_labels():
    X, y = planted(n=300)
    here, there = (plan_weight_decay(wstar.EmpiricalRisk(X, s * y), 100, 0) for s in (1.0, 100.0))
    assert there.strength == pytest.approx(here.strength)
    for name in ("first", "last", "largest", "noise"):
        assert getattr(there, name) == pytest.approx(100.0 * getattr(here, name))
    assert here.first == pytest.approx(here.last * 2.0 ** (here.n_epochs - 1))
    assert here.last <= here.first <= max(0.1 * here.largest, here.last)


def test_without_noise_the_plan_stays_finite():
    x = np.linspace(-2.0, 2.0, 40)
    plan = plan_weight_decay(wstar.EmpiricalRisk(np.column_stack([x, np.full(40, 0.5)]), np.abs(x - 0.3)), 200, 0)
    assert 1e-5 * plan.largest <= plan.last < 1e-2 * plan.largest
    assert 1 <= plan.n_epochs <= 14
    assert not plan.empty
