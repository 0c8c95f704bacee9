"""Risks against reference values, automatic differentiation, Monte Carlo and each other; invariances; awkward input."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wstar
from wstar.algorithms.descent import GradientDescent, Slope
from wstar.algorithms.lasso import lasso_path_end
from wstar.algorithms.run import drive
from wstar.kernels.activations import ABS, RELU, HomogeneousActivation, leaky_relu
from wstar.kernels.hermite import abs_coefficients
from wstar.networks.parametrisation import Free, MeanField
from wstar.networks.student import Student, symmetric_start
from wstar.networks.teacher import Teacher, random_teacher
from wstar.precision import double_precision
from wstar.risks.base import parameter_gradient
from wstar.risks.empirical import EmpiricalRisk
from wstar.risks.population import PopulationRisk

CASES = json.loads((Path(__file__).parent / "data" / "population.json").read_text())["cases"]
PAIRS = [
    (RELU, RELU),
    (ABS, ABS),
    (RELU, ABS),
    (ABS, RELU),
    (leaky_relu(0.2), RELU),
    (HomogeneousActivation(0.5, 2.0), leaky_relu(0.4)),
]
PAIR_NAMES = [f"{s.name}-{t.name}" for s, t in PAIRS]
FIELDS = ("outputs", "weights", "bias", "linear")


def network(cls, seed, width, dim, activation="relu"):
    """A network with every part present."""
    rng = np.random.default_rng(seed)
    return cls(
        rng.standard_normal(width),
        rng.standard_normal((width, dim)),
        bias=rng.standard_normal(),
        linear=rng.standard_normal(dim),
        activation=activation,
    )


def sample(seed, n, dim, teacher=None):
    """Gaussian rows and noisy labels."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, dim))
    labels = teacher(X) if teacher is not None else np.abs(X[:, 0]) - 0.5 * np.maximum(X[:, -1], 0.0) + X.sum(1)
    return X, labels + 0.1 * rng.standard_normal(n)


def assert_equal_networks(a, b, rtol=1e-12, atol=1e-13):
    """Field by field."""
    for name in FIELDS:
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=rtol, atol=atol, err_msg=name)


# ---------------------------------------------------------------------- reference values


def assert_reference(computed, expected):
    """Relative 1e-12, absolute 1e-14 where the value is below 1e-2."""
    expected = np.array(expected, dtype=float)
    allowed = np.where(np.abs(expected) >= 1e-2, 1e-12 * np.abs(expected), 1e-14)
    assert (np.abs(np.asarray(computed) - expected) <= allowed).all()


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_population_risk_against_reference_values(case):
    given_, expected = case["inputs"], case["expected"]
    teacher = Teacher(given_["teacher_a"], given_["teacher_W"])
    student = Student(given_["a"], given_["W"], bias=given_["alpha"], linear=given_["beta"])
    risk = PopulationRisk(teacher)
    assert_reference(risk.value(student), expected["loss"])
    gradient = risk.gradient(student)
    for name, key in zip(FIELDS, ("grad_a", "grad_W", "grad_alpha", "grad_beta"), strict=True):
        assert_reference(getattr(gradient, name), expected[key])
    losses = risk.tensor_losses(student, orders=(0, 1, 2, 4, 6, 8))
    for order, value in expected["tensor_losses"].items():
        assert_reference(losses[int(order)], value)
    fitted = risk.fit_affine(student.activation, student.measure)
    assert_reference(fitted.bias, expected["alpha_hat"])
    assert_reference(fitted.linear, expected["beta_hat"])


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_mean_field_loss_against_reference_values(case):
    outputs = np.array(case["expected"]["mean_field_abs_teacher_a"], dtype=float)
    teacher = Teacher(outputs, case["inputs"]["teacher_W"], activation="abs")
    student = Student.from_mean_field(case["inputs"]["W"], "abs")
    risk = PopulationRisk(teacher, preprocessed=False)
    assert_reference(risk.value(student), case["expected"]["mean_field_abs_loss"])


# ---------------------------------------------------------------------- automatic differentiation


def second_moments(first, V, second, W, *, same=False):
    """``E σ(v_i·x) τ(w_j·x)`` written out for automatic differentiation; ``same``: V is W, whose diagonal is known."""
    norms = jnp.outer(jnp.linalg.norm(V, axis=1), jnp.linalg.norm(W, axis=1))
    rho = V @ W.T / norms
    off = jnp.where(jnp.eye(len(V), dtype=bool), 0.0, rho) if same else rho
    kernel = first.even * second.even * (2.0 / jnp.pi) * (jnp.sqrt(1.0 - off**2) + off * jnp.arcsin(off))
    kernel = kernel + first.odd * second.odd * rho
    if same:
        # asin has no derivative at 1, but E σ(w·x)² = ‖w‖²(e² + o²) needs none
        kernel = jnp.where(jnp.eye(len(V), dtype=bool), first.even**2 + first.odd**2, kernel)
    return norms * kernel


def direct_loss(free, activation, teacher, preprocessed):
    """``E (f − y)²`` from first and second moments of the two networks, in none of the ways the library does it."""
    mean_abs = jnp.sqrt(2.0 / jnp.pi)
    a, W, alpha, beta = free
    b, V = jnp.asarray(teacher.outputs), jnp.asarray(teacher.weights)
    mean = teacher.activation.even * mean_abs * jnp.sum(b)
    slope = teacher.activation.odd * (b @ V)
    # preprocessing subtracts the label's own mean and slope; neurons alone remain, with the opposite affine part
    gamma, delta = (-mean, -slope) if preprocessed else (jnp.asarray(teacher.bias), jnp.asarray(teacher.linear))
    alpha, beta = alpha - gamma, beta - delta
    features = second_moments(activation, W, activation, W, same=True)
    targets = second_moments(teacher.activation, V, teacher.activation, V, same=True)
    cross = second_moments(activation, W, teacher.activation, V)
    neurons = a @ features @ a - 2.0 * (a @ cross @ b) + b @ targets @ b
    mean_gap = activation.even * mean_abs * (a @ jnp.linalg.norm(W, axis=1)) - mean
    slope_gap = activation.odd * (a @ W) - slope
    return neurons + 2.0 * alpha * mean_gap + 2.0 * beta @ slope_gap + alpha**2 + beta @ beta


@double_precision
def value_and_gradient(loss, student):
    """A traced function of free parameters, and its automatic derivative, as NumPy."""
    free = Free(*(jnp.asarray(x) for x in student.parameters))
    value, gradient = jax.jit(jax.value_and_grad(loss))(free)
    return float(value), Free(*(np.asarray(x) for x in gradient))


@pytest.mark.parametrize("preprocessed", [True, False], ids=["preprocessed", "raw"])
@pytest.mark.parametrize(("activation", "taught"), PAIRS, ids=PAIR_NAMES)
def test_population_gradient_against_automatic_differentiation(activation, taught, preprocessed):
    student, teacher = network(Student, 1, 5, 4, activation), network(Teacher, 2, 3, 4, taught)
    risk = PopulationRisk(teacher, preprocessed=preprocessed)
    value, gradient = value_and_gradient(lambda free: direct_loss(free, activation, teacher, preprocessed), student)
    assert risk.value(student) == pytest.approx(value, rel=1e-12)
    assert_equal_networks(risk.gradient(student), gradient)
    decayed = risk.gradient(student, weight_decay=0.3)
    assert risk.value(student, 0.3) == pytest.approx(
        value + 0.15 * (np.sum(student.outputs**2) + np.sum(student.weights**2)), rel=1e-12
    )
    np.testing.assert_allclose(decayed.outputs, gradient.outputs + 0.3 * student.outputs, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(decayed.weights, gradient.weights + 0.3 * student.weights, rtol=1e-11, atol=1e-12)
    # bias and linear part are not decayed
    np.testing.assert_allclose(decayed.linear, gradient.linear, rtol=1e-12)


@double_precision
def mean_field_gradient(risk, activation, weights):
    """Per-particle gradient of the mean-field parametrisation."""
    return np.asarray(parameter_gradient(risk, activation, MeanField(jnp.asarray(weights))).weights)


@pytest.mark.parametrize("activation", [RELU, ABS], ids=lambda a: a.name)
def test_mean_field_gradient_is_m_times_the_plain_one(activation):
    teacher = network(Teacher, 2, 3, 4, ABS)
    weights = np.random.default_rng(3).standard_normal((5, 4))
    X, y = sample(0, 200, 4, teacher)

    def population(W):
        outputs = jnp.linalg.norm(W, axis=1) / 5
        return direct_loss(Free(outputs, W, jnp.zeros(()), jnp.zeros(4)), activation, teacher, preprocessed=False)

    def empirical(W):
        return jnp.mean((activation(jnp.asarray(X) @ W.T) @ jnp.linalg.norm(W, axis=1) / 5 - y) ** 2)

    for risk, loss in (
        (PopulationRisk(teacher, preprocessed=False), population),
        (EmpiricalRisk(X, y, preprocessed=False), empirical),
    ):
        with jax.enable_x64(True):
            expected = 5.0 * np.asarray(jax.jit(jax.grad(loss))(weights))
        np.testing.assert_allclose(mean_field_gradient(risk, activation, weights), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("activation", [RELU, ABS, leaky_relu(0.2)], ids=lambda a: a.name)
def test_empirical_value_and_gradient_against_automatic_differentiation(activation):
    student = network(Student, 1, 5, 4, activation)
    X, y = sample(0, 200, 4)
    weights = np.random.default_rng(5).uniform(0.0, 2.0, 200)

    def loss(free):
        values = activation(jnp.asarray(X) @ free.weights.T) @ free.outputs + free.bias + jnp.asarray(X) @ free.linear
        return jnp.asarray(weights / weights.sum()) @ (values - jnp.asarray(y)) ** 2

    risk = EmpiricalRisk(X, y, weights, preprocessed=False)
    value, gradient = value_and_gradient(loss, student)
    assert risk.value(student) == pytest.approx(value, rel=1e-13)
    assert_equal_networks(risk.gradient(student), gradient)


def risks(teacher, dim):
    """The two risks, with labels in both forms."""
    X, y = sample(7, 200, dim, teacher)
    return [
        PopulationRisk(teacher),
        PopulationRisk(teacher, preprocessed=False),
        EmpiricalRisk(X, y),
        EmpiricalRisk(X, y, preprocessed=False),
    ]


@pytest.mark.parametrize("which", range(4), ids=["population", "population-raw", "sample", "sample-raw"])
def test_gradient_against_differences_of_the_value(which):
    teacher, student = network(Teacher, 2, 3, 4), network(Student, 1, 5, 4)
    risk = risks(teacher, 4)[which]
    gradient = risk.gradient(student, 0.1)
    step = 1e-5
    rng = np.random.default_rng(0)
    for _ in range(5):
        shift = [rng.standard_normal(np.shape(getattr(student, name))) for name in FIELDS]

        def at(t, shift=shift):
            parts = (getattr(student, name) + t * s for name, s in zip(FIELDS, shift, strict=True))
            outputs, weights, bias, linear = parts
            return risk.value(Student(outputs, weights, float(bias), linear, student.activation), 0.1)

        slope = (at(step) - at(-step)) / (2.0 * step)
        expected = sum(np.sum(getattr(gradient, name) * s) for name, s in zip(FIELDS, shift, strict=True))
        # on the sample a row crosses a kink within 1e-5 with probability 1e-3: none does at these seeds
        assert slope == pytest.approx(expected, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("which", range(4), ids=["population", "population-raw", "sample", "sample-raw"])
def test_gradient_is_read_off_the_field(which):
    teacher, student = network(Teacher, 2, 3, 4), network(Student, 1, 5, 4)
    risk = risks(teacher, 4)[which]
    gradient = risk.gradient(student)
    values, slopes = risk.field(student, student.weights)
    np.testing.assert_allclose(2.0 * values, gradient.outputs, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(2.0 * student.outputs[:, None] * slopes, gradient.weights, rtol=1e-12, atol=1e-13)
    # 1-homogeneous: Ψ(sw) = sΨ(w), ∇Ψ(sw) = ∇Ψ(w), Ψ(w) = w·∇Ψ(w)
    scaled, same = risk.field(student, 3.0 * student.weights)
    np.testing.assert_allclose(scaled, 3.0 * values, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(same, slopes, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(np.sum(student.weights * slopes, axis=1), values, rtol=1e-12, atol=1e-13)
    one_row = risk.field(student, student.weights[0])
    np.testing.assert_allclose(one_row[1][0], slopes[0], rtol=1e-13)


# ---------------------------------------------------------------------- Monte Carlo


def assert_mean(samples, expected):
    """``expected`` lies within four standard errors of the mean (by chance it would not once in 16,000)."""
    samples = np.asarray(samples)
    error = samples.std(axis=0) / np.sqrt(len(samples))
    assert (np.abs(samples.mean(axis=0) - expected) <= 4.0 * error + 1e-15).all()


@pytest.mark.parametrize("preprocessed", [True, False], ids=["preprocessed", "raw"])
@pytest.mark.parametrize(("activation", "taught"), PAIRS, ids=PAIR_NAMES)
def test_population_against_monte_carlo(activation, taught, preprocessed):
    student, teacher = network(Student, 1, 5, 4, activation), network(Teacher, 2, 3, 4, taught)
    risk = PopulationRisk(teacher, preprocessed=preprocessed)
    X = np.random.default_rng(4).standard_normal((200_000, 4))
    y = teacher(X)
    if preprocessed:
        # mean and slope of the labels by the definition of ZG eq. 3, their integrals in closed form
        mean = teacher.bias + taught.even * np.sqrt(2.0 / np.pi) * teacher.masses.sum()
        slope = teacher.linear + taught.odd * teacher.masses @ teacher.directions
        assert_mean(y, mean)
        assert_mean(y[:, None] * X, slope)
        y = y - mean - X @ slope
    residual = student(X) - y
    assert_mean(residual**2, risk.value(student))
    points = np.random.default_rng(5).standard_normal((5, 4))
    values, slopes = risk.field(student, points)
    for point, value, slope in zip(points, values, slopes, strict=True):
        assert_mean(residual * activation(X @ point), value)
        assert_mean((residual * activation.derivative(X @ point))[:, None] * X, slope)
    gradient = risk.gradient(student)
    assert_mean(2.0 * residual, gradient.bias)
    assert_mean(2.0 * residual[:, None] * X, gradient.linear)


def test_empirical_risk_tends_to_the_population_risk():
    student, teacher = network(Student, 1, 5, 4), network(Teacher, 2, 3, 4)
    X = np.random.default_rng(4).standard_normal((200_000, 4))
    y = teacher(X)
    raw = EmpiricalRisk(X, y, preprocessed=False)
    error = ((student(X) - y) ** 2).std() / np.sqrt(len(X))
    # four standard errors: one false alarm in 16,000
    assert abs(raw.value(student) - PopulationRisk(teacher, preprocessed=False).value(student)) <= 4.0 * error
    fitted = EmpiricalRisk(X, y)
    assert fitted.label_bias == pytest.approx(teacher.bias + teacher.masses.sum() / np.sqrt(2 * np.pi), abs=0.05)
    assert fitted.value(student) == pytest.approx(PopulationRisk(teacher).value(student), rel=0.02)


@pytest.mark.parametrize("order", [0, 1, 2, 4])
def test_sample_estimate_of_tensor_losses_is_unbiased(order):
    student, teacher = network(Student, 1, 3, 3), network(Teacher, 2, 2, 3)
    # without affine parts, order 0 and 1 of the residual are those of the neurons
    student = Student(student.outputs, student.weights)
    teacher = Teacher(teacher.outputs, teacher.weights)
    exact = PopulationRisk(teacher).tensor_losses(student, [order])[order]
    rng = np.random.default_rng(6)
    estimates = []
    for _ in range(150):
        X = rng.standard_normal((150, 3))
        weights = rng.uniform(0.5, 1.5, 150)
        risk = EmpiricalRisk(X, teacher(X), weights, preprocessed=False)
        estimates.append(risk.tensor_losses(student, [order])[order])
    assert_mean(estimates, exact)


# ---------------------------------------------------------------------- tensor losses


@pytest.mark.parametrize(("activation", "taught"), PAIRS[:4], ids=PAIR_NAMES[:4])
def test_tensor_losses_are_norms_of_tensors_and_sum_to_the_loss(activation, taught):
    student, teacher = network(Student, 1, 5, 4, activation), network(Teacher, 2, 3, 4, taught)
    risk = PopulationRisk(teacher)
    ratio = taught.even / activation.even
    losses = risk.tensor_losses(student, orders=(0, 1, 2, 3, 5))
    for order, value in losses.items():
        tensor = np.zeros((4,) * order)
        for sign, masses, directions in (
            (1.0, student.masses, student.directions),
            (-ratio, teacher.masses, teacher.directions),
        ):
            for c, u in zip(masses, directions, strict=True):
                power = np.array(c * sign)
                for _ in range(order):
                    power = np.multiply.outer(power, u)
                tensor = tensor + power
        assert value == pytest.approx(np.sum(tensor**2), rel=1e-12)
    # L at the best affine part = Σ_{k≥2} σ̂_k² T_k; c_k ~ 0.508 k^{−5/2} leaves less than 0.04 T n^{−3/2} beyond n
    orders = range(2, 402)
    energies = (activation.even * abs_coefficients(402)) ** 2
    total = sum(energies[k] * t for k, t in risk.tensor_losses(student, orders).items())
    fitted = risk.fit_affine(activation, student.measure)
    best = Student(student.outputs, student.weights, float(fitted.bias), fitted.linear, activation)
    assert risk.value(best) == pytest.approx(total, rel=3e-4)
    assert risk.gradient(best).bias == pytest.approx(0.0, abs=1e-14)
    np.testing.assert_allclose(risk.gradient(best).linear, 0.0, atol=1e-14)


@pytest.mark.usefixtures("as_shipped")
@pytest.mark.parametrize("order", [-1, 2.5])
def test_orders_are_whole_numbers(order):
    teacher = random_teacher(4, 2, 2)
    X, y = sample(0, 20, 4)
    for risk in (PopulationRisk(teacher), EmpiricalRisk(X, y)):
        with pytest.raises(ValueError, match=f"order {order} must be a whole number"):
            risk.tensor_losses(symmetric_start(4, 4), orders=[order])


# ---------------------------------------------------------------------- the problem in the masses


@pytest.mark.parametrize("which", range(4), ids=["population", "population-raw", "sample", "sample-raw"])
def test_mass_problem_is_the_loss_at_its_best_affine_part(which):
    teacher = network(Teacher, 2, 3, 4)
    risk = risks(teacher, 4)[which]
    student = network(Student, 1, 5, 4, "leaky_relu")
    gram, correlation, energy = risk.mass_problem(student.activation, student.directions)
    for scale in (1.0, -0.3, 0.0):
        masses = scale * student.masses
        measure = student.measure._replace(masses=masses)
        fitted = risk.fit_affine(student.activation, measure)
        best = Student(masses, student.directions, float(fitted.bias), fitted.linear, student.activation)
        quadratic = masses @ gram @ masses - 2.0 * correlation @ masses + energy
        assert risk.value(best) == pytest.approx(quadratic, rel=1e-11)
        gradient = risk.gradient(best)
        assert abs(gradient.bias) <= 1e-12
        assert np.abs(gradient.linear).max() <= 1e-12


@pytest.mark.parametrize("which", range(4), ids=["population", "population-raw", "sample", "sample-raw"])
def test_affine_correction_is_one_newton_step(which):
    teacher, student = network(Teacher, 2, 3, 4), network(Student, 1, 5, 4)
    risk = risks(teacher, 4)[which]
    with jax.enable_x64(True):
        measure = student.measure
        change = risk.affine_correction(risk.affine_residual(student.activation, measure))
        fitted = risk.fit_affine(student.activation, measure)
        np.testing.assert_allclose(measure.bias + change.bias, fitted.bias, rtol=1e-11)
        np.testing.assert_allclose(measure.linear + change.linear, fitted.linear, rtol=1e-11)


def test_a_neuron_that_is_never_active_changes_nothing():
    # 23: a zero column in the features. ReLU neuron 1 sees only rows on its dark side
    X, y = sample(0, 120, 3)
    X[:, 0] = np.abs(X[:, 0]) + 0.1
    directions = np.array([[0.6, 0.8, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.6, -0.8], [0.0, 1.0, 0.0]])
    risk = EmpiricalRisk(X, y)
    gram, correlation, _ = risk.mass_problem(RELU, directions)
    assert (gram[1] == 0.0).all()
    assert correlation[1] == 0.0
    masses = lasso_path_end(gram, correlation, 0.01)
    keep = [0, 2, 3]
    without = lasso_path_end(*risk.mass_problem(RELU, directions[keep])[:2], 0.01)
    assert masses[1] == 0.0
    assert np.count_nonzero(without) > 0
    np.testing.assert_allclose(masses[keep], without, rtol=1e-9, atol=1e-12)
    dark = Student(np.array([1.0, 1.0]), directions[[0, 1]])
    gradient = risk.gradient(dark)
    assert gradient.outputs[1] == 0.0
    assert not gradient.weights[1].any()


# ---------------------------------------------------------------------- the affine part of labels


def test_preprocessing_is_weighted_least_squares_on_these_rows():
    X, y = sample(0, 60, 3)
    weights = np.random.default_rng(1).uniform(0.1, 2.0, 60)
    risk = EmpiricalRisk(X, y, weights)
    design = np.column_stack([np.ones(60), X])
    normal = design.T @ (weights[:, None] * design)
    coefficients = np.linalg.solve(normal, design.T @ (weights * y))
    assert float(risk.label_bias) == pytest.approx(coefficients[0], rel=1e-11)
    np.testing.assert_allclose(risk.label_linear, coefficients[1:], rtol=1e-11)
    np.testing.assert_allclose(design.T @ (weights * risk.y), 0.0, atol=1e-11)
    student = network(Student, 1, 4, 3)
    restored = risk.restore(student)
    np.testing.assert_allclose(restored(X) - y, student(X) - risk.y, atol=1e-12)


@pytest.mark.parametrize("units", [(1e-12, 1.0, 1e9), (1.0, 1.0, 1.0)])
def test_preprocessing_does_not_depend_on_units_or_on_a_constant_column(units):
    X, y = sample(0, 60, 3)
    plain = EmpiricalRisk(X, y)
    scaled = EmpiricalRisk(np.column_stack([X * units, np.full(60, 1e6)]), y)
    np.testing.assert_allclose(scaled.y, plain.y, atol=1e-9)
    np.testing.assert_allclose(scaled.label_linear[:3] * units, plain.label_linear, rtol=1e-9)
    assert scaled.label_linear[3] == 0.0


def test_dependent_columns_share_the_slope():
    X, y = sample(0, 60, 2)
    doubled = EmpiricalRisk(np.column_stack([X, X]), y)
    np.testing.assert_allclose(doubled.y, EmpiricalRisk(X, y).y, atol=1e-12)
    student = network(Student, 1, 3, 4)
    with jax.enable_x64(True):
        change = doubled.affine_correction(doubled.affine_residual(student.activation, student.measure))
        moved = student.measure._replace(bias=student.bias + change.bias, linear=student.linear + change.linear)
        left = doubled.affine_residual(student.activation, moved)
    assert abs(float(left.bias)) <= 1e-12
    assert np.abs(np.asarray(left.linear)).max() <= 1e-12


# ---------------------------------------------------------------------- samples


def test_empirical_sums_in_blocks_are_the_sums(monkeypatch):
    # read when a shape is first traced: no other test has 1,301 rows
    monkeypatch.setattr("wstar.risks.empirical._BLOCK_ENTRIES", 4)
    X, y = sample(0, 1_301, 3)
    weights = np.random.default_rng(1).uniform(0.0, 2.0, 1_301)
    student = network(Student, 1, 4, 3)
    risk = EmpiricalRisk(X, y, weights, preprocessed=False)
    share, residual = weights / weights.sum(), student(X) - y
    assert risk.value(student) == pytest.approx(share @ residual**2, rel=1e-13)
    gradient = risk.gradient(student)
    features = RELU(X @ student.weights.T)
    np.testing.assert_allclose(gradient.outputs, 2.0 * (share * residual) @ features, rtol=1e-12)
    slopes = RELU.derivative(X @ student.weights.T) * (share * residual)[:, None]
    np.testing.assert_allclose(gradient.weights, 2.0 * student.outputs[:, None] * (slopes.T @ X), rtol=1e-11)
    assert gradient.bias == pytest.approx(2.0 * share @ residual, rel=1e-12)
    np.testing.assert_allclose(gradient.linear, 2.0 * (share * residual) @ X, rtol=1e-12)


@given(seed=st.integers(0, 2**31))
def test_whole_weights_are_repeated_rows_and_zero_weights_none(seed):
    rng = np.random.default_rng(seed)
    X, y = sample(seed, 12, 2)
    # the number of rows is the same in every example, so that compilation happens once
    counts = rng.permutation([0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 5])
    kept = counts.copy()
    weighted = EmpiricalRisk(X, y, counts)
    np.testing.assert_array_equal(counts, kept)
    repeated = EmpiricalRisk(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    removed = EmpiricalRisk(X[counts > 0], y[counts > 0], counts[counts > 0])
    assert (weighted.n_samples, repeated.n_samples) == (10, 23)
    student = network(Student, 1, 3, 2)
    for other in (repeated, removed):
        np.testing.assert_allclose(weighted.label_linear, other.label_linear, rtol=1e-9, atol=1e-11)
        assert weighted.value(student, 0.1) == pytest.approx(other.value(student, 0.1), rel=1e-11)
        assert_equal_networks(weighted.gradient(student), other.gradient(student), rtol=1e-9, atol=1e-11)
        for a, b in zip(
            weighted.mass_problem(RELU, student.directions), other.mass_problem(RELU, student.directions), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-11)


def test_inputs_may_be_read_only_memory_maps_and_stay_byte_equal(tmp_path):
    X, y = sample(0, 200, 4)
    before = X.tobytes(), y.tobytes()
    for name, array in (("X", X), ("y", y)):
        np.save(tmp_path / f"{name}.npy", array)
    files = [(tmp_path / f"{name}.npy").read_bytes() for name in "Xy"]
    mapped = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "Xy"]
    student = network(Student, 1, 5, 4)
    from_disk, in_memory = EmpiricalRisk(*mapped), EmpiricalRisk(X, y)
    assert from_disk.value(student) == in_memory.value(student)
    assert_equal_networks(from_disk.gradient(student), in_memory.gradient(student), rtol=0.0, atol=0.0)
    from_disk.mass_problem(RELU, student.directions)
    from_disk.tensor_losses(student, [2])
    assert [(tmp_path / f"{name}.npy").read_bytes() for name in "Xy"] == files
    assert (X.tobytes(), y.tobytes()) == before


def test_single_precision_is_computed_in_double():
    X, y = sample(0, 200, 4)
    X, y = X.astype(np.float32), y.astype(np.float32)
    student = network(Student, 1, 5, 4)
    single, double = EmpiricalRisk(X, y), EmpiricalRisk(X.astype(float), y.astype(float))
    assert single.value(student) == double.value(student)
    assert single.X.dtype == single.y.dtype == np.float64
    assert single.gradient(student).weights.dtype == np.float64


def test_labels_may_be_a_column_and_inputs_lists():
    X, y = sample(0, 200, 4)
    student = network(Student, 1, 5, 4)
    expected = EmpiricalRisk(X, y).value(student)
    assert EmpiricalRisk(X, y[:, None]).value(student) == expected
    assert EmpiricalRisk(X.tolist(), y.tolist()).value(student) == expected


@pytest.mark.parametrize(("n", "dim", "width"), [(1, 1, 1), (1, 3, 2), (30, 1, 2), (2, 3, 1)])
def test_one_row_one_feature_one_neuron(n, dim, width):
    X, y = sample(0, n, dim)
    student = network(Student, 1, width, dim)
    for preprocessed in (True, False):
        risk = EmpiricalRisk(X, y, preprocessed=preprocessed)
        assert np.isfinite(risk.value(student))
        gradient = risk.gradient(student)
        assert all(np.isfinite(getattr(gradient, name)).all() for name in FIELDS)
    if n == 1:
        assert np.abs(EmpiricalRisk(X, y).y).max() <= 1e-15
    teacher = Teacher(np.ones(1), np.ones((1, dim)))
    assert np.isfinite(PopulationRisk(teacher).value(student))


def test_duplicate_and_zero_rows_of_the_sample():
    X, y = sample(0, 200, 4)
    X[5], y[5] = X[4], y[4]
    X[7] = 0.0
    student = network(Student, 1, 5, 4)
    risk = EmpiricalRisk(X, y, preprocessed=False)
    residual = student(X) - y
    assert risk.value(student) == pytest.approx(np.mean(residual**2), rel=1e-13)
    slopes = RELU.derivative(X @ student.weights.T)
    expected = 2.0 * student.outputs[:, None] * ((residual[:, None] * slopes).T @ X) / 200
    np.testing.assert_allclose(risk.gradient(student).weights, expected, rtol=1e-12, atol=1e-13)
    nothing = EmpiricalRisk(np.zeros((200, 4)), np.arange(200.0))
    assert nothing.value(student) == pytest.approx(np.var(np.arange(200.0)) + student.bias**2, rel=1e-13)
    assert not nothing.gradient(student).weights.any()
    gram, correlation, _ = nothing.mass_problem(RELU, student.directions)
    assert not gram.any()
    assert not correlation.any()


# ---------------------------------------------------------------------- coinciding neurons


@pytest.mark.parametrize("flip", [1.0, -1.0], ids=["student = teacher", "student = mirrored teacher"])
@pytest.mark.parametrize("preprocessed", [True, False], ids=["preprocessed", "raw"])
def test_a_student_that_is_the_teacher_has_no_loss_and_no_gradient(flip, preprocessed):
    for seed in range(5):
        teacher = random_teacher(10, 3, 4, seed=seed, activation="abs")
        risk = PopulationRisk(teacher, preprocessed=preprocessed)
        measure = teacher.measure._replace(directions=flip * teacher.directions)
        fitted = risk.fit_affine(ABS, measure)
        student = Student(teacher.outputs, flip * teacher.weights, float(fitted.bias), fitted.linear, "abs")
        assert 0.0 <= risk.value(student) <= 1e-15
        gradient = risk.gradient(student)
        assert max(np.abs(getattr(gradient, name)).max() for name in FIELDS) <= 1e-15


@pytest.mark.parametrize("flip", [1.0, -1.0])
def test_relu_sees_a_mirrored_teacher_through_the_affine_part_alone(flip):
    teacher = random_teacher(10, 3, 4, seed=0)
    risk = PopulationRisk(teacher, preprocessed=False)
    student = Student(teacher.outputs, flip * teacher.weights)
    # a ReLU and its mirror image differ by the linear function: 4 · ‖½ Σ a w‖² at the mirror
    gap = teacher.outputs @ teacher.weights
    expected = 0.0 if flip > 0 else gap @ gap
    assert risk.value(student) == pytest.approx(expected, rel=1e-12, abs=1e-15)
    assert all(np.isfinite(getattr(risk.gradient(student), name)).all() for name in FIELDS)


@given(seed=st.integers(0, 2**31), distance=st.floats(-17.0, 0.0))
def test_a_loss_is_never_negative(seed, distance):
    teacher = random_teacher(4, 2, 3, min_angle=0.1, seed=seed)
    rng = np.random.default_rng(seed)
    weights = teacher.weights + 10.0**distance * rng.standard_normal((3, 4))
    for preprocessed in (True, False):
        risk = PopulationRisk(teacher, preprocessed=preprocessed)
        fitted = risk.fit_affine(RELU, Student(teacher.outputs, weights).measure)
        student = Student(teacher.outputs, weights, float(fitted.bias), fitted.linear)
        assert risk.value(student) >= 0.0
        assert all(loss >= 0.0 for loss in risk.tensor_losses(student).values())


@pytest.mark.parametrize("affine_fitted", [True, False])
def test_duplicate_opposite_and_zero_neurons_stay_finite_over_ten_thousand_steps(affine_fitted):
    teacher = random_teacher(4, 2, 2, seed=3)
    rng = np.random.default_rng(0)
    weights = 0.5 * rng.standard_normal((6, 4))
    weights[1], weights[2], weights[3], weights[5] = weights[0], -weights[0], teacher.weights[0], 0.0
    outputs = np.array([0.3, 0.3, -0.2, 0.5, -0.4, 0.0])
    X, y = sample(0, 200, 4, teacher)
    X[1], X[2], y[1] = X[0], 0.0, y[0]
    for risk in (PopulationRisk(teacher), EmpiricalRisk(X, y)):
        with jax.enable_x64(True):
            slope = Slope(risk, jnp.asarray(1e-3), RELU, affine_fitted)
            update = GradientDescent(slope, jnp.asarray(0.02))
            start = Student(outputs, weights)
            outcome = drive(update, start.parameters, max_steps=10_000, tolerance=0.0)
        assert outcome.step == 10_000
        end = Student.from_parameters(outcome.state)
        assert risk.value(end, 1e-3) < 0.5 * risk.value(start, 1e-3)
        # equal neurons move as one, and the absent one never moves
        np.testing.assert_allclose(end.weights[0], end.weights[1], rtol=1e-9, atol=1e-12)
        assert not end.weights[5].any()
        assert end.outputs[5] == 0.0


# ---------------------------------------------------------------------- invariances


def invariance_case(seed, activation):
    """A risk, a student and its value; shapes are fixed so that compilation happens once."""
    teacher, student = network(Teacher, seed, 3, 4, activation), network(Student, seed + 1, 5, 4, activation)
    return teacher, student, PopulationRisk(teacher, preprocessed=False).value(student)


@given(seed=st.integers(0, 2**31), activation=st.sampled_from(["relu", "abs"]))
def test_turning_everything_changes_nothing(seed, activation):
    teacher, student, value = invariance_case(seed, activation)
    turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((4, 4)))[0]
    turned = [
        cls(n.outputs, n.weights @ turn, n.bias, n.linear @ turn, n.activation)
        for cls, n in ((Teacher, teacher), (Student, student))
    ]
    risk = PopulationRisk(turned[0], preprocessed=False)
    assert risk.value(turned[1]) == pytest.approx(value, rel=1e-12)
    gradient, plain = risk.gradient(turned[1]), PopulationRisk(teacher, preprocessed=False).gradient(student)
    np.testing.assert_allclose(gradient.weights, plain.weights @ turn, rtol=1e-10, atol=1e-12)


@given(seed=st.integers(0, 2**31), activation=st.sampled_from(["relu", "abs"]))
def test_order_of_neurons_and_the_split_into_output_and_norm_do_not_matter(seed, activation):
    teacher, student, value = invariance_case(seed, activation)
    rng = np.random.default_rng(seed)
    order, scale = rng.permutation(5), 10.0 ** rng.uniform(-3, 3, 5)
    same = Student(
        (student.outputs / scale)[order],
        (student.weights * scale[:, None])[order],
        student.bias,
        student.linear,
        student.activation,
    )
    risk = PopulationRisk(teacher, preprocessed=False)
    assert risk.value(same) == pytest.approx(value, rel=1e-12)
    X, y = sample(seed, 200, 4)
    on_rows = EmpiricalRisk(X, y)
    assert on_rows.value(same) == pytest.approx(on_rows.value(student), rel=1e-11)
    assert risk.tensor_losses(same)[4] == pytest.approx(risk.tensor_losses(student)[4], rel=1e-11)


@given(seed=st.integers(0, 2**31))
def test_opposite_directions_are_one_atom_of_abs_and_of_any_activation_with_its_affine_part_fitted(seed):
    flips = np.random.default_rng(seed).choice([-1.0, 1.0], (5, 1))
    teacher, student, value = invariance_case(seed, "abs")
    risk = PopulationRisk(teacher, preprocessed=False)
    mirrored = Student(student.outputs, flips * student.weights, student.bias, student.linear, "abs")
    assert risk.value(mirrored) == pytest.approx(value, rel=1e-13)
    teacher, student, _ = invariance_case(seed, "relu")
    X, y = sample(seed, 200, 4)
    for risk in (PopulationRisk(teacher), EmpiricalRisk(X, y)):
        values = []
        for weights in (student.weights, flips * student.weights):
            measure = Student(student.outputs, weights).measure
            fitted = risk.fit_affine(RELU, measure)
            values.append(risk.value(Student(student.outputs, weights, float(fitted.bias), fitted.linear)))
        assert values[1] == pytest.approx(values[0], rel=1e-11)


def test_relu_tells_opposite_directions_apart():
    teacher = Teacher(np.ones(1), np.array([[1.0, 0.0]]))
    risk = PopulationRisk(teacher, preprocessed=False)
    assert risk.value(Student(np.ones(1), np.array([[1.0, 0.0]]))) <= 1e-16
    assert risk.value(Student(np.ones(1), np.array([[-1.0, 0.0]]))) == pytest.approx(1.0, rel=1e-14)


@pytest.mark.parametrize("preprocessed", [True, False], ids=["preprocessed", "raw"])
def test_the_span_of_all_directions_is_enough(preprocessed):
    rng = np.random.default_rng(0)
    teacher = random_teacher(40, 3, 4, seed=1)
    student = Student(rng.standard_normal(5), rng.standard_normal((5, 40)))
    risk = PopulationRisk(teacher, preprocessed=preprocessed)
    small, basis = risk.reduced(student.directions)
    assert basis.shape == (8, 40)
    inside = Student(student.outputs, student.weights @ basis.T, student.bias, student.linear @ basis.T)
    assert small.value(inside) == pytest.approx(risk.value(student), rel=1e-12)
    np.testing.assert_allclose(
        small.gradient(inside).weights @ basis, risk.gradient(student).weights, rtol=1e-10, atol=1e-13
    )


# ---------------------------------------------------------------------- bad input


@pytest.mark.usefixtures("as_shipped")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.ones(6)}, r"X has shape \(6,\)"),
        ({"X": np.ones((6, 0))}, r"X has shape \(6, 0\)"),
        ({"X": np.ones((0, 2)), "y": np.ones(0)}, "X has no rows"),
        ({"y": np.ones(5)}, r"y has shape \(5,\) and X \(6, 2\): one label per row"),
        ({"y": np.ones((6, 2))}, r"y has shape \(6, 2\)"),
        ({"X": np.array([[1, 2], [np.nan, np.inf], [3, np.nan], [5, 4], [1, 2], [2, 1]])}, "X holds 3 .* 1 of them in"),
        ({"y": np.array([1, 2, np.inf, 4, 5, 6])}, "y holds 1 NaN or infinite"),
        ({"sample_weight": np.ones(5)}, r"sample_weight has shape \(5,\)"),
        ({"sample_weight": -np.ones(6)}, "sample_weight must be finite, not negative"),
        ({"sample_weight": np.zeros(6)}, "not all zero"),
        ({"sample_weight": np.full(6, np.nan)}, "sample_weight must be finite"),
    ],
)  # fmt: skip
def test_tables_that_do_not_fit_are_refused_by_name(change, message):
    good = {"X": np.arange(12.0).reshape(6, 2), "y": np.arange(6.0)}
    with pytest.raises(ValueError, match=message) as error:
        EmpiricalRisk(**(good | change))
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("as_shipped")
def test_networks_of_another_space_and_negative_decay_are_refused():
    X, y = sample(0, 20, 4)
    for risk in (PopulationRisk(random_teacher(4, 2, 2)), EmpiricalRisk(X, y)):
        other, right = symmetric_start(4, 5), symmetric_start(4, 4)
        for call in (risk.value, risk.gradient, risk.tensor_losses):
            with pytest.raises(ValueError, match="the network has 5 inputs, the risk 4"):
                call(other)
        for decay in (-1.0, np.nan, np.inf):
            with pytest.raises(ValueError, match="weight_decay="):
                risk.value(right, decay)
            with pytest.raises(ValueError, match="weight_decay="):
                risk.gradient(right, decay)
        for directions in (np.ones((2, 5)), np.array([[1.0, np.nan, 0.0, 0.0]])):
            with pytest.raises(ValueError, match="finite rows of length 4"):
                risk.field(right, directions)


# ---------------------------------------------------------------------- state and size


def test_computing_leaves_precision_and_random_state_alone():
    state = np.random.get_state()[1].copy()
    X, y = sample(0, 20, 4)
    for risk in (PopulationRisk(random_teacher(4, 2, 2)), EmpiricalRisk(X, y)):
        gradient = risk.gradient(symmetric_start(4, 4))
        assert gradient.weights.dtype == np.float64
    assert jnp.ones(1).dtype == jnp.float32
    assert not jax.config.jax_enable_x64
    np.testing.assert_array_equal(np.random.get_state()[1], state)


def test_gradient_of_20_000_neurons_fits_in_1500_megabytes():
    script = """
import numpy as np, wstar
teacher = wstar.random_teacher(dim=50, rank=3, width=4, seed=0)
rng = np.random.default_rng(0)
student = wstar.Student(rng.standard_normal(20_000) / 20_000, rng.standard_normal((20_000, 50)))
gradient = wstar.PopulationRisk(teacher).gradient(student)
assert np.isfinite(gradient.weights).all()
# the peak of this process alone: ru_maxrss would count the parent's memory from before exec
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    assert float(run.stdout) < 1500.0


def test_public_names_are_these_objects():
    assert wstar.PopulationRisk is PopulationRisk
    assert wstar.EmpiricalRisk is EmpiricalRisk
