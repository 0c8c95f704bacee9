"""Truncated gradient descent: steps against automatic differentiation, freezing and resuming to the bit, recovery."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wstar
from wstar.algorithms.three_stage import Checkpoint
from wstar.algorithms.truncated.mean_field import TruncatedStep, aligned, ceiling
from wstar.algorithms.truncated.truncation import settling_steps, stage_one_steps, stage_two_steps, thresholds
from wstar.kernels.activations import ABS, RELU, leaky_relu
from wstar.networks.parametrisation import MeanField
from wstar.precision import double_precision


def orthonormal_teacher(dim, seed=0, activation="abs", factor=1.0):
    """``Σ a_i σ(w*_i·x)`` with orthonormal w* and a_i = factor/d."""
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((dim, dim)))[0]
    return wstar.Teacher(np.full(dim, factor / dim), basis, activation=activation)


def population(dim=4, **kwargs):
    return wstar.PopulationRisk(orthonormal_teacher(dim, **kwargs), preprocessed=False)


def sampled(dim=4, n=300, seed=1, **kwargs):
    teacher = orthonormal_teacher(dim, **kwargs)
    X = np.random.default_rng(seed).standard_normal((n, dim))
    return wstar.EmpiricalRisk(X, teacher(X), preprocessed=False)


def run(risk, **kwargs):
    options = {"width": 12, "n_steps": 150, "learning_rate": 0.2} | kwargs
    return wstar.truncated_descent(risk, **options)


class InMemory(Checkpoint):
    """Keeps the last state; ``patience`` saves, then the run is killed."""

    def __init__(self, patience=10**9):
        self.arrays, self.patience = None, patience

    def load(self):
        return None if self.arrays is None else dict(self.arrays)

    def save(self, arrays):
        self.arrays = {name: np.array(value) for name, value in arrays().items()}
        self.patience -= 1
        if self.patience == 0:
            raise KeyboardInterrupt


@pytest.fixture
def often_paused(monkeypatch):
    """The driver pauses after every few steps, so that a run can be killed anywhere."""
    monkeypatch.setattr("wstar.algorithms.run._next_piece", lambda *_: 7)


# ---------------------------------------------------------------------------------------------------- one step


def population_loss(activation, weights, teacher):
    """``L`` from ``E σ(u·x)σ(v·x)`` term by term, in a form that automatic differentiation survives at ρ = 1."""
    even, odd = activation.even, activation.odd
    norms = jnp.linalg.norm(weights, axis=1)
    directions, masses = weights / norms[:, None], norms**2 / len(weights)

    def kernel(rho):
        return (2.0 / jnp.pi) * (jnp.sqrt(1.0 - rho**2) + rho * jnp.arcsin(rho))

    m = len(weights)
    # a neuron's kernel with itself is 1 whatever its direction
    rho = jnp.where(jnp.eye(m, dtype=bool), 0.5, directions @ directions.T)
    own = jnp.where(jnp.eye(m, dtype=bool), even**2 + odd**2, even**2 * kernel(rho) + odd**2 * rho)
    cross = even * kernel(directions @ teacher.weights.T)
    return masses @ own @ masses - 2.0 * masses @ cross @ teacher.outputs


@pytest.mark.parametrize("activation", [ABS, RELU, leaky_relu(0.3)], ids=lambda a: a.name)
@pytest.mark.parametrize("make", [population, sampled])
@double_precision
def test_a_step_is_the_derivative_of_the_loss_times_the_width(make, activation):
    risk, rate = make(), 0.37
    weights = jnp.asarray(wstar.gaussian_start(6, 4, seed=3))

    def loss(w):
        if make is population:
            return population_loss(activation, w, orthonormal_teacher(4))
        return risk.loss(activation, MeanField(w).measure())

    slope = jax.jit(jax.grad(loss))(weights)
    step = TruncatedStep(risk, *(jnp.asarray(x) for x in (rate, 1e6, 1e6)), activation)
    following, norm = jax.jit(lambda w: step(MeanField(w)))(weights)
    np.testing.assert_allclose(following.weights, weights - rate * 6 * slope, rtol=1e-11, atol=1e-13)
    assert float(norm) == pytest.approx(6 * float(jnp.linalg.norm(slope)), rel=1e-11)


def kernel_of_targets():
    """``(π/2) E |e_i·x||e_j·x|`` of four orthonormal directions."""
    return np.where(np.eye(4, dtype=bool), 0.5 * np.pi, 1.0)


@pytest.mark.parametrize("make", [population, sampled])
def test_beyond_the_energy_limit_the_loss_has_risen_for_good(make):
    risk = make()
    start = wstar.gaussian_start(9, 4, seed=0)
    with jax.enable_x64(True):
        limits = ceiling(risk, ABS, start)
        before = float(risk.loss(ABS, MeanField(start).measure()))
        labels = float(np.mean(risk.y**2)) if make is sampled else 2 / np.pi * float(kernel_of_targets().sum()) / 16
        assert limits.loss == pytest.approx(max(4.0 * before, labels), rel=1e-9)

        @jax.jit
        def look(weights):
            measure = MeanField(weights).measure()
            energy = measure.masses @ risk.residual_field(ABS, measure, measure.directions).values
            return energy, risk.loss(ABS, measure)

        seen = np.array([look(factor * start) for factor in np.geomspace(1.0, 30.0, 60)])
    crossed = seen[:, 0] > limits.energy
    assert 0 < crossed.sum() < 60
    assert (seen[crossed, 1] > limits.loss).all()


def test_the_step_of_a_large_sample_is_the_population_step():
    """z-scores of all 20 entries of the gradient, against each row's own; 5 standard errors: false alarm 1.2e-5."""
    teacher, n = orthonormal_teacher(4), 40_000
    X = np.random.default_rng(7).standard_normal((n, 4))
    weights = wstar.gaussian_start(5, 4, seed=2)
    norms = np.linalg.norm(weights, axis=1)
    student = wstar.Student.from_mean_field(weights, "abs")
    residual = student(X) - teacher(X)
    # 2R ∂_w(‖w‖|w·x|), row by row
    pre = X @ weights.T
    rows = np.abs(pre)[:, :, None] * (weights / norms[:, None]) + (np.sign(pre) * norms)[:, :, None] * X[:, None, :]
    rows = 2.0 * residual[:, None, None] * rows
    exact = run(population(), start=weights, n_steps=1, learning_rate=1.0)
    score = (rows.mean(axis=0) - (weights - exact.weights)) / (rows.std(axis=0) / np.sqrt(n))
    assert np.abs(score).max() < 5.0
    sample = run(wstar.EmpiricalRisk(X, teacher(X), preprocessed=False), start=weights, n_steps=1, learning_rate=1.0)
    np.testing.assert_allclose(weights - sample.weights, rows.mean(axis=0), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("activation", [ABS, RELU], ids=lambda a: a.name)
@double_precision
def test_rows_filled_up_with_zeros_give_the_same_step(activation):
    risk, weights = sampled(dim=5, activation="relu"), jnp.asarray(wstar.gaussian_start(6, 5, seed=3))
    wide = aligned(risk)
    assert wide.dim == 8
    assert aligned(wide) is wide
    numbers = [jnp.asarray(x) for x in (0.4, 1e6, 1e6)]
    (plain, norm), (same, same_norm) = (
        jax.jit(lambda w, r=r: TruncatedStep(r, *numbers, activation)(MeanField(w)))(weights) for r in (risk, wide)
    )
    np.testing.assert_allclose(same.weights, plain.weights, rtol=1e-13, atol=1e-14)
    assert float(same_norm) == pytest.approx(float(norm), rel=1e-12)


# -------------------------------------------------------------------------------------------------- truncation


@pytest.mark.parametrize("make", [population, sampled])
def test_large_neurons_are_frozen_to_the_bit_and_the_rest_move(make):
    start = wstar.gaussian_start(12, 4, seed=0)
    squares = np.sort(np.sum(start**2, axis=1))
    level = 0.5 / (0.5 * (squares[5] + squares[6]))
    result = run(make(), start=start, lambda_0=level, lambda_1=level)
    held = np.sum(start**2, axis=1) > 0.5 / level
    assert held.sum() == 6
    assert np.array_equal(result.weights[held], start[held])
    assert (result.weights[~held] != start[~held]).all()
    assert result.trajectory.frozen.values[0] == 6


def test_a_neuron_that_grows_past_its_threshold_stops_there_until_stage_two():
    options = {"lambda_0": 0.5 / 2.2, "lambda_1": 1e-3, "stage_one": 3000, "record_weights": True}
    result = run(population(), n_steps=4000, **options)
    squares = np.sum(result.trajectory.weights.values**2, axis=2)
    first = result.trajectory.stage.values == 1
    stopped = np.flatnonzero((squares[0] <= 2.2) & (squares[first] > 2.2).any(axis=0))
    assert stopped.size
    for neuron in stopped:
        since = np.flatnonzero(first & (squares[:, neuron] > 2.2))
        frames = result.trajectory.weights.values[since, neuron]
        assert len(frames) > 3
        assert (frames == frames[0]).all()
        assert (result.weights[neuron] != frames[0]).all()


def test_the_stages_are_as_long_as_the_formulas_say():
    risk, rate = population(5), 0.25
    result = run(risk, n_steps=None, learning_rate=rate)
    first, second = stage_one_steps(5, rate), stage_two_steps(5, rate)
    assert (first, second) == (int(np.ceil(2 * 25 / (rate * np.log(5)))), int(np.ceil(20 * 5**1.1 / rate)))
    assert [(s.first_step, s.last_step) for s in result.stages] == [(0, first), (first, first + second)]
    assert [s.level for s in result.stages] == list(thresholds(5)) == [0.5 / 25, 0.5 / 625]
    assert result.reason == "step cap"


def test_a_detected_plateau_ends_where_the_rule_says():
    settled = settling_steps(10, 0.1)
    looks = range(0, 4001, -(-settled // 4))
    result = run(population(10), width=40, n_steps=4000, learning_rate=0.1, stage_one="detect", record_steps=looks)
    losses = result.trajectory.loss.sel(step=[step for step in looks if step >= settled])
    expected = int(losses.step[(losses.values <= 0.5 * losses.values[0]).argmax()])
    assert result.stages[0].last_step == expected
    assert 2 * settled < expected < 4000


def test_one_threshold_alone_brings_the_other_by_the_formulas_ratio():
    by_formula = thresholds(4)
    first = [s.level for s in run(population(), lambda_0=1e-3, stage_one=50).stages]
    second = [s.level for s in run(population(), lambda_1=1e-5, stage_one=50).stages]
    assert first == pytest.approx([1e-3, 1e-3 * by_formula[1] / by_formula[0]], rel=1e-14)
    assert second == pytest.approx([1e-5 * by_formula[0] / by_formula[1], 1e-5], rel=1e-14)


def test_neurons_held_back_by_stage_one_are_let_go_by_stage_two():
    start = wstar.gaussian_start(6, 4, seed=0)
    squares = np.sort(np.sum(start**2, axis=1))
    # only the smallest neuron may move, and it is zero: Stage 1 has no gradient at all
    start[np.sum(start**2, axis=1) == squares[0]] = 0.0
    result = run(population(), start=start, lambda_0=0.5 / (0.5 * squares[1]), lambda_1=1e-3, stage_one=60, n_steps=100)
    assert [(s.first_step, s.last_step) for s in result.stages] == [(0, 60), (60, 100)]
    moved = (result.weights != start).any(axis=1)
    assert moved.sum() == 5


# ---------------------------------------------------------------------------------------------------- recovery


@pytest.mark.parametrize("activation", ["abs", "relu"])
def test_every_direction_is_found_on_the_population(activation):
    result = run(population(6), width=40, n_steps=8000, learning_rate=0.1, activation=activation)
    end = result.trajectory.isel(step=-1)
    assert (end.best_cosine > 0.995).all()
    assert (end.relative_tensor_loss < 0.01).all()
    assert float(end.loss) == pytest.approx(population(6).value(result.student), rel=1e-9)


def test_every_direction_is_found_on_a_sample():
    result = run(sampled(6, 4000), width=40, n_steps=6000, learning_rate=0.1, teacher=orthonormal_teacher(6))
    assert (result.trajectory.best_cosine.isel(step=-1) > 0.99).all()


@pytest.mark.parametrize("make", [population, lambda **kw: sampled(n=3000, **kw)], ids=["population", "sample"])
def test_a_relu_target_is_found_after_its_linear_part_is_taken_off(make):
    risk = make(activation="relu", factor=2.0)
    result = run(risk, width=30, n_steps=6000, learning_rate=0.1, remove_linear=True)
    teacher = orthonormal_teacher(4, activation="relu", factor=2.0)
    cosines = np.abs(result.student.directions @ teacher.directions.T).max(axis=0)
    assert (cosines > 0.99).all()
    # the student has its linear part back: it predicts the labels themselves
    labels = float(np.mean(teacher(np.random.default_rng(0).standard_normal((2000, 4))) ** 2))
    assert risk.value(result.student) < 2e-3 * labels
    np.testing.assert_allclose(result.student.linear, 0.5 * teacher.outputs @ teacher.weights, atol=0.05)


def test_the_linear_part_of_a_population_is_known_exactly():
    teacher = orthonormal_teacher(4, activation="relu", factor=2.0)
    result = run(wstar.PopulationRisk(teacher, preprocessed=False), remove_linear=True)
    np.testing.assert_allclose(result.student.linear, 0.5 * teacher.outputs @ teacher.weights, rtol=1e-14)


@pytest.mark.parametrize("make", [population, sampled])
def test_normalised_labels_give_the_same_run_at_any_scale(make):
    small, large = (run(make(factor=f), normalise=True) for f in (1.0, 1024.0))
    np.testing.assert_allclose(small.weights, large.weights, rtol=1e-9, atol=1e-12)
    X = np.random.default_rng(0).standard_normal((50, 4))
    np.testing.assert_allclose(1024.0 * small.student(X), large.student(X), rtol=1e-9)
    assert small.trajectory.loss.values == pytest.approx(large.trajectory.loss.values, rel=1e-8)


@pytest.mark.parametrize("make", [population, sampled])
def test_relabelling_is_a_change_of_variable(make):
    """``E(f − (y − β·x)/s)² = E((s f + β·x) − y)²/s²``, with and without ball arithmetic."""
    risk, student = make(activation="relu"), wstar.Student([0.3, -0.7], np.eye(4)[:2], bias=0.2, activation="relu")
    linear, scale = np.array([0.1, -0.4, 0.0, 0.3]), 2.5
    other = risk.relabelled(linear, scale)
    enlarged = wstar.Student(scale * student.outputs, student.weights, scale * 0.2, linear, "relu")
    assert other.value(student) == pytest.approx(risk.value(enlarged) / scale**2, rel=1e-12)
    if make is population:
        ball, expected = other.value(student, precise=True), risk.value(enlarged, precise=True)
        # the new labels are rounded to double precision once
        assert ball.value == pytest.approx(expected.value / scale**2, rel=1e-14)


def test_a_population_normalised_to_one_needs_no_normalising():
    plain, normalised = run(population()), run(population(), normalise=True)
    np.testing.assert_allclose(plain.weights, normalised.weights, rtol=1e-11, atol=1e-13)


def test_turning_the_space_turns_the_run():
    turn = np.linalg.qr(np.random.default_rng(5).standard_normal((4, 4)))[0]
    teacher, start = orthonormal_teacher(4), wstar.gaussian_start(12, 4, seed=1)
    turned = wstar.Teacher(teacher.outputs, teacher.weights @ turn, activation="abs")
    plain = run(wstar.PopulationRisk(teacher, preprocessed=False), start=start)
    other = run(wstar.PopulationRisk(turned, preprocessed=False), start=start @ turn)
    np.testing.assert_allclose(plain.weights @ turn, other.weights, rtol=1e-9, atol=1e-11)


def test_flipping_a_neuron_of_abs_flips_it_throughout():
    start = wstar.gaussian_start(12, 4, seed=1)
    signs = np.where(np.arange(12) % 3, 1.0, -1.0)[:, None]
    plain, flipped = (run(population(), start=s) for s in (start, signs * start))
    assert np.array_equal(signs * plain.weights, flipped.weights)


def test_zero_equal_and_opposite_neurons_stay_finite_over_ten_thousand_steps():
    start = wstar.gaussian_start(7, 3, seed=0)
    start[1], start[2], start[3] = start[0], -start[0], 0.0
    result = run(population(3), start=start, n_steps=10_000, learning_rate=0.1)
    assert np.isfinite(result.weights).all()
    assert np.array_equal(result.weights[1], result.weights[0])
    assert np.array_equal(result.weights[2], -result.weights[0])
    assert not result.weights[3].any()
    without = run(population(3), start=np.delete(start, 3, axis=0), n_steps=1, learning_rate=0.1)
    # one neuron fewer is another 1/m, so only the directions of one step can be compared: none turns to NaN
    assert np.isfinite(without.weights).all()


# ------------------------------------------------------------------------------------------------- bookkeeping


@pytest.mark.parametrize("stage_one", ["formula", "detect", 40])
@pytest.mark.parametrize("patience", [1, 4, 11, 19])
def test_a_killed_run_goes_on_to_the_same_bits(often_paused, stage_one, patience):
    options = {"n_steps": 400, "stage_one": stage_one, "record_weights": True, "seed": 5}
    unbroken = run(population(), **options)
    checkpoint = InMemory(patience)
    with pytest.raises(KeyboardInterrupt):
        run(population(), checkpoint=checkpoint, **options)
    assert 0 < int(checkpoint.arrays["step"]) < 400
    checkpoint.patience = 10**9
    resumed = run(population(), checkpoint=checkpoint, **options)
    assert np.array_equal(resumed.weights, unbroken.weights)
    assert resumed.trajectory.identical(unbroken.trajectory)
    assert resumed.stages == unbroken.stages


def test_a_checkpoint_of_another_run_is_refused(often_paused):
    checkpoint = InMemory(2)
    with pytest.raises(KeyboardInterrupt):
        run(population(), checkpoint=checkpoint)
    with pytest.raises(ValueError, match=r"checkpoint holds weights \(12, 4\), this run has \(5, 4\)"):
        run(population(), checkpoint=checkpoint, width=5)


def test_what_is_recorded_is_what_the_risk_says():
    risk = population()
    result = run(risk, record_steps=[0, 10, 77], stage_one=90, record_weights=True, orders=(0, 1, 2, 4))
    # what was asked for, the end of each stage, and no step twice
    assert result.trajectory.step.values.tolist() == [0, 10, 77, 90, 150]
    assert result.trajectory.stage.values.tolist() == [1, 1, 1, 1, 2]
    teacher = orthonormal_teacher(4)
    for row in range(5):
        at = result.trajectory.isel(step=row)
        student = wstar.Student.from_mean_field(at.weights.values, "abs")
        assert float(at.loss) == pytest.approx(risk.value(student), rel=1e-10)
        expected = risk.tensor_losses(student, orders=(0, 1, 2, 4))
        np.testing.assert_allclose(at.tensor_loss, list(expected.values()), rtol=1e-9, atol=1e-15)
        size = np.array([1.0 if k == 0 else 1 / 4 for k in (0, 1, 2, 4)])
        np.testing.assert_allclose(at.relative_tensor_loss, at.tensor_loss / size, rtol=1e-12)
        energy = np.array([2 / np.pi, 0.0, 1 / np.pi, 1 / (12 * np.pi)])
        np.testing.assert_allclose(at.weighted_tensor_loss, at.tensor_loss * energy, rtol=1e-12)
        np.testing.assert_allclose(at.norms, student.norms, rtol=1e-14)
        np.testing.assert_allclose(at.best_cosine, np.abs(student.directions @ teacher.directions.T).max(axis=0))
    assert np.array_equal(result.trajectory.weights.values[0], result.start)
    assert np.array_equal(result.trajectory.weights.values[-1], result.weights)


def test_all_orders_of_the_loss_add_up_on_record():
    even = (0, *range(2, 400, 2))
    result = run(population(), orders=even, n_steps=3)
    # the orders that are left out weigh at most Σ_{k≥400} c_k (E‖w‖² + 1)², Σ c_k ~ 0.508 · (2/3)/2 · 400^{−3/2}
    left = result.trajectory.loss - result.trajectory.weighted_tensor_loss.sum("order")
    assert (left > -1e-14).all()
    assert (left < 0.17 * 400**-1.5 * 4.0).all()


def test_a_sample_without_a_known_teacher_records_no_tensor_losses():
    trajectory = run(sampled()).trajectory
    assert "tensor_loss" not in trajectory
    assert "best_cosine" not in trajectory
    assert np.isfinite(trajectory.loss).all()


def test_progress_is_told(often_paused):
    seen = []
    run(population(), stage_one=50, on_progress=seen.append)
    assert [p.step for p in seen] == sorted({p.step for p in seen})
    assert {p.stage for p in seen} == {1, 2}
    assert (seen[-1].step, seen[-1].n_steps) == (150, 150)


def test_a_tolerance_stops_a_run_that_has_converged():
    result = run(population(2), width=6, n_steps=100_000, tolerance=1e-7)
    assert result.reason == "converged"
    assert result.trajectory.gradient_norm.values[-1] <= 1e-7
    assert result.stages[-1].last_step < 100_000


def test_nothing_of_the_caller_is_touched():
    start = wstar.gaussian_start(12, 4, seed=0)
    kept, state = start.copy(), np.random.get_state()[1].copy()
    start.setflags(write=False)
    run(population(), start=start)
    assert np.array_equal(start, kept)
    assert np.array_equal(np.random.get_state()[1], state)
    assert not jax.config.jax_enable_x64


def test_a_seed_is_one_run():
    assert np.array_equal(run(population(), seed=3).weights, run(population(), seed=3).weights)
    assert not np.array_equal(run(population(), seed=3).weights, run(population(), seed=4).weights)


# -------------------------------------------------------------------------------------------------- many at once


@pytest.mark.parametrize("make", [population, lambda: sampled(n=64)], ids=["population", "sample"])
def test_many_runs_are_the_single_runs(make):
    options = {"width": 8, "n_steps": 200, "learning_rate": 0.2, "stage_one": 90}
    many = wstar.truncated_descent_many(make(), range(5), **options)
    for seed, result in enumerate(many):
        single = wstar.truncated_descent(make(), seed=seed, **options)
        np.testing.assert_allclose(result.weights, single.weights, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(result.trajectory.loss, single.trajectory.loss, rtol=1e-9, atol=1e-14)
        assert result.trajectory.step.equals(single.trajectory.step)
        assert (result.stages, result.reason) == (single.stages, single.reason)
        assert np.array_equal(result.start, single.start)


def test_one_run_that_diverges_does_not_stop_the_others():
    # at this rate the outcome depends on the seed
    options = {"width": 4, "n_steps": 300, "learning_rate": 0.65}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        single = [wstar.truncated_descent(population(), seed=seed, **options) for seed in range(12)]
        many = wstar.truncated_descent_many(population(), range(12), **options)
    assert {r.reason for r in single} == {"diverged", "step cap"}
    assert [r.reason for r in many] == [r.reason for r in single]
    assert [r.stages[-1].last_step for r in many] == [r.stages[-1].last_step for r in single]


def test_runs_too_large_for_a_batch_are_bit_equal():
    options = {"width": 130, "n_steps": 12}
    many = wstar.truncated_descent_many(population(3), [2, 7], **options)
    for seed, result in zip([2, 7], many, strict=True):
        assert np.array_equal(result.weights, wstar.truncated_descent(population(3), seed=seed, **options).weights)


# ------------------------------------------------------------------------------------------------------ trouble


@pytest.mark.parametrize("rate", [8.0, 1e3, 1e12, 1e300])
def test_a_rate_that_diverges_is_stopped_with_the_step_and_advice(rate, nans_allowed):
    with pytest.warns(UserWarning, match="lower learning_rate"):
        result = run(population(), n_steps=10_000, learning_rate=rate)
    assert result.reason == "diverged"
    assert result.stages[-1].last_step < 200
    assert f"step {result.stages[-1].last_step}" in result.message
    assert np.isfinite(result.weights).all()
    # the advice is one to follow
    advised = float(result.message.rsplit(" ", 1)[1])
    assert run(population(), learning_rate=advised).reason == "step cap"
    assert (result.trajectory.loss <= 4.0 * result.trajectory.loss[0]).all()


BAD = [
    ({"width": 0}, "width=0 must be a whole number of at least 1"),
    ({"width": 2.5}, "width=2.5"),
    ({"n_steps": -1}, "n_steps=-1"),
    ({"n_steps": 1.5}, "n_steps=1.5"),
    ({"learning_rate": 0.0}, "learning_rate=0.0 must be finite and positive"),
    ({"learning_rate": float("nan")}, "learning_rate=nan"),
    ({"activation": "tanh"}, "activation='tanh'"),
    ({"lambda_0": 0.0}, "lambda_0=0.0 must be positive"),
    ({"lambda_1": float("inf")}, "lambda_1=inf"),
    ({"lambda_0": 1e-4, "lambda_1": 1e-3}, "lambda_1=0.001 is above lambda_0=0.0001"),
    ({"lambda_0": 1e3}, "lambda_0=1000 freezes every neuron at the start"),
    ({"stage_one": "guess"}, "stage_one='guess'"),
    ({"stage_one": -3}, "stage_one=-3"),
    ({"tolerance": -1.0}, "tolerance=-1.0"),
    ({"orders": (2, -2)}, "orders=-2"),
    ({"orders": (2.5,)}, "orders=2.5"),
    ({"record_steps": (-1,)}, "record_steps=-1"),
    ({"remove_linear": "yes"}, "remove_linear='yes'"),
    ({"rho": 1.0}, "no setting 'rho'; it has lambda_0"),
    ({"start": np.ones((3, 5))}, r"start has shape \(3, 5\): weights \(m, 4\)"),
    ({"start": np.ones(4)}, r"start has shape \(4,\)"),
    ({"start": np.full((3, 4), np.nan)}, "start: neuron 0 is not finite"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[m[:24] for _, m in BAD])
def test_bad_input_is_refused_by_name(as_shipped, change, message):
    with pytest.raises(ValueError, match=message):
        run(population(), **change)


@pytest.mark.parametrize("cls", ["population", "sample"])
def test_preprocessed_risks_are_refused_with_the_remedy(cls):
    teacher, X = orthonormal_teacher(4), np.random.default_rng(0).standard_normal((20, 4))
    risk = wstar.PopulationRisk(teacher) if cls == "population" else wstar.EmpiricalRisk(X, teacher(X))
    with pytest.raises(ValueError, match="preprocessed=False"):
        run(risk)
    with pytest.raises(ValueError, match="preprocessed=False"):
        wstar.truncated_descent_many(risk, [0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": ()}, "seeds is empty"),
        ({"stage_one": "detect"}, "give a number of steps"),
        ({"n_threads": 0}, "n_threads=0"),
        ({"width": 0}, "width=0"),
        ({"lambda_0": 1e3}, "freezes every neuron"),
    ],
)
def test_bad_input_for_many_runs_is_refused_by_name(as_shipped, change, message):
    with pytest.raises(ValueError, match=message):
        wstar.truncated_descent_many(population(), **({"seeds": [0], "width": 5} | change))


def test_labels_of_negative_mean_cannot_be_normalised():
    X = np.random.default_rng(0).standard_normal((50, 4))
    risk = wstar.EmpiricalRisk(X, -np.abs(X[:, 0]), preprocessed=False)
    with pytest.raises(ValueError, match=r"mean -0\.\d+: masses"):
        run(risk, normalise=True)


def oblique(masses):
    return wstar.PopulationRisk(wstar.Teacher(masses, np.eye(4)[: len(masses)], activation="abs"), preprocessed=False)


WARNED = [
    (lambda: run(oblique([0.2, 0.2])), "a_i sum to 0.4, LMZ's to 1"),
    (lambda: run(oblique([0.99, 0.01])), r"outside \[1/\(κd\), κ/d\]"),
    (lambda: run(oblique([1.2, -0.2])), "negative ones cannot be fitted"),
    (lambda: run(population(), width=3), "width=3 is below the teacher's 4 neurons"),
    (lambda: run(sampled(), width=3), "width=3 is below dim=4"),
    (lambda: run(sampled(n=3)), "3 rows for 4 inputs"),
    (lambda: run(population(activation="relu", factor=2.0)), "pass remove_linear=True"),
    (lambda: run(sampled(n=500, activation="relu", factor=2.0)), "pass remove_linear=True"),
]


@pytest.mark.parametrize(("case", "message"), WARNED, ids=[m[:20] for _, m in WARNED])
def test_assumptions_that_do_not_hold_are_warned_about(case, message):
    with pytest.warns(UserWarning, match=message):
        case()


@pytest.mark.parametrize("case", [population, lambda: sampled(n=500), lambda: sampled(n=12), lambda: population(1)])
def test_where_all_assumptions_hold_nothing_is_said(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(case(), n_steps=20, learning_rate=0.05)


@pytest.mark.parametrize(("n", "dim", "width"), [(1, 3, 4), (5, 1, 1), (40, 2, 1)])
def test_the_smallest_problems_run(n, dim, width):
    X = np.random.default_rng(0).standard_normal((n, dim))
    risk = wstar.EmpiricalRisk(X, np.abs(X[:, :1]), preprocessed=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = run(risk, width=width, n_steps=30, learning_rate=0.05)
    assert np.isfinite(result.trajectory.loss).all()
    assert result.trajectory.loss[-1] < result.trajectory.loss[0]


def test_rows_of_zeros_and_repeated_rows_do_no_harm():
    X = np.random.default_rng(0).standard_normal((60, 4))
    X[7], X[8] = 0.0, X[9]
    y = np.abs(X).mean(axis=1)
    doubled = wstar.EmpiricalRisk(X, y, np.where(np.arange(60) < 30, 2.0, 1.0), preprocessed=False)
    repeated = wstar.EmpiricalRisk(np.vstack([X[:30], X]), np.concatenate([y[:30], y]), preprocessed=False)
    np.testing.assert_allclose(run(doubled).weights, run(repeated).weights, rtol=1e-10, atol=1e-12)


def test_an_all_zero_sample_moves_nothing():
    result = run(wstar.EmpiricalRisk(np.zeros((10, 4)), np.ones(10), preprocessed=False))
    assert np.array_equal(result.weights, result.start)
