"""ZG's Algorithm 1: every stage against an independent computation, shortcuts against the long way, both risks."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import Lasso

import wstar
from wstar.algorithms.lasso import lasso_path_end, merge_directions, optimality_violation
from wstar.algorithms.run import CONVERGED, DIVERGED, STEP_CAP
from wstar.algorithms.stages import adjust_norms, first_step
from wstar.algorithms.three_stage import three_stage
from wstar.kernels.activations import RELU
from wstar.networks.student import symmetric_start
from wstar.theory.alignment import recovery_report


@pytest.fixture(scope="module")
def teacher():
    return wstar.random_teacher(dim=12, rank=2, width=3, seed=1)


@pytest.fixture(scope="module")
def population(teacher):
    return wstar.PopulationRisk(teacher)


@pytest.fixture(scope="module")
def sample(teacher):
    X = np.random.default_rng(0).standard_normal((4000, 12))
    return wstar.EmpiricalRisk(X, teacher(X))


SMALL = {"width": 60, "seed": 2, "n_epochs": 5}


@pytest.fixture(scope="module")
def small_run(population):
    return three_stage(population, **SMALL)


# ---------------------------------------------------------------------- Stage 1


@pytest.mark.parametrize("which", ["population", "sample"])
@pytest.mark.parametrize(("weight_decay", "learning_rate"), [(1.0, 1.0), (0.3, 0.5)])
def test_first_step_is_one_gradient_step(which, weight_decay, learning_rate, request):
    risk = request.getfixturevalue(which)
    start = symmetric_start(20, 12, seed=5)
    stepped = first_step(risk, start, weight_decay, learning_rate)
    gradient = risk.gradient(start, weight_decay)
    for name in ("outputs", "weights", "bias", "linear"):
        expected = getattr(start, name) - learning_rate * np.asarray(getattr(gradient, name))
        np.testing.assert_allclose(getattr(stepped, name), expected, atol=1e-13)


def test_first_step_from_a_start_that_is_not_the_zero_function(population):
    rng = np.random.default_rng(7)
    start = wstar.Student(rng.normal(size=7), rng.normal(size=(7, 12)), bias=0.3, linear=rng.normal(size=12))
    stepped, gradient = first_step(population, start), population.gradient(start, 1.0)
    np.testing.assert_allclose(stepped.weights, start.weights - gradient.weights, atol=1e-13)
    np.testing.assert_allclose(stepped.linear, start.linear - gradient.linear, atol=1e-13)


def test_the_mirrored_half_ends_exactly_opposite(population):
    stepped = first_step(population, symmetric_start(20, 12, seed=5))
    assert np.array_equal(stepped.weights[:10], -stepped.weights[10:])
    assert stepped.bias == 0.0
    assert not stepped.linear.any()


# ---------------------------------------------------------------------- Stage 2


def random_mass_problem(seed, m=40, rank=30):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rank, m))
    target = rng.normal(size=rank)
    return features, target, features.T @ features, features.T @ target


@pytest.mark.parametrize("seed", range(3))
def test_the_lars_path_solves_the_lasso_that_coordinate_descent_solves(seed):
    features, target, gram, correlation = random_mass_problem(seed)
    decay = 0.2 * 2.0 * np.abs(correlation).max()
    masses = lasso_path_end(gram, correlation, decay)
    assert optimality_violation(gram, correlation, decay, masses) < 1e-11
    peer = Lasso(alpha=decay / 2 / len(target), fit_intercept=False, tol=1e-14, max_iter=10**6).fit(features, target)
    np.testing.assert_allclose(masses, peer.coef_, atol=1e-7)


@pytest.mark.parametrize("decay", [0.02, 1e-3])
def test_a_path_that_breaks_off_is_taken_to_the_optimum(decay):
    """Scikit-learn's path ends 1e-6 to 1e-2 short of it on thousands of nearly equal directions."""
    teacher = wstar.random_teacher(dim=20, rank=2, width=3, min_angle=0.3, seed=2)
    risk = wstar.PopulationRisk(teacher)
    directions = first_step(risk, symmetric_start(2400, 20, 2)).directions
    gram, correlation, _ = risk.mass_problem(RELU, directions[:1200])
    masses = lasso_path_end(gram, correlation, decay)
    assert optimality_violation(gram, correlation, decay, masses) < 1e-12
    assert 3 <= np.count_nonzero(masses) < 60


def test_the_violation_sees_a_wrong_answer():
    _, _, gram, correlation = random_mass_problem(0)
    decay = 0.2 * 2.0 * np.abs(correlation).max()
    masses = lasso_path_end(gram, correlation, decay)
    assert optimality_violation(gram, correlation, decay, 1.001 * masses) > 1e-5
    assert optimality_violation(gram, correlation, decay, np.zeros_like(masses)) > 0.1 * decay


def test_above_the_largest_weight_decay_every_mass_is_zero():
    _, _, gram, correlation = random_mass_problem(1)
    assert not lasso_path_end(gram, correlation, 2.0001 * np.abs(correlation).max()).any()
    assert lasso_path_end(gram, correlation, 1.99 * np.abs(correlation).max()).any()


def test_the_papers_subgradient_steps_end_where_the_path_ends(population):
    stepped = first_step(population, symmetric_start(16, 12, seed=3))
    by_path = adjust_norms(population, stepped, 0.02)
    by_steps = adjust_norms(population, stepped, 0.02, method="subgradient", tolerance=1e-7)
    assert by_steps.reason == CONVERGED
    assert by_steps.objective == pytest.approx(by_path.objective, rel=1e-9)
    assert by_path.violation < 1e-14


@pytest.mark.parametrize("which", ["population", "sample"])
def test_stage_two_reports_the_objective_of_its_balanced_student(which, request):
    risk = request.getfixturevalue(which)
    adjusted = adjust_norms(risk, first_step(risk, symmetric_start(40, 12, seed=3)), 0.02)
    assert risk.value(adjusted.student, weight_decay=0.02) == pytest.approx(adjusted.objective, rel=1e-10)
    np.testing.assert_allclose(np.abs(adjusted.student.outputs), adjusted.student.norms, rtol=1e-14)
    gradient = risk.gradient(adjusted.student)
    assert abs(gradient.bias) < 1e-12
    assert np.abs(gradient.linear).max() < 1e-12


def test_directions_equal_modulo_sign_are_merged_whatever_their_order():
    rng = np.random.default_rng(0)
    base = rng.normal(size=(6, 5))
    base /= np.linalg.norm(base, axis=1, keepdims=True)
    rows = np.concatenate([base, -base, base[:2], np.zeros((1, 5))])
    for _ in range(5):
        order = rng.permutation(len(rows))
        owner = merge_directions(rows[order])
        assert (owner == -1).sum() == 1
        assert len(set(owner[owner >= 0])) == 6
        for i, j in enumerate(owner):
            if j >= 0:
                assert abs(abs(rows[order][i] @ rows[order][j]) - 1.0) < 1e-12


# ---------------------------------------------------------------------- Stage 3


def test_the_teacher_is_recovered(teacher, population):
    result = three_stage(population, width=100, seed=0)
    report = recovery_report(result.student, teacher)
    assert report.recovered
    assert max(n.mass_error for n in report.neurons) < 1e-3
    assert report.largest_heavy_angle < 5e-3


def test_each_epoch_ends_where_its_gradient_says(population, small_run):
    last = small_run.epochs[-1]
    assert [e.reason for e in small_run.epochs] == [CONVERGED] * 5
    assert population.value(small_run.student) == pytest.approx(last.loss, rel=1e-9)
    assert population.value(small_run.student, last.weight_decay) == pytest.approx(last.objective, rel=1e-9)
    assert [e.weight_decay for e in small_run.epochs] == [0.02 / 2**k for k in range(5)]
    objectives = small_run.trajectory.objective.values
    for k in range(5):
        inside = objectives[small_run.trajectory.epoch_of_step.values == k]
        assert (np.diff(inside) <= 1e-12).all()


def test_dropping_zeros_and_rotating_into_the_span_change_no_digit_beyond_rounding(population, small_run):
    plain = three_stage(population, **SMALL, reduce=False)
    assert plain.student.width == 60
    assert plain.trajectory.sizes["component"] == 12
    assert [e.n_steps for e in plain.epochs] == [e.n_steps for e in small_run.epochs]
    living = plain.student.norms > 0.0
    assert living.sum() == small_run.student.width
    np.testing.assert_allclose(plain.student.weights[living], small_run.student.weights, atol=1e-11)
    np.testing.assert_allclose(plain.student.outputs[living], small_run.student.outputs, atol=1e-11)
    assert not plain.student.outputs[~living].any()


def test_trained_and_fitted_affine_parts_reach_the_same_point(population, small_run):
    trained = three_stage(population, **SMALL, affine="trained", tolerance=1e-3, max_steps=200_000)
    fitted = three_stage(population, **SMALL, tolerance=1e-3, max_steps=200_000)
    assert trained.reason == fitted.reason == CONVERGED
    decay = fitted.epochs[-1].weight_decay
    assert population.value(trained.student, decay) == pytest.approx(population.value(fitted.student, decay), rel=1e-7)
    assert fitted.epochs[0].learning_rate > 2.0 * trained.epochs[0].learning_rate


def test_what_is_recorded_changes_no_bit_and_is_right(population, small_run):
    wanted = (5, 17, 40)
    other = three_stage(population, **SMALL, record_steps=wanted, records_per_decade=1)
    assert np.array_equal(other.student.weights, small_run.student.weights)
    assert set(wanted) <= set(other.trajectory.step.values.tolist())
    at = other.trajectory.sel(step=17)
    bare = wstar.Student(at.masses.values, at.directions.values @ other.trajectory.basis.values)
    fitted = population.fit_affine(RELU, bare.measure)
    student = wstar.Student(bare.outputs, bare.weights, float(fitted.bias), fitted.linear)
    own = population.tensor_losses(student, orders=(2, 4))
    whole = population.tensor_losses(wstar.Student([0.0], np.eye(12)[:1]), orders=(2, 4))
    for k in (2, 4):
        assert float(at.tensor_loss.sel(order=k)) == pytest.approx(own[k] / whole[k], rel=1e-9)
    # the record is taken just before α and β are put at their optimum again: its loss is a step's change above
    assert population.value(student) == pytest.approx(float(at.loss), rel=0.05)
    # (λ/2)(a² + ‖w‖²) ≥ λ|a|‖w‖, with equality for balanced neurons: gradient steps keep them so to O(η²)
    l1 = 0.02 * float(np.abs(at.masses.values).sum())
    assert l1 <= float(at.objective - at.loss) <= l1 * (1.0 + 1e-3)


def test_a_warm_start_takes_fewer_steps_than_a_cold_one_to_the_same_optimum(population):
    warm = three_stage(population, width=60, seed=2, n_epochs=3, tolerance=1e-2)
    end_of_first = three_stage(population, width=60, seed=2, n_epochs=1, tolerance=1e-2).student
    # cold: Stage 2 at λ/4 on the same directions, then the same epoch
    cold = three_stage(population, width=60, seed=2, weight_decay=0.005, n_epochs=1, tolerance=1e-2)
    assert warm.epochs[2].weight_decay == cold.epochs[0].weight_decay == 0.005
    assert warm.epochs[2].objective == pytest.approx(cold.epochs[0].objective, rel=1e-4)
    assert warm.epochs[2].n_steps < cold.epochs[0].n_steps
    # the second epoch begins at the end of the first: its objective at the start is that state's at λ/2
    start_value = population.value(end_of_first, warm.epochs[1].weight_decay)
    assert warm.epochs[1].objective <= start_value
    assert start_value - warm.epochs[1].objective < warm.epochs[0].objective - warm.epochs[1].objective


def test_an_epoch_starts_where_the_last_one_ended(population, small_run):
    first, second = small_run.epochs[:2]
    trajectory = small_run.trajectory
    end = trajectory.sel(step=first.last_step)
    after = trajectory.sel(step=first.last_step + 1)
    moved = np.abs(after.masses.values - end.masses.values).max()
    assert moved < 0.1 * np.abs(end.masses.values).max()
    assert second.first_step == first.last_step


def test_a_step_size_that_is_too_large_is_reported_with_a_finite_student(population, nans_allowed):
    result = three_stage(population, **SMALL, learning_rate=50.0)
    assert result.reason == DIVERGED
    assert len(result.epochs) == 1
    assert np.isfinite(result.student.weights).all()


def test_the_step_cap_is_on_record(population):
    result = three_stage(population, **SMALL, max_steps=10)
    assert [e.reason for e in result.epochs] == [STEP_CAP] * 5
    assert [e.n_steps for e in result.epochs] == [10] * 5


def test_a_zero_neuron_and_a_duplicate_in_the_start_change_nothing(population):
    start = symmetric_start(60, 12, seed=2)
    padded = wstar.Student(
        np.concatenate([start.outputs, [0.0, 0.0]]), np.concatenate([start.weights, np.zeros((2, 12))])
    )
    plain = three_stage(population, start=start, n_epochs=3)
    other = three_stage(population, start=padded, n_epochs=3)
    np.testing.assert_allclose(other.student.weights, plain.student.weights, atol=1e-9)


@pytest.mark.parametrize("factor", [1e-4, 1e4])
def test_scaling_the_labels_scales_the_run(teacher, small_run, factor):
    scaled = replace(teacher, outputs=factor * teacher.outputs)
    result = three_stage(wstar.PopulationRisk(scaled), **SMALL, weight_decay=0.02 * factor)
    assert [e.reason for e in result.epochs] == [CONVERGED] * 5
    assert result.epochs[-1].objective == pytest.approx(factor**2 * small_run.epochs[-1].objective, rel=1e-5)


def test_rotating_the_teacher_rotates_the_student(teacher, small_run):
    rotation = np.linalg.qr(np.random.default_rng(3).normal(size=(12, 12)))[0]
    turned = replace(teacher, weights=teacher.weights @ rotation)
    start = symmetric_start(60, 12, seed=2)
    turned_start = wstar.Student(start.outputs, start.weights @ rotation)
    result = three_stage(wstar.PopulationRisk(turned), start=turned_start, n_epochs=5)
    np.testing.assert_allclose(result.student.masses, small_run.student.masses, atol=1e-8)


def test_from_samples_the_directions_are_found(teacher, sample):
    result = three_stage(sample, width=100, seed=0, n_epochs=8, teacher=teacher)
    report = recovery_report(result.student, teacher, within_angle=0.05)
    assert report.recovered
    X = np.random.default_rng(9).standard_normal((2000, 12))
    error = np.mean((sample.restore(result.student)(X) - teacher(X)) ** 2) / np.var(teacher(X))
    assert error < 1e-4
    assert "tensor_loss" in result.trajectory


def test_abs_students_and_leaky_students_train_too(teacher):
    target = wstar.Teacher(teacher.outputs, teacher.weights, activation="leaky_relu", bias=0.4, linear=np.ones(12))
    risk = wstar.PopulationRisk(target)
    for activation in ("leaky_relu", "abs"):
        result = three_stage(risk, width=100, seed=0, n_epochs=8, activation=activation)
        assert recovery_report(result.student, target).recovered


def test_raw_labels_keep_their_affine_part_in_the_student(teacher):
    target = wstar.Teacher(teacher.outputs, teacher.weights, bias=0.4, linear=np.arange(12.0))
    result = three_stage(wstar.PopulationRisk(target, preprocessed=False), width=100, seed=0, n_epochs=9)
    X = np.random.default_rng(0).normal(size=(50, 12))
    np.testing.assert_allclose(result.student(X), target(X), atol=2e-3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weight_decay": -1.0}, "weight_decay=-1.0"),
        ({"weight_decay": 0.0}, "weight_decay=0"),
        ({"weight_decay": float("nan")}, "weight_decay=nan"),
        ({"width": 7}, "width=7 must be even"),
        ({"width": 0}, "width=0"),
        ({"n_epochs": -1}, "n_epochs=-1"),
        ({"stage2": "magic"}, "stage2='magic'"),
        ({"affine": "none"}, "affine='none'"),
        ({"learning_rate": 0.0}, "learning_rate=0.0"),
        ({"tolerance": 0.0}, "tolerance=0.0"),
        ({"weightdecay": 0.1}, "no setting 'weightdecay'"),
        ({"activation": "tanh"}, "activation='tanh'"),
        ({"start": wstar.Student([1.0], np.ones((1, 3)))}, "start has 3 inputs"),
    ],
)
def test_bad_settings_are_named(population, settings, message):
    with pytest.raises(ValueError, match=message):
        three_stage(population, **settings)


def test_the_stable_step_size_is_just_below_two_over_the_curvature(population, small_run):
    """At 1.05 times 2/curvature plain gradient descent must leave the optimum, below it must not."""
    from wstar.algorithms.descent import GradientDescent, Slope, largest_curvature

    decay = small_run.epochs[-1].weight_decay
    with jax.enable_x64(True):
        slope = Slope(population, jnp.asarray(decay), RELU, True)
        state = small_run.student.parameters
        curvature = float(largest_curvature(slope, state, 200))
        results = {}
        for factor in (0.9, 1.1):
            current = state._replace(outputs=state.outputs * (1 + 1e-6))
            step = GradientDescent(slope, jnp.asarray(factor * 2.0 / curvature))
            for _ in range(300):
                current, norm = step(current)
            results[factor] = float(norm)
    assert results[0.9] < 1e-5
    assert results[1.1] > 100.0 * results[0.9]
