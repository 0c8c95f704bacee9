"""Dual certificates and test functions against their definitions."""

import numpy as np
import pytest

import wstar
from wstar.kernels.activations import ABS, RELU, HermiteActivation
from wstar.kernels.hermite import gauss_hermite
from wstar.theory.certificate import dual_certificate, smallest_order
from wstar.theory.spikes import spike


@pytest.fixture(scope="module")
def teacher():
    return wstar.random_teacher(dim=5, rank=2, width=3, seed=4)


@pytest.mark.parametrize("order", [2, 4, 10])
def test_it_interpolates_signs_with_zero_tangential_gradient(teacher, order):
    certificate = dual_certificate(teacher, order)
    np.testing.assert_allclose(certificate(teacher.directions), np.sign(teacher.outputs), atol=1e-10)
    # K' has a kink at ρ = 1: along a tangent η' vanishes like the step, not like its square
    rng, step = np.random.default_rng(0), 1e-7
    for w in teacher.directions:
        tangent = rng.normal(size=5)
        tangent -= (tangent @ w) * w
        tangent /= np.linalg.norm(tangent)
        ahead, behind = (np.cos(step) * w + s * np.sin(step) * tangent for s in (1, -1))
        slope = (certificate(ahead[None])[0] - certificate(behind[None])[0]) / (2 * step)
        assert abs(slope) < 1e-5


@pytest.mark.parametrize("order", [2, 8])
def test_rho_is_not_beaten_by_random_points_of_the_sphere(teacher, order):
    certificate = dual_certificate(teacher, order)
    points = np.random.default_rng(1).normal(size=(100_000, 5))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    angle = np.arccos(np.clip(np.abs(points @ teacher.directions.T), 0, 1)).min(axis=1)
    ratios = (1.0 - np.abs(certificate(points))) / angle**2
    assert certificate.rho <= ratios.min() + 1e-6
    assert certificate.rho > -1.0


def test_on_a_circle_rho_is_the_minimum_of_a_fine_grid():
    directions = np.array([[1.0, 0.0], [np.cos(0.9), np.sin(0.9)], [np.cos(2.0), np.sin(2.0)]])
    teacher = wstar.Teacher([1.0, -1.0, 0.8], directions)
    for order in (2, 16):
        certificate = dual_certificate(teacher, order)
        theta = np.linspace(0.0, np.pi, 40_001)
        grid = np.column_stack([np.cos(theta), np.sin(theta)])
        angle = np.arccos(np.clip(np.abs(grid @ directions.T), 0, 1)).min(axis=1)
        far = angle > 2e-3
        best = ((1.0 - np.abs(certificate(grid[far]))) / angle[far] ** 2).min()
        assert certificate.rho == pytest.approx(best, rel=2e-3, abs=2e-4)


def test_p_norm_is_the_norm_of_a_function_that_gives_eta():
    """One neuron: p is its own feature, normalised."""
    teacher = wstar.Teacher([1.0], np.array([[0.6, 0.8]]))
    certificate = dual_certificate(teacher, 2)
    # one neuron: η(w) = K(w*·w)/K(1), p = σ_{≥2}(w*·x)/Z², ‖p‖² = 1/Z²
    assert certificate.p_norm == pytest.approx(1.0 / np.sqrt(0.25 - 1.0 / (2 * np.pi)), rel=1e-9)
    assert smallest_order(teacher) == 2


def test_a_smooth_activation_by_coefficients_has_a_certificate(teacher):
    smooth = HermiteActivation(tuple(0.8**k for k in range(12)))
    certificate = dual_certificate(teacher, 2, smooth)
    np.testing.assert_allclose(certificate(teacher.directions), np.sign(teacher.outputs), atol=1e-9)


def test_degenerate_questions_are_refused_with_a_reason(teacher):
    for order in (0, 3, 1):
        with pytest.raises(ValueError, match=f"min_order={order}"):
            dual_certificate(teacher, order)
    with pytest.warns(UserWarning, match="parallel"):
        twins = wstar.Teacher([1.0, 1.0], np.array([[1.0, 0.0], [1.0, 0.0]]))
    with pytest.raises(ValueError, match="no certificate exists"):
        dual_certificate(twins)
    close = wstar.Teacher([1.0, -1.0], np.array([[1.0, 0.0], [np.cos(1e-6), np.sin(1e-6)]]))
    with pytest.raises(ValueError, match="singular to rounding"):
        dual_certificate(close)
    with pytest.raises(ValueError, match="min_order=40"):
        dual_certificate(teacher, 40, HermiteActivation((0.0, 0.0, 1.0)))


@pytest.mark.parametrize("activation", [RELU, ABS])
@pytest.mark.parametrize("order", [4, 10])
def test_the_test_function_against_quadrature(activation, order):
    g = spike(np.array([2.0, 0.0]), order, activation, sign=-1.0)
    nodes, weights = gauss_hermite(120)
    values = g(np.column_stack([nodes, np.zeros_like(nodes)]))
    assert weights @ values**2 == pytest.approx(g.squared_norm, rel=1e-9)
    # E g σ(w·x) at angle θ: expand σ in the same Hermite orders
    for theta in (0.0, 0.3, 1.2):
        w = np.array([[np.cos(theta), np.sin(theta)]])
        expected = -sum(
            abs(c) * np.cos(theta) ** k for k, c in enumerate(activation.coefficients(2 * order)) if k >= order
        )
        assert g.correlation(w)[0] == pytest.approx(expected, rel=1e-12)


def test_a_spike_falls_faster_with_its_order():
    w = np.array([[np.cos(0.4), np.sin(0.4)]])
    shares = []
    for order in (4, 16, 64):
        g = spike(np.array([1.0, 0.0]), order, RELU)
        shares.append(g.correlation(w)[0] / g.correlation(np.array([[1.0, 0.0]]))[0])
    assert shares[0] > shares[1] > shares[2]
