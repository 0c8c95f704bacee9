"""The residual decomposition against Monte Carlo, the exact loss and ball arithmetic; the descent direction."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wstar
from wstar.networks.network import Measure
from wstar.theory.alignment import align
from wstar.theory.descent_direction import descent_direction, flip_towards
from wstar.theory.residual import residual_decomposition, sign_moment


def near(teacher, spread, seed=0, copies=3):
    """Neurons scattered by ``spread`` around every teacher neuron, with the affine part fitted."""
    rng = np.random.default_rng(seed)
    weights = np.repeat(teacher.weights, copies, axis=0) + spread * rng.normal(
        size=(copies * teacher.width, teacher.dim)
    )
    outputs = np.repeat(teacher.outputs, copies) / copies * (1.0 + spread * rng.normal(size=len(weights)))
    weights *= rng.choice([-1.0, 1.0], len(weights))[:, None]
    bare = wstar.Student(outputs, weights)
    measure = wstar.PopulationRisk(teacher).fit_affine(bare.activation, bare.measure)
    return wstar.Student(outputs, weights, float(measure.bias), measure.linear)


@pytest.fixture(scope="module")
def teacher():
    return wstar.random_teacher(dim=6, rank=3, width=4, seed=0)


@given(st.integers(0, 500), st.sampled_from([0.01, 0.1, 1.0]))
def test_the_parts_add_up_to_the_exact_loss(teacher, seed, spread):
    student = near(teacher, spread, seed)
    moved = wstar.Student(student.outputs, student.weights, student.bias + 0.1, student.linear - 0.2)
    for network in (student, moved):
        exact = wstar.PopulationRisk(teacher).value(network)
        assert residual_decomposition(network, teacher).loss == pytest.approx(exact, rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("spread", [1e-4, 1e-6, 1e-8, 1e-10])
def test_a_loss_that_is_noise_to_the_plain_sum_is_right(teacher, spread):
    student = near(teacher, spread)
    value, radius = wstar.PopulationRisk(teacher).value(student, precise=True)
    assert radius <= 1e-6 * value
    assert residual_decomposition(student, teacher).loss == pytest.approx(value, rel=1e-3)


def test_every_inner_product_against_monte_carlo(teacher):
    """200,000 draws, 6 products, 5 standard errors each: false alarm below 1e-5."""
    student = near(teacher, 0.4, seed=3)
    student = wstar.Student(student.outputs, student.weights, student.bias + 0.3, student.linear + 0.1)
    parts, alignment = residual_decomposition(student, teacher), align(student, teacher)
    X = np.random.default_rng(1).standard_normal((200_000, 6))
    owners = teacher.directions[alignment.nearest]
    directions = np.sign(np.sum(student.directions * owners, axis=1))[:, None] * student.directions
    signs = np.sign(X @ teacher.directions.T)
    first = 0.5 * np.sum((X @ parts.average_neuron_gaps.T) * signs, axis=1)
    inner = X @ directions.T
    second = 0.5 * (inner * (np.sign(inner) - signs[:, alignment.nearest])) @ student.masses
    third = student(X) - (
        teacher(X) - teacher.outputs.sum() / np.sqrt(2 * np.pi) - 0.5 * X @ (teacher.outputs @ teacher.weights)
    )
    third = third - first - second
    # what is left is affine: it is R₃
    design = np.column_stack([np.ones(len(X)), X])
    left = third - design @ np.linalg.lstsq(design, third, rcond=None)[0]
    assert np.abs(left).max() < 1e-12
    sampled = [first, second, third]
    for a in range(3):
        for b in range(a, 3):
            product = sampled[a] * sampled[b]
            assert abs(product.mean() - parts.gram[a, b]) < 5 * product.std() / np.sqrt(len(X)) + 1e-12


def test_sign_moment_against_quadrature():
    p, q = np.array([1.0, 0.0]), np.array([np.cos(0.7), np.sin(0.7)])
    angle = (np.arange(200_000) + 0.5) * 2 * np.pi / 200_000
    x = np.stack([np.cos(angle), np.sin(angle)])
    by_angle = 2.0 * (x * np.sign(p @ x) * np.sign(q @ x)) @ x.T / len(angle)
    np.testing.assert_allclose(sign_moment(p, q), by_angle, atol=2e-5)
    assert np.array_equal(sign_moment(p, p), np.eye(2))


def test_dead_neurons_and_other_activations_take_part_in_nothing(teacher):
    student = near(teacher, 0.1)
    padded = wstar.Student(
        np.append(student.outputs, [0.0, 2.0]),
        np.concatenate([student.weights, np.ones((1, 6)), np.zeros((1, 6))]),
        student.bias,
        student.linear,
    )
    assert residual_decomposition(padded, teacher).loss == pytest.approx(residual_decomposition(student, teacher).loss)
    target = wstar.Teacher(teacher.outputs, teacher.weights, activation="abs")
    learner = wstar.Student(student.outputs, student.weights, 0.3, activation="leaky_relu")
    exact = wstar.PopulationRisk(target).value(learner)
    assert residual_decomposition(learner, target).loss == pytest.approx(exact, rel=1e-10)


def test_flipping_leaves_the_function(teacher):
    student = near(teacher, 0.3)
    flipped = flip_towards(student, teacher)
    X = np.random.default_rng(0).normal(size=(100, 6))
    np.testing.assert_allclose(flipped(X), student(X), atol=1e-13)
    nearest = align(flipped, teacher).nearest
    assert (np.sum(flipped.weights * teacher.weights[nearest], axis=1) >= 0.0).all()


def test_the_descent_direction_descends_and_meets_its_conditions(teacher):
    decay, student = 1e-3, near(teacher, 0.05).balanced()
    measure = wstar.PopulationRisk(teacher).fit_affine(student.activation, student.measure)
    student = wstar.Student(student.outputs, student.weights, float(measure.bias), measure.linear)
    found = descent_direction(student, teacher, decay)
    assert found.served
    assert (found.q >= 0.0).all()
    flipped = flip_towards(student, teacher)
    np.testing.assert_allclose(flipped.outputs @ found.q, teacher.outputs, rtol=1e-12)
    risk = wstar.PopulationRisk(teacher)
    before = risk.value(flipped, decay)
    step = 1e-6
    moved = wstar.Student(
        flipped.outputs,
        flipped.weights - step * found.weights,
        flipped.bias - step * found.bias,
        flipped.linear - step * found.linear,
    )
    slope = (before - risk.value(moved, decay)) / step
    assert slope == pytest.approx(found.correlation, rel=1e-2)
    # above the floor of order λ² the gap itself is bounded by what the direction promises (Lemma F.17)
    assert found.correlation > (risk.value(flipped, decay) - decay * np.abs(teacher.outputs).sum()) / 8.0


def test_bad_input_is_named(teacher):
    student = near(teacher, 0.1)
    with pytest.raises(ValueError, match="weight_decay=0"):
        descent_direction(student, teacher, 0.0)
    with pytest.raises(ValueError, match="close_angle=9"):
        descent_direction(student, teacher, 0.1, close_angle=9)
    with pytest.raises(ValueError, match="3 inputs"):
        residual_decomposition(wstar.Student([1.0], np.ones((1, 3))), teacher)
    nothing = Measure(np.zeros(0), np.zeros((0, 6)), np.zeros(()), np.zeros(6))
    assert float(wstar.PopulationRisk(teacher).fit_affine(student.activation, nothing).bias) == 0.0
