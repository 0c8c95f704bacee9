"""Gradients by order against automatic differentiation, LMZ's claims on symmetric populations, stages, tickets."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import wstar
from wstar.kernels.activations import ABS, RELU, leaky_relu
from wstar.kernels.hermite import abs_coefficients
from wstar.networks.parametrisation import MeanField
from wstar.precision import double_precision
from wstar.risks.base import parameter_gradient
from wstar.theory.tensor_dynamics import (
    basis_like_share,
    first_below,
    gradient_by_order,
    mass_errors,
    neuron_sets,
    stage_times,
)
from wstar.theory.tickets import score_rule, serving, winning_tickets


def basis_teacher(dim, masses=None):
    """LMZ's target in its own basis."""
    return wstar.Teacher(np.full(dim, 1.0 / dim) if masses is None else masses, np.eye(dim), activation="abs")


def oblique_teacher(seed=0, activation="abs", dim=4):
    rng = np.random.default_rng(seed)
    return wstar.Teacher(rng.uniform(0.2, 1.0, 3), rng.standard_normal((3, dim)), activation=activation)


def full_gradient(risk, weights, activation):
    with jax.enable_x64(True):
        return np.asarray(parameter_gradient(risk, activation, MeanField(jnp.asarray(weights))).weights)


def with_signs_flipped(weights):
    """Every neuron with every choice of signs of its coordinates: a conditionally symmetric population."""
    signs = np.array(list(product([1.0, -1.0], repeat=weights.shape[1])))
    return (weights[:, None, :] * signs[None]).reshape(-1, weights.shape[1])


# ------------------------------------------------------------------------------------------- gradient by order


@pytest.mark.parametrize("order", [0, 1, 2, 3, 4, 8])
@pytest.mark.parametrize("activation", [ABS, RELU, leaky_relu(0.3)], ids=lambda a: a.name)
@double_precision
def test_the_gradient_of_an_order_is_the_derivative_of_its_tensor_loss(activation, order):
    teacher, weights = oblique_teacher(), wstar.gaussian_start(5, 4, seed=1)
    risk = wstar.PopulationRisk(teacher, preprocessed=False)
    energy = activation.coefficients(order + 1)[order] ** 2
    scale = teacher.activation.even / activation.even

    def tensor_loss(w):
        """``σ̂_k² ‖Σ c u^{⊗k} − Σ a w*^{⊗k}‖²``, the tensors themselves."""
        norms = jnp.linalg.norm(w, axis=1)
        directions, masses = w / norms[:, None], norms**2 / len(w)
        letters = "abcdefgh"[:order]
        formula = ",".join(["z", *(f"z{c}" for c in letters)]) + "->" + letters
        student = jnp.einsum(formula, masses, *[directions] * order)
        # labels of |·| have no linear part: at order 1 the student alone counts
        target = 0.0 if order == 1 else scale * jnp.einsum(formula, teacher.outputs, *[teacher.weights] * order)
        return energy * jnp.sum((student - target) ** 2)

    expected = len(weights) * np.asarray(jax.jit(jax.grad(tensor_loss))(jnp.asarray(weights)))
    found = gradient_by_order(risk, weights, (order,), activation).gradients[0]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("orders", [(), (0,), (0, 2, 4, 6, 8), (8, 4), (1, 3, 2), tuple(range(60))])
@pytest.mark.parametrize("activation", [ABS, RELU, leaky_relu(0.3)], ids=lambda a: a.name)
def test_orders_and_rest_add_up_to_the_gradient(activation, orders):
    risk = wstar.PopulationRisk(oblique_teacher(), preprocessed=False)
    weights = wstar.gaussian_start(6, 4, seed=2)
    # a neuron on a teacher, one on its opposite and an absent one: ρ = ±1 and 0/0
    weights[0], weights[1], weights[2] = 0.7 * oblique_teacher().weights[0], -0.3 * oblique_teacher().weights[1], 0.0
    parts = gradient_by_order(risk, weights, orders, activation)
    assert parts.gradients.shape == (len(orders), 6, 4)
    np.testing.assert_allclose(parts.total, full_gradient(risk, weights, activation), rtol=1e-10, atol=1e-13)
    assert not parts.total[2].any()


def test_relu_labels_have_their_linear_part_at_order_one():
    risk = wstar.PopulationRisk(oblique_teacher(activation="relu"), preprocessed=False)
    weights = wstar.gaussian_start(6, 4, seed=2)
    parts = gradient_by_order(risk, weights, (0, 1, 2), RELU)
    np.testing.assert_allclose(parts.total, full_gradient(risk, weights, RELU), rtol=1e-10, atol=1e-13)


def test_lmz_write_the_gradient_of_an_even_order_with_two_factors():
    """LMZ eq. 2.5 as printed, ``b_{2j} = 4j c_{2j}``, ``b'_{2j} = (4j−4) c_{2j}``."""
    teacher, weights = oblique_teacher(), wstar.gaussian_start(5, 4, seed=1)
    norms = np.linalg.norm(weights, axis=1)
    units = weights / norms[:, None]
    found = gradient_by_order(wstar.PopulationRisk(teacher, preprocessed=False), weights, (2, 4, 6))
    for column, j in enumerate((1, 2, 3)):
        c = abs_coefficients(2 * j + 1)[2 * j] ** 2
        own, cross = units @ units.T, units @ teacher.weights.T
        mean = norms**2 / len(weights)
        pull = (own ** (2 * j - 1) * mean) @ units - (cross ** (2 * j - 1) * teacher.outputs) @ teacher.weights
        shrink = own ** (2 * j) @ mean - cross ** (2 * j) @ teacher.outputs
        expected = 4 * j * c * norms[:, None] * pull - (4 * j - 4) * c * shrink[:, None] * weights
        np.testing.assert_allclose(found.gradients[column], expected, rtol=1e-11, atol=1e-15)


def test_a_symmetric_population_has_the_simple_gradients_of_claim_3_2():
    masses = np.array([0.5, 0.3, 0.2])
    weights = with_signs_flipped(wstar.gaussian_start(5, 3, seed=0))
    risk = wstar.PopulationRisk(basis_teacher(3, masses), preprocessed=False)
    parts = gradient_by_order(risk, weights, (0, 1, 2, 3, 4))
    errors = mass_errors(weights, basis_teacher(3, masses))
    zeroth, second = 4 * 2 / np.pi, 4 / np.pi
    np.testing.assert_allclose(parts.gradients[0], zeroth * errors.total * weights, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(parts.gradients[2], second * errors.by_teacher * weights, rtol=1e-11, atol=1e-14)
    assert not parts.gradients[[1, 3]].any()
    # Claim 3.1: each coordinate's gradient is odd in it, so the next population is symmetric too
    np.testing.assert_allclose(parts.total[0] * np.sign(weights[0]), parts.total[1] * np.sign(weights[1]), rtol=1e-10)


# ------------------------------------------------------------------------------------------------- mass errors


@given(seed=st.integers(0, 2**31), dim=st.integers(1, 6))
def test_mass_errors_are_the_order_zero_and_two_losses(seed, dim):
    weights = with_signs_flipped(np.random.default_rng(seed).standard_normal((4, dim)))
    teacher = basis_teacher(dim)
    errors = mass_errors(weights, teacher)
    losses = wstar.PopulationRisk(teacher, preprocessed=False).tensor_losses(
        wstar.Student.from_mean_field(weights, "abs"), orders=(0, 2)
    )
    assert losses[0] == pytest.approx(errors.total**2, rel=1e-9, abs=1e-13)
    # a symmetric second moment is diagonal, so its distance from diag(a) is that of the δ_i
    assert losses[2] == pytest.approx(np.sum(errors.by_teacher**2), rel=1e-9, abs=1e-13)
    assert errors.total == pytest.approx(errors.by_teacher.sum(), abs=1e-12)
    assert errors.total == pytest.approx(errors.excess - errors.deficit, abs=1e-12)
    assert errors.largest_excess <= errors.excess
    assert errors.largest_deficit <= errors.deficit
    assert errors.largest_excess == max(0.0, errors.by_teacher.max())
    assert errors.largest_deficit == max(0.0, -errors.by_teacher.min())


def test_a_relu_learner_needs_twice_the_mass():
    teacher = basis_teacher(3)
    weights = np.sqrt(2.0) * np.eye(3)
    assert mass_errors(weights, teacher, RELU).total == pytest.approx(0.0, abs=1e-15)
    assert mass_errors(weights, teacher, ABS).total == pytest.approx(1.0)


# ---------------------------------------------------------------------------------------------------- the sets


@given(seed=st.integers(0, 2**31), margin=st.sampled_from([None, 0.0, 0.05]))
def test_sets_are_lmz_s_definitions_neuron_by_neuron(seed, margin):
    masses = np.array([0.4, 0.35, 0.25])
    start = np.random.default_rng(seed).standard_normal((30, 3)) / np.sqrt(3)
    sets = neuron_sets(start, basis_teacher(3, masses), learning_rate=0.1, plateau_steps=60.0, margin=margin)
    c4 = abs_coefficients(5)[4] ** 2
    gamma = 1.0 / (2.0 * (8 * c4 + 4 * c4) * masses**2 * 3 * 0.1 * 60.0)
    np.testing.assert_allclose(sets.thresholds, gamma, rtol=1e-14)
    rho = 0.1 * gamma.min() if margin is None else margin
    for v, good, bad, potential in zip(start**2, sets.good, sets.bad, sets.potential, strict=True):
        for i in range(3):
            others = [j for j in range(3) if j != i]
            assert potential[i] == (v[i] >= gamma[i] - rho)
            assert good[i] == (v[i] >= gamma[i] + rho and all(v[j] <= gamma[j] - rho for j in others))
            assert bad[i] == (v[i] >= gamma[i] - rho and any(v[j] >= gamma[j] - rho for j in others))
    assert not (sets.good & sets.bad).any()


def test_basis_like_neurons_are_counted_and_weighed():
    weights = np.array([[3.0, 0.0], [0.0, -1.0], [1.0, 1.0], [0.0, 0.0], [1.0, 0.2]])
    count, mass = basis_like_share(weights, basis_teacher(2), cosine=0.95)
    assert count == pytest.approx(3 / 5)
    assert mass == pytest.approx((9 + 1 + 1.04) / (9 + 1 + 2 + 1.04))
    assert basis_like_share(np.zeros((3, 2)), basis_teacher(2)) == (0.0, 0.0)


# ------------------------------------------------------------------------------------------------------ stages


def decaying(orders, steps, values):
    return xr.Dataset(
        {"relative_tensor_loss": (("step", "order"), np.array(values, dtype=float))},
        {"step": np.array(steps), "order": np.array(orders)},
    )


def test_stage_times_follow_the_stated_rule():
    steps = [0, 9, 99, 999, 9999]
    trajectory = decaying(
        (0, 2, 4, 6),
        steps,
        [[1, 1, 2, 2], [0.01, 1, 2, 2], [1e-4, 1e-2, 2, 2], [1e-4, 1e-4, 0.02, 0.2], [1e-6, 1e-6, 2e-6, 2e-5]],
    )
    times = stage_times(trajectory)
    # straight lines in log loss against log(1 + step): one decade of steps between records
    assert times.settled == pytest.approx(10.0**1.5 - 1)
    assert times.plateau_end == pytest.approx(10.0 ** (2 + np.log10(2) / 2) - 1)
    assert times.warm == pytest.approx(10.0 ** (3 + np.log10(2) / 4) - 1)
    assert times.fitted == pytest.approx(10.0 ** (3 + np.log10(20) / 4) - 1)


def test_stages_that_are_not_reached_are_not_numbers():
    times = stage_times(decaying((0, 2, 4), [0, 10, 100], [[1, 1, 1], [0.01, 0.05, 1], [0.001, 0.01, 0.9]]))
    assert 1.0 < times.settled < 10.0
    assert np.isnan([times.plateau_end, times.warm, times.fitted]).all()
    assert np.isnan(stage_times(decaying((0, 2, 4), [0, 10], [[1, 1, 1], [1, 1, 1]])).settled)


@pytest.mark.parametrize(
    ("values", "expected"), [([1.0, 0.5, 0.1], 7.0), ([0.05, 1.0, 1.0], 0.0), ([1.0, 1.0, 0.0], 7.0), ([1.0] * 3, None)]
)
def test_first_below_takes_the_first_record_that_is_low_enough(values, expected):
    found = first_below(np.array([0.0, 3.0, 7.0]), np.array(values), 0.1)
    assert np.isnan(found) if expected is None else found == pytest.approx(expected)


def test_stages_of_a_real_run_come_in_order():
    risk = wstar.PopulationRisk(basis_teacher(10), preprocessed=False)
    result = wstar.truncated_descent(risk, width=40, n_steps=5000)
    times = stage_times(result.trajectory)
    assert 0 < times.settled < times.plateau_end < times.warm < times.fitted < 5000
    at = result.trajectory.relative_tensor_loss.interp(step=times.plateau_end).sel(order=[0, 2]).values
    # the plateau is one of order 4: orders 0 and 2 have long been small
    assert (at < 0.01).all()


# ----------------------------------------------------------------------------------------------------- tickets


def test_a_perfect_and_a_reversed_start_have_area_one_and_zero():
    teacher, rng = basis_teacher(3), np.random.default_rng(0)
    end = np.eye(3)[rng.integers(0, 3, 40)] * rng.uniform(0.5, 2.0, (40, 1)) * rng.choice([-1, 1], (40, 1))
    won = end != 0.0
    size = np.sqrt(rng.uniform(0.5, 0.9, (40, 3)))
    perfect = winning_tickets(np.where(won, 1.0 + size, size), end, teacher)
    assert (perfect.roc_area, perfect.first, perfect.top) == (1.0, 1.0, 1.0)
    assert (perfect.roc_areas == 1.0).all()
    assert np.array_equal(perfect.serves, won)
    assert np.array_equal(perfect.servants, won.sum(axis=0))
    reversed_ = winning_tickets(np.where(won, size, 1.0 + size), end, teacher)
    assert (reversed_.roc_area, reversed_.first) == (0.0, 0.0)


def test_the_area_is_the_share_of_pairs_in_the_right_order():
    rng = np.random.default_rng(1)
    masses = np.array([0.5, 0.3, 0.2])
    start, end = rng.standard_normal((25, 3)), np.eye(3)[rng.integers(0, 3, 25)] + 0.05 * rng.standard_normal((25, 3))
    found = winning_tickets(start, end, basis_teacher(3, masses))
    scores, serves = masses * start**2, serving(end, basis_teacher(3))
    right = [a > b for a in scores[serves] for b in scores[~serves]]
    assert found.roc_area == pytest.approx(np.mean(right), abs=1e-12)
    for j in range(3):
        own = [a > b for a in scores[serves[:, j], j] for b in scores[~serves[:, j], j]]
        assert found.roc_areas[j] == pytest.approx(np.mean(own), abs=1e-12)
    best = [serves[scores[:, j].argmax(), j] for j in range(3)]
    assert found.first == pytest.approx(np.mean(best))
    hits = sum(serves[np.argsort(-scores[:, j])[: serves[:, j].sum()], j].sum() for j in range(3))
    assert found.top == pytest.approx(hits / serves.sum())


def test_a_neuron_serves_one_teacher_and_only_when_near():
    weights = np.array([[2.0, 0.1], [-0.1, -3.0], [1.0, 1.0], [0.0, 0.0]])
    assert serving(weights, basis_teacher(2)).tolist() == [[True, False], [False, True], [False, False], [False, False]]


def test_the_start_foretells_the_winners_of_a_real_run():
    """Top share against chance: were the winners drawn at random, this many hits have probability below 1e-6."""
    risk = wstar.PopulationRisk(basis_teacher(10), preprocessed=False)
    result = wstar.truncated_descent(risk, width=60, n_steps=4000)
    found = winning_tickets(result.start, result.weights, basis_teacher(10))
    hits, total = round(found.top * found.servants.sum()), found.servants.sum()
    assert binom.sf(hits - 1, total, found.servants.max() / 60) < 1e-6
    assert found.roc_area > 0.9
    shuffled = winning_tickets(np.random.default_rng(0).permutation(result.start), result.weights, basis_teacher(10))
    assert shuffled.roc_area < 0.7


def test_the_rule_is_scored_by_precision_and_recall():
    start = np.array([[0.9, 0.0], [0.1, 0.1], [0.0, 0.9], [0.9, 0.9]])
    sets = neuron_sets(start, basis_teacher(2), 0.1, 80.0, margin=0.0)
    assert 0.01 < sets.thresholds[0] < 0.81
    serves = np.array([[True, False], [True, False], [False, False], [False, True]])
    score = score_rule(sets, serves)
    assert (score.named, score.precision, score.recall) == (2, 0.5, pytest.approx(1 / 3))
    nobody = neuron_sets(start, basis_teacher(2), 0.1, 1e-3)
    assert np.isnan(score_rule(nobody, serves).precision)
    assert np.isnan(score_rule(sets, np.zeros((4, 2), bool)).recall)


# ----------------------------------------------------------------------------------------------------- trouble


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mass_errors(np.eye(4), oblique_teacher()), "W\\* is not orthonormal .* lose their meaning"),
        (lambda: neuron_sets(np.eye(4), oblique_teacher(), 0.1, 10.0), "W\\* is not orthonormal"),
        (lambda: mass_errors(np.eye(3), basis_teacher(2)), r"weights has shape \(3, 3\): weights \(m, 2\)"),
        (lambda: mass_errors(np.full((2, 2), np.inf), basis_teacher(2)), "weights: neuron 0 is not finite"),
        (lambda: neuron_sets(np.eye(2), basis_teacher(2, [1.2, -0.2]), 0.1, 9.0), "mass -0.2: LMZ's thresholds"),
        (lambda: neuron_sets(np.eye(2), basis_teacher(2), 0.0, 9.0), "learning_rate=0.0"),
        (lambda: neuron_sets(np.eye(2), basis_teacher(2), 0.1, -1.0), "plateau_steps=-1.0"),
        (lambda: neuron_sets(np.eye(2), basis_teacher(2), 0.1, 9.0, margin=-0.1), "margin=-0.1"),
        (lambda: basis_like_share(np.eye(2), basis_teacher(2), cosine=0.0), "cosine=0.0"),
        (lambda: serving(np.eye(2), basis_teacher(2), cosine=1.5), "cosine=1.5"),
        (lambda: winning_tickets(np.eye(2), np.ones((3, 2)), basis_teacher(2)), "the same neurons at both times"),
        (lambda: stage_times(decaying((0, 2), [0], [[1, 1]])), "orders 0, 2 and 4"),
        (
            lambda: gradient_by_order(wstar.PopulationRisk(basis_teacher(2), preprocessed=False), np.eye(2), (2.5,)),
            "2.5 must be a whole number",
        ),
    ],
)
def test_bad_input_is_refused_by_name(as_shipped, call, message):
    with pytest.raises(ValueError, match=message):
        call()
