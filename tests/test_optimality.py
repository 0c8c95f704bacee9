"""ζ along a run, the repair of local optima, and Stage 3 by Newton's method and by gradient flow."""

import numpy as np
import pytest

import wstar
from wstar.algorithms.newton import MeasureMoves
from wstar.algorithms.run import CONVERGED
from wstar.algorithms.three_stage import Checkpoint, three_stage
from wstar.kernels.activations import RELU
from wstar.theory.alignment import recovery_report


@pytest.fixture(scope="module")
def teacher():
    return wstar.random_teacher(dim=8, rank=2, width=3, min_angle=0.4, seed=1)


@pytest.fixture(scope="module")
def risk(teacher):
    return wstar.PopulationRisk(teacher)


@pytest.fixture(scope="module")
def trapped():
    """A teacher on which Stage 3 from Stage 2's coarse start ends in a local optimum."""
    return wstar.random_teacher(dim=50, rank=3, width=4, min_angle=0.3, seed=12)


SMALL = {"width": 60, "seed": 2, "n_epochs": 4}


class InMemory(Checkpoint):
    """Keeps every state; ``stop_after`` saves a KeyboardInterrupt."""

    def __init__(self, stop_after=None):
        self.kept, self.stop_after, self.saves = None, stop_after, 0

    def load(self):
        return self.kept

    def save(self, arrays):
        self.kept = {name: np.array(a) for name, a in arrays().items()}
        self.saves += 1
        if self.saves == self.stop_after:
            raise KeyboardInterrupt


# ---------------------------------------------------------------------- ζ


def test_the_gap_of_the_optimum_is_zero_and_that_of_another_network_is_the_difference(teacher, risk):
    optimum = wstar.optimal_measure(teacher, 0.01)
    assert wstar.optimality_gap(teacher, optimum.student, 0.01, optimum=optimum).zeta <= 1e-14
    worse = wstar.Student(np.zeros(1), np.ones((1, 8)))
    gap = wstar.optimality_gap(risk, worse, 0.01)
    assert gap.zeta == pytest.approx(risk.value(worse, 0.01) - optimum.objective, abs=1e-6)
    assert gap.zeta <= gap.upper <= gap.zeta + gap.error * (1 + 1e-9)
    assert gap.error < 1e-6


def test_a_precise_gap_agrees_with_the_float_one_and_leaves_less_open(teacher, risk):
    network = three_stage(risk, certify=False, **SMALL).student
    rough = wstar.optimality_gap(risk, network, 0.0025)
    sharp = wstar.optimality_gap(risk, network, 0.0025, precise=True)
    assert sharp.zeta == pytest.approx(rough.zeta, abs=rough.error + sharp.error)
    assert 0.0 < sharp.rounding < 1e-17 < rough.rounding
    optimum = wstar.optimal_measure(teacher, 0.0025, precise=True)
    zero = wstar.optimality_gap(teacher, optimum.student, 0.0025, optimum=optimum, precise=True)
    # masses and directions are exact floats in both, weights and outputs their rounded square roots
    assert 0.0 <= zero.zeta < 1e-16
    with pytest.raises(ValueError, match="precise=True"):
        wstar.optimality_gap(teacher, network, 0.0025, optimum=wstar.optimal_measure(teacher, 0.0025), precise=True)


def test_no_network_is_better_than_the_lower_bound(teacher, risk):
    optimum, rng = wstar.optimal_measure(teacher, 0.01), np.random.default_rng(0)
    for size in (1e-3, 1e-2, 0.1):
        best = optimum.student
        moved = wstar.Student(
            best.outputs, best.weights + size * rng.standard_normal(best.weights.shape), best.bias, best.linear
        )
        gap = wstar.optimality_gap(risk, moved, 0.01, optimum=optimum)
        assert gap.zeta > 0.0
        assert risk.value(moved, 0.01) >= gap.lower_bound - gap.rounding


@pytest.mark.parametrize("weight_decay", [0.0, -1.0, np.nan])
def test_a_gap_needs_a_positive_weight_decay(teacher, risk, weight_decay):
    with pytest.raises(ValueError, match="weight_decay"):
        wstar.optimality_gap(risk, wstar.symmetric_start(4, 8), weight_decay)


def test_a_gap_refuses_what_does_not_belong_together(teacher, risk):
    with pytest.raises(ValueError, match=r"3 .*8|8 .*3"):
        wstar.optimality_gap(risk, wstar.symmetric_start(4, 3), 0.01)
    optimum = wstar.optimal_measure(teacher, 0.02)
    with pytest.raises(ValueError, match=r"weight_decay=0\.02"):
        wstar.optimality_gap(risk, wstar.symmetric_start(4, 8), 0.01, optimum=optimum)


def test_a_run_records_its_gap_at_every_step(risk):
    run = three_stage(risk, **SMALL)
    recorded = run.trajectory
    assert len(run.gaps) == len(run.epochs) == 4
    for index, (epoch, gap) in enumerate(zip(run.epochs, run.gaps, strict=True)):
        at = recorded.sel(step=epoch.last_step)
        assert int(at["epoch_of_step"]) == index
        assert float(at["zeta"]) == pytest.approx(gap.zeta, abs=2e-15)
        assert gap.error < 6e-3 * epoch.weight_decay**2
        # ZG Lemma 5: an epoch ends within O(λ²)
        assert gap.zeta < 0.3 * epoch.weight_decay**2
    within = recorded["epoch_of_step"].values == 1
    assert (np.diff(recorded["zeta"].values[within]) <= 1e-15).all()
    independent = wstar.optimal_measure(risk, run.epochs[2].weight_decay)
    assert run.gaps[2].optimum == pytest.approx(independent.objective, abs=run.gaps[2].error + 1e-11)


def test_a_run_is_not_certified_unless_wanted_where_it_is_dear(risk):
    X = np.random.default_rng(0).standard_normal((300, 8))
    sample = wstar.EmpiricalRisk(X, np.abs(X[:, 0]))
    run = three_stage(sample, width=40, n_epochs=1, max_steps=20)
    assert run.gaps == ()
    assert "zeta" not in run.trajectory
    assert three_stage(risk, certify=False, **SMALL).gaps == ()


# ---------------------------------------------------------------------- Newton and flow


def test_newton_ends_where_gradient_descent_ends(risk):
    once = {"width": 60, "seed": 2, "n_epochs": 1, "weight_decay": 0.01}
    newton = three_stage(risk, solver="newton", **once)
    descent = three_stage(risk, tolerance=1e-7, max_steps=1_000_000, **once)
    assert newton.reason == descent.reason == CONVERGED
    assert newton.epochs[0].objective == pytest.approx(descent.epochs[0].objective, abs=1e-10)
    assert newton.epochs[0].n_steps < 300
    assert newton.epochs[0].gradient_norm < 1e-9


def test_newton_takes_a_long_schedule_to_its_end(risk, teacher):
    run = three_stage(risk, width=60, seed=2, n_epochs=14, solver="newton")
    assert [epoch.reason for epoch in run.epochs] == [CONVERGED] * 14
    assert recovery_report(run.student, teacher).recovered
    # ZG Lemma F.4, as the gap is at its end
    p_norm, last = wstar.dual_certificate(teacher).p_norm, run.gaps[-1]
    assert 0.0 < risk.value(run.student) <= 5 * (last.weight_decay * p_norm) ** 2 + 4 * last.upper
    assert all(gap.zeta < 0.3 * gap.weight_decay**2 + gap.error for gap in run.gaps)
    # ‖w*_i‖|a_i| of a balanced network, and no dead neuron among the living
    np.testing.assert_allclose(np.abs(run.student.outputs), run.student.norms, rtol=1e-12)
    assert np.abs(run.student.masses).min() > 0.0


def test_newton_on_samples_ends_at_a_point_that_descent_does_not_leave(teacher):
    X = np.random.default_rng(3).standard_normal((800, 8))
    sample = wstar.EmpiricalRisk(X, teacher(X))
    newton = three_stage(sample, width=60, seed=2, n_epochs=1, weight_decay=0.05, solver="newton")
    descent = three_stage(sample, width=60, seed=2, n_epochs=1, weight_decay=0.05, tolerance=1e-3, max_steps=20_000)
    assert newton.epochs[0].objective <= descent.epochs[0].objective + 1e-9
    assert newton.epochs[0].gradient_norm < 1e-3


def test_settling_keeps_rows_and_never_raises_the_objective(risk):
    state = three_stage(risk, **(SMALL | {"n_epochs": 0})).student.balanced().parameters
    moves = MeasureMoves(risk, RELU)
    settled, n_steps = moves.settle(state, 0.02)
    assert n_steps > 0
    assert settled.outputs.shape == state.outputs.shape
    before, after = (risk.value(wstar.Student.from_parameters(p), 0.02) for p in (state, settled))
    assert after <= before
    alive = settled.outputs != 0.0
    assert 0 < alive.sum() < len(alive)
    assert np.array_equal(np.sign(settled.outputs[alive]), np.sign(state.outputs[alive]))


def test_flow_is_the_limit_of_small_steps(risk):
    once = {"width": 30, "seed": 2, "n_epochs": 1, "certify": False, "tolerance": 1e-9}
    start = three_stage(risk, **(once | {"n_epochs": 0})).student
    time, errors = 4.0, []
    # 20 learning rates a step: four steps of the flow cover the same time as time/rate steps of the descent
    flow = three_stage(risk, start=start, solver="flow", learning_rate=time / 80, max_steps=4, **once).student
    for rate in (0.02, 0.01):
        descent = three_stage(risk, start=start, learning_rate=rate, max_steps=round(time / rate), **once).student
        errors.append(np.abs(descent.weights - flow.weights).max())
    assert 0.0 < errors[1] < 0.02
    # Euler's method is of first order
    assert errors[1] / errors[0] == pytest.approx(0.5, abs=0.06)


# ---------------------------------------------------------------------- repair


@pytest.fixture(scope="module")
def left_alone(trapped):
    return three_stage(wstar.PopulationRisk(trapped), seed=12, n_epochs=3, solver="newton")


def test_the_trap_is_one(trapped, left_alone):
    assert left_alone.gaps[-1].zeta > 100 * left_alone.gaps[-1].weight_decay ** 2
    assert left_alone.epochs[-1].reason == CONVERGED


@pytest.mark.parametrize("solver", ["newton", "descent"])
def test_repair_leaves_the_local_optimum(trapped, solver):
    run = three_stage(wstar.PopulationRisk(trapped), seed=12, n_epochs=6, solver=solver, repair=True)
    assert recovery_report(run.student, trapped, 0.05).recovered
    assert sum(epoch.inserted for epoch in run.epochs) > 0
    assert run.gaps[-1].zeta < run.gaps[-1].weight_decay ** 2
    # an epoch at whose end neurons came in is run again at the same weight decay
    decays = [epoch.weight_decay for epoch in run.epochs]
    assert decays == [0.02 * 0.5 ** sum(e.inserted == 0 for e in run.epochs[:i]) for i in range(len(decays))]
    assert run.trajectory["masses"].shape[1] >= run.student.width


def test_repair_does_nothing_where_nothing_is_wrong(risk):
    repaired, plain = (three_stage(risk, repair=repair, **SMALL) for repair in (True, False))
    assert [e.inserted for e in repaired.epochs] == [0] * 4
    assert np.array_equal(repaired.student.weights, plain.student.weights)


@pytest.mark.parametrize("stop_after", [2, 3])
def test_a_repaired_run_resumes_at_the_same_bits(trapped, stop_after):
    def run(checkpoint):
        return three_stage(
            wstar.PopulationRisk(trapped), seed=12, n_epochs=3, solver="newton", repair=True, checkpoint=checkpoint
        )

    whole, broken = run(InMemory()), InMemory(stop_after)
    with pytest.raises(KeyboardInterrupt):
        run(broken)
    resumed = run(broken)
    assert np.array_equal(resumed.student.weights, whole.student.weights)
    assert resumed.epochs == whole.epochs
    assert resumed.gaps == whole.gaps
    assert resumed.trajectory.equals(whole.trajectory)


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"solver": "adam"}, "solver='adam'"),
        ({"repair_above": 0.0}, "repair_above"),
        ({"repair_above": np.nan}, "repair_above"),
        ({"solver": "newton", "affine": "trained"}, "affine"),
    ],
)
def test_settings_out_of_range_are_refused_before_any_work(risk, setting, message):
    with pytest.raises(ValueError, match=message):
        three_stage(risk, **setting)
