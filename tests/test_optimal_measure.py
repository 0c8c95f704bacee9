"""The optimum over measures: conditions of optimality, a brute-force certificate, a second solver, invariances."""

from dataclasses import replace

import numpy as np
import pytest

import wstar
from wstar.algorithms.lasso import lasso_path_end, optimality_violation
from wstar.algorithms.optimum.optimal_measure import optimal_measure_path
from wstar.kernels.activations import RELU, HermiteActivation

DECAYS = (0.02, 1e-3)


@pytest.fixture(scope="module")
def teacher():
    return wstar.random_teacher(dim=6, rank=2, width=3, min_angle=0.3, seed=2)


@pytest.fixture(scope="module")
def optima(teacher):
    return {decay: wstar.optimal_measure(teacher, decay) for decay in DECAYS}


def k2(rho):
    """ReLU without orders 0 and 1, written out."""
    rho = np.clip(rho, -1.0, 1.0)
    return (np.sqrt(1 - rho**2) + rho * np.arcsin(rho) - 1) / (2 * np.pi)


def primal(teacher, optimum):
    c, u = optimum.masses, optimum.directions
    a, v = teacher.outputs, teacher.directions
    loss = c @ k2(u @ u.T) @ c - 2 * c @ k2(u @ v.T) @ a + a @ k2(v @ v.T) @ a
    return loss + optimum.weight_decay * np.abs(c).sum(), loss


@pytest.mark.parametrize("decay", DECAYS)
def test_the_objective_and_the_gap_are_what_the_kernel_sums_say(teacher, optima, decay):
    optimum = optima[decay]
    value, loss = primal(teacher, optimum)
    assert optimum.objective == pytest.approx(value, rel=1e-12)
    assert optimum.converged
    assert 0.0 <= optimum.duality_gap <= 1e-11
    assert optimum.dual_value <= optimum.objective
    # at the optimum L = λ²‖p‖²/4 and the dual value is λ⟨p, f̃⟩ − λ²‖p‖²/4
    a, v, c, u = teacher.outputs, teacher.directions, optimum.masses, optimum.directions
    inner = a @ k2(v @ v.T) @ a - a @ k2(v @ u.T) @ c
    assert 2 * inner - loss == pytest.approx(optimum.objective, abs=1e-9)


@pytest.mark.parametrize("decay", DECAYS)
def test_no_direction_of_a_fine_grid_of_the_ball_violates_the_certificate(teacher, optima, decay):
    optimum = optima[decay]
    basis = np.linalg.svd(teacher.directions)[2][:2]
    theta, radius = np.meshgrid(np.linspace(0, np.pi, 4001), np.linspace(0.0, 1.0, 26))
    ball = np.stack([radius * np.cos(theta), radius * np.sin(theta)], axis=-1).reshape(-1, 2) @ basis
    psi = k2(ball @ optimum.directions.T) @ optimum.masses - k2(ball @ teacher.directions.T) @ teacher.outputs
    largest = np.abs(2.0 / decay * psi).max()
    assert largest <= optimum.certificate_sup + 1e-7
    assert largest == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("decay", DECAYS)
def test_a_lasso_on_a_dense_grid_comes_from_above(teacher, optima, decay):
    basis = np.linalg.svd(teacher.directions)[2][:2]
    theta = np.linspace(0.0, np.pi, 90, endpoint=False)
    grid = np.column_stack([np.cos(theta), np.sin(theta)]) @ basis
    gram, correlation, energy = wstar.PopulationRisk(teacher).mass_problem(RELU, grid)
    masses = lasso_path_end(gram, correlation, decay)
    assert optimality_violation(gram, correlation, decay, masses) < 1e-12
    value = masses @ gram @ masses - 2 * correlation @ masses + energy + decay * np.abs(masses).sum()
    # the grid's best is a measure: never below the optimum, and off by what 0.035 rad between its points cost
    assert optima[decay].objective <= value + 1e-14
    assert value < 1.01 * optima[decay].objective


def test_small_weight_decay_gives_the_teacher_as_clusters(teacher):
    optimum = wstar.optimal_measure(teacher, 1e-5)
    assert len(optimum.clusters) == teacher.width
    for cluster in optimum.clusters:
        nearest = np.abs(teacher.directions @ cluster.centre).argmax()
        assert abs(teacher.directions[nearest] @ cluster.centre) > 1.0 - 1e-6
        assert cluster.mass == pytest.approx(teacher.outputs[nearest], rel=5e-3)


def test_no_network_is_below_the_optimum(teacher, optima):
    risk = wstar.PopulationRisk(teacher)
    student = wstar.three_stage(risk, width=60, seed=0, weight_decay=0.02, n_epochs=1).student
    assert risk.value(student, 0.02) >= optima[0.02].dual_value
    assert risk.value(optima[0.02].student, 0.02) == pytest.approx(optima[0.02].objective, rel=1e-10)


def test_a_path_falls_with_the_weight_decay_and_agrees_with_cold_starts(teacher, optima):
    path = optimal_measure_path(teacher, [0.02, 0.005, 1e-3])
    assert [o.weight_decay for o in path] == [0.02, 0.005, 1e-3]
    assert path[0].objective > path[1].objective > path[2].objective
    assert path[2].objective == pytest.approx(optima[1e-3].objective, abs=2e-11)
    # |μ*_λ|₁ grows as λ falls, below ‖a*‖₁ (ZG Lemma F.3)
    totals = [np.abs(o.masses).sum() for o in path]
    assert totals[0] < totals[1] < totals[2] <= np.abs(teacher.outputs).sum() + 1e-9


def test_rotation_and_scale(teacher, optima):
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    turned = wstar.optimal_measure(replace(teacher, weights=teacher.weights @ rotation), 0.02)
    assert turned.objective == pytest.approx(optima[0.02].objective, abs=2e-11)
    scaled = wstar.optimal_measure(replace(teacher, outputs=10.0 * teacher.outputs), 0.2)
    assert scaled.objective == pytest.approx(100.0 * optima[0.02].objective, rel=1e-8)


def test_above_the_largest_weight_decay_nothing_is_best(teacher):
    optimum = wstar.optimal_measure(teacher, 10.0)
    assert optimum.masses.size == 0
    assert optimum.certificate_sup < 1.0
    a, v = teacher.outputs, teacher.directions
    assert optimum.objective == pytest.approx(a @ k2(v @ v.T) @ a, rel=1e-12)


def test_from_samples_it_tends_to_the_population(teacher, optima):
    X = np.random.default_rng(1).standard_normal((20_000, 6))
    sample = wstar.optimal_measure(wstar.EmpiricalRisk(X, teacher(X)), 0.02)
    assert sample.converged
    assert sample.objective == pytest.approx(optima[0.02].objective, rel=0.05)
    risk = wstar.EmpiricalRisk(X, teacher(X))
    assert risk.value(sample.student, 0.02) == pytest.approx(sample.objective, rel=1e-8)


def test_an_activation_given_by_coefficients(teacher):
    smooth = HermiteActivation((0.0, 0.0, 0.5, 0.0, 0.3, 0.0, 0.2))
    optimum = wstar.optimal_measure(teacher, 0.02, activation=smooth)
    assert optimum.converged
    energies = np.array(smooth.hermite) ** 2

    def kernel(rho):
        return np.polynomial.polynomial.polyval(rho, energies)

    c, u, a, v = optimum.masses, optimum.directions, teacher.outputs, teacher.directions
    loss = c @ kernel(u @ u.T) @ c - 2 * c @ kernel(u @ v.T) @ a + a @ kernel(v @ v.T) @ a
    assert optimum.objective == pytest.approx(loss + 0.02 * np.abs(c).sum(), rel=1e-10)


@pytest.mark.parametrize("decay", [0.0, -1.0, float("nan"), float("inf")])
def test_the_weight_decay_must_be_positive(teacher, decay):
    with pytest.raises(ValueError, match="weight_decay"):
        wstar.optimal_measure(teacher, decay)
