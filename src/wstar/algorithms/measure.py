"""The optimum over all measures, with a certificate (ZG eq. 4–6): a sliding Frank–Wolfe method."""

import warnings
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from threadpoolctl import threadpool_limits

from wstar.algorithms.fewest_atoms import fewest_atoms
from wstar.algorithms.frank_wolfe import Solution, frank_wolfe
from wstar.algorithms.gaussian_problem import CenteredAbs, GaussianProblem, PowerSeries
from wstar.algorithms.measure_problem import Atoms, MeasureProblem, unit
from wstar.algorithms.measure_result import OptimalMeasure, find_clusters
from wstar.algorithms.sample_problem import SampleProblem
from wstar.algorithms.sphere_cover import proven
from wstar.kernels.activations import HermiteActivation, HomogeneousActivation, homogeneous
from wstar.networks.network import Measure, TwoLayer
from wstar.networks.span import span_basis
from wstar.networks.student import Student
from wstar.networks.teacher import Teacher
from wstar.precision import double_precision
from wstar.risks.base import Risk
from wstar.risks.empirical import EmpiricalRisk
from wstar.risks.population import PopulationRisk

# certified gaps asked for by default, by the dimension of the teacher's span: optima spread over curves and surfaces
# there, and the number of atoms that a gap takes grows with the dimension
_DEFAULT_TOLERANCES = ((3, 1e-11), (5, 1e-10), (10**9, 1e-9))
_SAMPLE_TOLERANCE = 1e-4
# of the tolerance, the share that the certifying measure may use; the rest is room for a sparser answer. In few
# dimensions more accuracy is cheap, and the room then decides whether O(λ) masses far from every teacher are left out
_DUAL_SHARES = ((3, 0.2), (10**9, 0.6))
# the share that a proven bound aims at
_PROOF_SHARE = 0.6


def optimal_measure(
    problem: Teacher | Risk,
    weight_decay: float,
    *,
    tolerance: float | None = None,
    rigorous: bool = False,
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

    For an :class:`EmpiricalRisk` the same certificate is a stopping rule: no network of any width has an objective
    lower by more than ``duality_gap``, as far as the search over the sphere of R^d saw (it is not rigorous there).

    Args:
        problem: a teacher (population risk), or a risk.
        weight_decay: λ > 0.
        tolerance: the gap to reach; by default 1e-11 up to rank 3, 1e-10 up to rank 5, 1e-9 above (times a quarter
            of ‖f̃_*‖² where that is larger than one), and 1e-4 of the labels' variance for a sample.
        rigorous: prove the bound on ``sup |η_λ|``.
        warm_start: start from this measure or network.
        max_iterations: rounds of search and descent.
        seed: of the search's starts.
        activation: of the student; the teacher's own by default, ReLU for a risk. A :class:`HermiteActivation` is
            taken for teacher and student alike, its orders 0 and 1 left out.

    Warns:
        UserWarning: the gap is above the tolerance; the result says why.

    Raises:
        ValueError: λ not positive and finite, an activation or problem of the wrong kind, ``rigorous`` where no proof
            is offered, a warm start of another dimension.
    """
    _check(weight_decay, tolerance, max_iterations)
    setting = _setting(problem, activation)
    if rigorous and not (isinstance(setting.problem, GaussianProblem) and setting.problem.dim in (2, 3)):
        raise ValueError("rigorous=True is offered for teachers of rank 2 and 3 only: leave it out for this problem")
    if tolerance is None:
        tolerance = _default_tolerance(setting.problem)
    rng = np.random.default_rng(seed)
    # matrices here are small: a second BLAS thread only waits
    small = isinstance(setting.problem, GaussianProblem)
    with threadpool_limits(limits=1, user_api="blas") if small else nullcontext():
        start = setting.to_atoms(warm_start)
        scaled = weight_decay / abs(setting.scale)
        solution = frank_wolfe(
            setting.problem,
            scaled,
            start,
            tolerance=_dual_share(setting.problem) * tolerance,
            rng=rng,
            max_iterations=max_iterations,
        )
        if rigorous:
            solution = proven(solution, scaled, _PROOF_SHARE * tolerance)
        room = max(tolerance - solution.gap, 0.0)
        sparse = fewest_atoms(solution.problem, solution.atoms, scaled, room, solution.history)
    result = _result(setting, solution, sparse, weight_decay, tolerance, rigorous)
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


@dataclass(frozen=True, eq=False)
class _Setting:
    """A problem in the solver's units: features |·| (or σ itself), masses times ``scale``, rows of ``basis``."""

    problem: MeasureProblem
    basis: Float[np.ndarray, "k d"]
    scale: float
    risk: Risk | None
    activation: HomogeneousActivation | None

    def to_atoms(self, start: OptimalMeasure | TwoLayer | None) -> Atoms:
        """A warm start in the solver's coordinates; what leaves the span is projected onto it."""
        if start is None:
            return Atoms.none(self.problem.dim)
        if start.directions.shape[1] != self.basis.shape[1]:
            raise ValueError(
                f"warm_start lives in {start.directions.shape[1]} dimensions and the problem in {self.basis.shape[1]}: "
                "start from a network of the same inputs"
            )
        inside = start.directions @ self.basis.T
        length = np.linalg.norm(inside, axis=1)
        keep = (length > 1e-6) & (start.masses != 0.0)
        return Atoms(self.scale * (start.masses * length)[keep], unit(inside[keep]))

    def from_atoms(self, atoms: Atoms) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n d"]]:
        """Masses and directions of the user's problem, heaviest first."""
        order = np.argsort(-np.abs(atoms.masses), kind="stable")
        basis = self.basis
        if atoms.directions.shape[1] > len(basis):
            # coordinates outside the span: any orthonormal completion serves, the risk sees angles only
            complement = np.linalg.svd(basis)[2][len(basis) :]
            basis = np.concatenate([basis, complement])[: atoms.directions.shape[1]]
        return atoms.masses[order] / self.scale, unit(atoms.directions[order] @ basis)


def _setting(problem: Teacher | Risk, activation: HomogeneousActivation | HermiteActivation | str | None) -> _Setting:
    if isinstance(activation, HermiteActivation):
        if not isinstance(problem, Teacher):
            raise ValueError("a HermiteActivation needs the Teacher itself as problem: a risk has its own activation")
        return _hermite_setting(problem, activation)
    if isinstance(problem, Teacher):
        chosen = problem.activation if activation is None else homogeneous(activation)
        problem = PopulationRisk(problem)
    else:
        chosen = homogeneous("relu" if activation is None else activation)
    if isinstance(problem, PopulationRisk):
        basis, targets, masses = _span(problem.directions, problem.masses)
        inner: MeasureProblem = GaussianProblem(CenteredAbs(), targets, masses, problem.dim)
    elif isinstance(problem, EmpiricalRisk):
        basis, inner = np.eye(problem.dim), SampleProblem(problem)
    else:
        raise ValueError(f"problem is a {type(problem).__name__}: give a Teacher, a PopulationRisk or an EmpiricalRisk")
    return _Setting(inner, basis, chosen.even, problem, chosen)


def _hermite_setting(teacher: Teacher, activation: HermiteActivation) -> _Setting:
    energies = np.array(activation.hermite) ** 2
    energies[:2] = 0.0
    if not energies.any():
        raise ValueError("activation has no Hermite order above 1: nothing of the teacher remains to be fitted")
    basis, targets, masses = _span(teacher.directions, teacher.masses)
    return _Setting(GaussianProblem(PowerSeries(energies), targets, masses, teacher.dim), basis, 1.0, None, None)


def _span(
    directions: Float[np.ndarray, "m d"], masses: Float[np.ndarray, " m"]
) -> tuple[Float[np.ndarray, "k d"], Float[np.ndarray, "m k"], Float[np.ndarray, " m"]]:
    basis = span_basis(directions)
    return basis, unit(directions @ basis.T), masses


def _dual_share(problem: MeasureProblem) -> float:
    return next(share for dim, share in _DUAL_SHARES if problem.dim <= dim)


def _default_tolerance(problem: MeasureProblem) -> float:
    if isinstance(problem, SampleProblem):
        return _SAMPLE_TOLERANCE * max(problem.energy, np.finfo(float).tiny)
    return next(gap for dim, gap in _DEFAULT_TOLERANCES if problem.dim <= dim) * max(1.0, 0.25 * problem.energy)


@double_precision
def _result(
    setting: _Setting, solution: Solution, sparse: Atoms, weight_decay: float, tolerance: float, rigorous: bool
) -> OptimalMeasure:
    scaled = weight_decay / abs(setting.scale)
    objective, crowded = (solution.problem.objective(atoms, scaled) for atoms in (sparse, solution.atoms))
    # P(sparse) − D as the crowded measure's gap plus a small difference: no more rounding than P itself has
    gap = solution.gap if sparse is solution.atoms else max(solution.gap + (objective - crowded), 0.0)
    masses, directions = setting.from_atoms(sparse)
    dual_masses, dual_directions = setting.from_atoms(solution.atoms)
    return OptimalMeasure(
        weight_decay=float(weight_decay),
        objective=objective,
        duality_gap=gap,
        dual_value=objective - gap,
        certificate_sup=solution.sup,
        neuron_gain=solution.neuron_gain,
        masses=masses,
        directions=directions,
        dual_masses=dual_masses,
        dual_directions=dual_directions,
        clusters=find_clusters(masses, directions, even=solution.problem.even),
        n_iterations=solution.n_iterations,
        reason=_reason(solution, gap, tolerance),
        tolerance=float(tolerance),
        rigorous=rigorous,
        student=_student(setting, masses, directions),
    )


def _reason(solution: Solution, gap: float, tolerance: float) -> str:
    if gap <= tolerance:
        return f"converged: the certified gap {gap:.1e} is within the tolerance {tolerance:.1e}"
    return solution.reason


def _student(
    setting: _Setting, masses: Float[np.ndarray, " n"], directions: Float[np.ndarray, "n d"]
) -> Student | None:
    if setting.risk is None or setting.activation is None or not len(masses):
        return None
    bare = Measure(masses, directions, np.zeros(()), np.zeros(directions.shape[1]))
    affine = setting.risk.fit_affine(setting.activation, bare)
    return Student(masses, directions, float(affine.bias), np.asarray(affine.linear), setting.activation).balanced()


def _check(weight_decay: float, tolerance: float | None, max_iterations: int) -> None:
    if not (np.isfinite(weight_decay) and weight_decay > 0.0):
        raise ValueError(f"weight_decay={weight_decay} must be finite and positive: at 0 nothing tells optima apart")
    if tolerance is not None and not (np.isfinite(tolerance) and tolerance >= 0.0):
        raise ValueError(f"tolerance={tolerance} must be finite and not negative")
    if max_iterations < 1:
        raise ValueError(f"max_iterations={max_iterations} must be at least 1")
