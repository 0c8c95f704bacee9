"""The optimum in ball arithmetic: primal, dual and gap hold the values at 50 digits, and the gap its own rounding."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wstar
from wstar.algorithms.optimum.gaussian_problem import CenteredAbs, GaussianProblem, PowerSeries
from wstar.algorithms.optimum.precise_gap import precise_gap
from wstar.algorithms.optimum.problem import Atoms, unit
from wstar.kernels.activations import HermiteActivation

HERMITE = HermiteActivation((0.1, 0.7, 0.5, -0.3, 0.2))


@pytest.fixture(autouse=True)
def fifty_digits():
    with mpmath.workdps(50):
        yield


def centred_abs(rho):
    rho = max(min(rho, mpmath.mpf(1)), mpmath.mpf(-1))
    return 2 / mpmath.pi * (mpmath.sqrt(1 - rho**2) + rho * mpmath.asin(rho) - 1)


def hermite_sum(rho):
    return mpmath.fsum(mpmath.mpf(float(c)) ** 2 * rho**k for k, c in enumerate(HERMITE.hermite) if k > 1)


def exact_atoms(masses, directions, factor=1.0):
    """(mass·length, unit row) of every atom."""
    for mass, row in zip(masses, directions, strict=True):
        row = [mpmath.mpf(float(x)) for x in row]
        length = mpmath.sqrt(mpmath.fsum(x * x for x in row))
        yield mpmath.mpf(factor) * mpmath.mpf(float(mass)) * length, [x / length for x in row]


def inner(left, right, kernel):
    return mpmath.fsum(
        c * b * kernel(mpmath.fsum(x * y for x, y in zip(u, v, strict=True))) for c, u in left for b, v in right
    )


def by_definition(kernel, scale, targets, answer, certifying, weight_decay, sup):
    """P, and ``D = λ⟨p, y⟩ − (λ²/4)‖p‖²`` at ``p = −2R/(λ max(1, sup))``, from inner products."""
    decay, s = mpmath.mpf(weight_decay), max(mpmath.mpf(1), mpmath.mpf(sup))
    negative = list(exact_atoms(targets.masses, targets.directions, -1.0))
    own = list(exact_atoms(answer.masses, answer.directions, scale))
    total = mpmath.fsum(abs(c) for c, _ in own) / abs(mpmath.mpf(scale))
    residual = own + negative
    primal = inner(residual, residual, kernel) + decay * total
    residual = list(exact_atoms(certifying.masses, certifying.directions, scale)) + negative
    p = -2 / (decay * s)
    on_labels = -p * inner(residual, negative, kernel)
    return primal, decay * on_labels - decay**2 / 4 * p**2 * inner(residual, residual, kernel)


def assert_holds(ball, exact):
    assert abs(mpmath.mpf(ball.value) - exact) <= mpmath.mpf(ball.radius)


@pytest.mark.parametrize(("kernel", "own"), [(CenteredAbs(), centred_abs), (None, hermite_sum)])
@pytest.mark.parametrize("scale", [0.5, -0.7])
def test_any_two_measures_against_the_definition(kernel, own, scale):
    rng = np.random.default_rng(0)
    if kernel is None:
        kernel = PowerSeries(np.array([0.0, 0.0, *np.array(HERMITE.hermite)[2:] ** 2]))
    targets, answer, certifying = (Atoms(rng.standard_normal(n), unit(rng.standard_normal((n, 3)))) for n in (3, 2, 4))
    for sup in (0.4, 1.0, 3.7):
        found = precise_gap(kernel, scale, targets, answer, certifying, 0.1, sup)
        primal, dual = by_definition(own, scale, targets, answer, certifying, 0.1, sup)
        # energies are squares rounded to floats, the definition squares exactly: 1e-15 apart for the Hermite kernel
        loose = 0 if isinstance(kernel, CenteredAbs) else 1e-14
        for ball, exact in ((found.primal, primal), (found.dual, dual)):
            assert abs(mpmath.mpf(ball.value) - exact) <= mpmath.mpf(ball.radius) + loose
            assert ball.radius <= 1e-15 * abs(ball.value)
        if primal > dual:
            assert abs(mpmath.mpf(found.gap.value) - (primal - dual)) <= mpmath.mpf(found.gap.radius) + 2 * loose


@pytest.mark.parametrize(("rank", "width", "weight_decay"), [(2, 3, 0.02), (3, 4, 1e-5)])
@pytest.mark.parametrize("activation", ["relu", "leaky_relu"])
def test_optimum_holds_the_values_at_fifty_digits(rank, width, weight_decay, activation):
    teacher = wstar.random_teacher(dim=5, rank=rank, width=width, min_angle=0.3, seed=1, activation=activation)
    result = wstar.optimal_measure(teacher, weight_decay, precise=True)
    targets = Atoms(teacher.activation.even * teacher.masses, teacher.directions)
    answer = Atoms(result.masses, result.directions)
    certifying = Atoms(result.dual_masses, result.dual_directions)
    primal, dual = by_definition(
        centred_abs, teacher.activation.even, targets, answer, certifying, weight_decay, result.certificate_sup
    )
    assert_holds(result.primal, primal)
    assert_holds(result.dual, dual)
    assert_holds(result.gap, primal - dual)
    assert 0.0 <= result.gap.radius <= 1e-6 * result.gap.value
    assert mpmath.mpf(result.dual_value) <= dual
    assert mpmath.mpf(result.duality_gap) >= primal - dual
    assert result.objective == result.primal.value
    plain = wstar.optimal_measure(teacher, weight_decay)
    assert plain.primal is plain.dual is plain.gap is None
    # same search, but a supremum that counts the rounding of the field
    assert result.certificate_sup > plain.certificate_sup
    assert result.converged
    assert result.duality_gap <= 1e-11


@settings(max_examples=8, deadline=None)
@given(output=st.floats(0.3, 2.0), weight_decay=st.floats(1e-6, 0.05))
def test_a_gap_is_never_negative_and_small_where_the_optimum_is_one_neuron(output, weight_decay):
    result = wstar.optimal_measure(wstar.Teacher([output], [[0.6, 0.8, 0.0]]), weight_decay, precise=True)
    at_one = 0.25 - 0.5 / np.pi
    expected = weight_decay * output - weight_decay**2 / (4.0 * at_one)
    assert 0.0 <= result.gap.value <= result.duality_gap <= 1e-12
    assert result.primal.value == pytest.approx(expected, abs=1e-15)
    assert result.dual_value <= expected + 1e-15


def test_where_nothing_is_best_the_gap_is_zero_and_the_energy_a_ball():
    teacher = wstar.Teacher([0.7], [[0.6, 0.8]])
    result = wstar.optimal_measure(teacher, 0.5, precise=True)
    assert result.gap.value == 0.0
    assert result.duality_gap < 1e-100
    assert_holds(result.primal, inner(*[list(exact_atoms(0.5 * teacher.outputs, teacher.directions))] * 2, centred_abs))


def test_an_activation_of_coefficients_has_balls_too():
    teacher = wstar.Teacher([1.2, -0.7], [[0.0, 0.6, -0.8], [1.0, 0.0, 0.0]])
    result = wstar.optimal_measure(teacher, 0.02, activation=HERMITE, precise=True)
    assert result.converged
    assert result.gap.radius <= 1e-6 * result.gap.value
    answer = Atoms(result.masses, result.directions)
    certifying = Atoms(result.dual_masses, result.dual_directions)
    targets = Atoms(teacher.masses, teacher.directions)
    primal, dual = by_definition(hermite_sum, 1.0, targets, answer, certifying, 0.02, result.certificate_sup)
    assert result.primal.value == pytest.approx(float(primal), abs=1e-15)
    assert result.dual.value == pytest.approx(float(dual), abs=1e-15)


@pytest.mark.parametrize(("kernel", "own"), [(CenteredAbs(), centred_abs), (None, hermite_sum)])
@pytest.mark.parametrize("dim", [3, 8])
def test_the_fields_rounding_is_bounded(kernel, own, dim):
    """At random points, at atoms and beside them, where ρ is 1 to rounding."""
    rng = np.random.default_rng(dim)
    if kernel is None:
        kernel = PowerSeries(np.array([0.0, 0.0, *np.array(HERMITE.hermite)[2:] ** 2]))
    problem = GaussianProblem(kernel, unit(rng.standard_normal((4, dim))), rng.standard_normal(4), dim)
    field = problem.field(Atoms(rng.standard_normal(6), unit(rng.standard_normal((6, dim)))))
    near = field.centres + 1e-8 * rng.standard_normal(field.centres.shape)
    points = unit(np.concatenate([rng.standard_normal((10, dim)), field.centres, near]))
    residual = list(exact_atoms(field.masses, field.centres))
    for point, value in zip(points, field.at(points)[0], strict=True):
        exact = inner(list(exact_atoms([1.0], [point])), residual, own)
        assert abs(exact - value) <= field.rounding
    assert field.rounding <= 1e-13 * np.abs(field.masses).sum()


def test_a_gap_that_rounding_alone_exceeds_is_not_called_converged():
    teacher = wstar.random_teacher(dim=4, rank=2, width=3, min_angle=0.3, seed=0)
    assert wstar.optimal_measure(teacher, 0.02, tolerance=1e-14).converged
    with pytest.warns(UserWarning, match="not proven: the search saw"):
        result = wstar.optimal_measure(teacher, 0.02, tolerance=1e-14, precise=True)
    assert not result.converged
    assert result.duality_gap > 1e-14
    assert "converged" not in result.reason


def test_a_sample_has_no_closed_form():
    rng = np.random.default_rng(0)
    risk = wstar.EmpiricalRisk(rng.standard_normal((20, 2)), rng.standard_normal(20))
    with pytest.raises(ValueError, match="precise=True needs a closed form"):
        wstar.optimal_measure(risk, 0.1, precise=True)
