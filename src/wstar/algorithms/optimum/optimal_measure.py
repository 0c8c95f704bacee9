"""The optimum over all measures, with a certificate (ZG eq. 4–6): a sliding Frank–Wolfe method."""

import warnings
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from wstar.algorithms.optimum.fewest_atoms import fewest_atoms
from wstar.algorithms.optimum.frank_wolfe import Solution, certified_gap, frank_wolfe
from wstar.algorithms.optimum.gaussian_problem import CenteredAbs, GaussianProblem
from wstar.algorithms.optimum.precise_gap import PreciseGap, precise_gap
from wstar.algorithms.optimum.problem import Atoms, MeasureProblem
from wstar.algorithms.optimum.result import OptimalMeasure, find_clusters
from wstar.algorithms.optimum.sample_problem import SampleProblem
from wstar.algorithms.optimum.setting import Setting, read_setting
from wstar.algorithms.optimum.sphere_cover import proven
from wstar.kernels.activations import HermiteActivation, HomogeneousActivation
from wstar.networks.network import TwoLayer
from wstar.networks.teacher import Teacher
from wstar.precision import double_precision
from wstar.risks.base import Risk

# certified gaps asked for by default, by the dimension of the teacher's span: optima spread over curves and surfaces
# there, and the number of atoms that a gap takes grows with the dimension
_DEFAULT_TOLERANCES = ((3, 1e-11), (5, 1e-10), (10**9, 1e-9))
_SAMPLE_TOLERANCE = 1e-4
# of the tolerance, the share that the certifying measure may use; the rest is room for a sparser answer. In few
# dimensions more accuracy is cheap, and the room then decides whether O(λ) masses far from every teacher are left out
_DUAL_SHARES = ((3, 0.2), (5, 0.6), (10**9, 0.95))
# the share that a proven bound aims at
_PROOF_SHARE = 0.6


def optimal_measure(
    problem: Teacher | Risk,
    weight_decay: float,
    *,
    tolerance: float | None = None,
    rigorous: bool = False,
    precise: bool = False,
    warm_start: OptimalMeasure | TwoLayer | None = None,
    max_iterations: int = 80,
    seed: int | np.random.Generator = 0,
    activation: HomogeneousActivation | HermiteActivation | str | None = None,
) -> OptimalMeasure:
    """``min_μ L(μ) + λ|μ|₁`` over signed measures on the sphere, affine part free, with a certified duality gap.

    This is what no network of any width can beat: ``L_λ(θ) ≥ L_λ(μ*_λ)`` with equality for balanced neurons (ZG
    eq. 4–6), so ``ζ = L_λ(θ) − objective`` is a network's optimality gap up to ``duality_gap``. The dual certificate
    needs ``sup |η_λ|`` over the whole sphere of R^d, which by symmetry is a search over the ball of the teacher's
    span. That search uses many starts; with ``rigorous=True`` it is followed by a covering of the ball that proves
    the bound (rank 2 and 3; slow, and it proves less where the optimum is a crowd of atoms).

    With ``precise=True`` primal value, dual value and gap are computed again in ball arithmetic from the masses and
    directions returned, and the supremum is raised by all that rounding can have hidden from the search: the gap
    then holds its own rounding error.

    For an :class:`EmpiricalRisk` the same certificate is a stopping rule: no network of any width has an objective
    lower by more than ``duality_gap``, and no single further neuron lowers it by more than ``neuron_gain``, as far as
    the search over the sphere of R^d saw (it is not rigorous there).

    Args:
        problem: a teacher (population risk), or a risk.
        weight_decay: λ > 0.
        tolerance: the gap to reach; by default 1e-11 up to rank 3, 1e-10 up to rank 5, 1e-9 above (times a quarter
            of ‖f̃_*‖² where that is larger than one), and 1e-4 of the labels' variance for a sample.
        rigorous: prove the bound on ``sup |η_λ|``.
        precise: give ``primal``, ``dual`` and ``gap`` as balls, and objective, dual value and gap from them. Time grows
            as the square of the number of atoms.
        warm_start: start from this measure or network.
        max_iterations: rounds of search and descent.
        seed: of the search's starts.
        activation: of the student; the teacher's own by default, ReLU for a risk. A :class:`HermiteActivation` is
            taken for teacher and student alike, its orders 0 and 1 left out.

    Warns:
        UserWarning: the gap is above the tolerance; the result says why.

    Raises:
        ValueError: λ not positive and finite, an activation or problem of the wrong kind, ``rigorous`` where no proof
            is offered, ``precise`` on a sample, a warm start of another dimension.
    """
    _check(weight_decay, tolerance, max_iterations)
    setting = read_setting(problem, activation)
    _check_offered(setting.problem, rigorous, precise)
    if tolerance is None:
        tolerance = _default_tolerance(setting.problem)
    start, scaled = setting.to_atoms(warm_start), weight_decay / abs(setting.scale)
    # matrices here are small: a second BLAS thread only waits
    small = isinstance(setting.problem, GaussianProblem)
    with threadpool_limits(limits=1, user_api="blas") if small else nullcontext():
        seen = frank_wolfe(
            setting.problem,
            scaled,
            start,
            tolerance=_dual_share(setting.problem) * tolerance,
            rng=np.random.default_rng(seed),
            max_iterations=max_iterations,
        )
        solution, unknown = _certified(seen, scaled, tolerance, rigorous, precise)
        room = max(tolerance - solution.gap - unknown, 0.0)
        sparse = fewest_atoms(solution.problem, solution.atoms, scaled, room, solution.history)
    result = _result(setting, solution, sparse, weight_decay, tolerance, rigorous, precise)
    if not result.converged:
        warnings.warn(
            f"duality gap {result.duality_gap:.1e} is above the tolerance {tolerance:.1e}: {result.reason}",
            stacklevel=2,
        )
    return result


def optimal_measure_path(
    problem: Teacher | Risk, weight_decays: Iterable[float], **settings: object
) -> list[OptimalMeasure]:
    """:func:`optimal_measure` at every λ in turn, each started from the optimum before; ``settings`` as there.

    Raises:
        ValueError: as there.
    """
    results: list[OptimalMeasure] = []
    start = settings.pop("warm_start", None)
    for weight_decay in weight_decays:
        start = optimal_measure(problem, weight_decay, warm_start=start, **settings)  # type: ignore[arg-type]
        results.append(start)
    return results


def _dual_share(problem: MeasureProblem) -> float:
    return next(share for dim, share in _DUAL_SHARES if problem.dim <= dim)


def _default_tolerance(problem: MeasureProblem) -> float:
    if isinstance(problem, SampleProblem):
        return _SAMPLE_TOLERANCE * max(problem.energy, np.finfo(float).tiny)
    return next(gap for dim, gap in _DEFAULT_TOLERANCES if problem.dim <= dim) * max(1.0, 0.25 * problem.energy)


def _certified(
    seen: Solution, weight_decay: float, tolerance: float, rigorous: bool, precise: bool
) -> tuple[Solution, float]:
    """With the supremum that is proven, raised by what rounding can hide; and the rounding error of an objective."""
    solution = proven(seen, weight_decay, _PROOF_SHARE * tolerance) if rigorous else seen
    unknown = 0.0
    if precise:
        problem = solution.problem
        assert isinstance(problem, GaussianProblem)
        field = problem.field(solution.atoms)
        sup, _ = certified_gap(problem, solution.atoms, weight_decay, solution.sup)
        sup, gap = certified_gap(problem, solution.atoms, weight_decay, sup + 2.0 / weight_decay * field.rounding)
        solution, unknown = replace(solution, sup=sup, gap=gap), field.rounding * float(np.abs(field.masses).sum())
    if solution.gap + unknown > tolerance >= seen.gap:
        reason = (
            f"not proven: the search saw a gap of {seen.gap:.1e}, what is certain of sup |η_λ| leaves "
            f"{solution.gap:.1e}; raise the tolerance to that, or take the search's word"
        )
        solution = replace(solution, reason=reason)
    return solution, unknown


@double_precision
def _result(
    setting: Setting,
    solution: Solution,
    sparse: Atoms,
    weight_decay: float,
    tolerance: float,
    rigorous: bool,
    precise: bool,
) -> OptimalMeasure:
    scaled = weight_decay / abs(setting.scale)
    objective, crowded = (solution.problem.objective(atoms, scaled) for atoms in (sparse, solution.atoms))
    # P(sparse) − D as the crowded measure's gap plus a small difference: no more rounding than P itself has
    gap = solution.gap if sparse is solution.atoms else max(solution.gap + (objective - crowded), 0.0)
    dual_value = objective - gap
    certifying = setting.from_atoms(solution.atoms)
    answer = certifying if sparse is solution.atoms else setting.from_atoms(sparse)
    balls = _balls(setting, solution, answer, certifying, weight_decay) if precise else None
    if balls is not None:
        # outward by one float, so that the ends hold what the balls hold
        objective, gap = balls.primal.value, float(np.nextafter(sum(balls.gap), np.inf))
        dual_value = float(np.nextafter(balls.dual.value - balls.dual.radius, -np.inf))
    return OptimalMeasure(
        weight_decay=float(weight_decay),
        objective=objective,
        duality_gap=gap,
        dual_value=dual_value,
        certificate_sup=solution.sup,
        neuron_gain=solution.neuron_gain,
        masses=answer.masses,
        directions=answer.directions,
        dual_masses=certifying.masses,
        dual_directions=certifying.directions,
        clusters=find_clusters(*answer, even=solution.problem.even),
        n_iterations=solution.n_iterations,
        reason=_reason(solution, gap, tolerance),
        tolerance=float(tolerance),
        rigorous=rigorous,
        student=setting.student(answer),
        **({} if balls is None else balls._asdict()),
    )


def _balls(setting: Setting, solution: Solution, answer: Atoms, certifying: Atoms, weight_decay: float) -> PreciseGap:
    problem = setting.problem
    assert isinstance(problem, GaussianProblem)
    assert setting.targets is not None
    return precise_gap(problem.kernel, setting.scale, setting.targets, answer, certifying, weight_decay, solution.sup)


def _reason(solution: Solution, gap: float, tolerance: float) -> str:
    if gap <= tolerance:
        return f"converged: the certified gap {gap:.1e} is within the tolerance {tolerance:.1e}"
    return solution.reason


def _check(weight_decay: float, tolerance: float | None, max_iterations: int) -> None:
    if not (np.isfinite(weight_decay) and weight_decay > 0.0):
        raise ValueError(f"weight_decay={weight_decay} must be finite and positive: at 0 nothing tells optima apart")
    if tolerance is not None and not (np.isfinite(tolerance) and tolerance >= 0.0):
        raise ValueError(f"tolerance={tolerance} must be finite and not negative")
    if max_iterations < 1:
        raise ValueError(f"max_iterations={max_iterations} must be at least 1")


def _check_offered(problem: MeasureProblem, rigorous: bool, precise: bool) -> None:
    of_angles = isinstance(problem, GaussianProblem) and isinstance(problem.kernel, CenteredAbs)
    if rigorous and not (of_angles and problem.dim in (2, 3)):
        raise ValueError(
            "rigorous=True is offered for teachers of rank 2 and 3 with a 1-homogeneous activation: leave it out for "
            "this problem"
        )
    if precise and not isinstance(problem, GaussianProblem):
        raise ValueError("precise=True needs a closed form: give a Teacher or a PopulationRisk, or leave it out")
