"""From rows to points on the path: what both regressors do, without anything of scikit-learn."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from wstar.algorithms.optimum.problem import Atoms
from wstar.estimator.inputs import Inputs
from wstar.estimator.ladder import Ladder
from wstar.estimator.network import carried
from wstar.estimator.path import Path
from wstar.estimator.polish import polish
from wstar.estimator.problem import KEPT_ENTRIES, KEPT_ROWS, TableProblem, leave_one_out
from wstar.estimator.refit import joined_count, refit

# more rows than this are sampled for the path, fewer of many columns; the neurons found are then polished on all
_LEAST_ROWS = 10_000
# a neuron that was searched for costs more than its parameters (Friedman's MARS charges 2 to 4 for a basis function),
# the more so when nothing holds it back
_PENALISED_PRICE, _REFITTED_PRICE = 1.25, 1.5
# of the labels' variance: what is left when nothing is left to explain
_EXHAUSTED = 1e-10
_FINAL_STEPS, _FINAL_TOLERANCE = 500, 1e-15


@dataclass(frozen=True)
class Plan:
    """Settings of a path; see :class:`wstar.TwoLayerRegressor`."""

    n_steps: int
    ratio: float
    shrinkage: float
    threshold_scale: float
    guard: float
    ladder: Ladder


@dataclass(frozen=True, eq=False)
class Point:
    """One model on the path: neurons in the coordinates of ``problem``; ``refitted``: without the penalty."""

    weight_decay: float
    problem: TableProblem
    atoms: Atoms
    refitted: bool

    @cached_property
    def error(self) -> float:
        """Mean squared residual."""
        residual = self.problem.projected(self.problem.residual(self.atoms))
        return float(self.problem.weights @ residual**2)

    @property
    def freedom(self) -> float:
        """Degrees of freedom, those of the search counted.

        Of a penalised neuron of mass c: ``Σ_j s_j/(s_j + λ/2|c|)``, s the second moments of the inputs, as if it were
        alone.
        """
        problem, masses = self.problem, np.abs(self.atoms.masses)
        if self.refitted:
            neurons = _REFITTED_PRICE * len(masses) * problem.n_free
        else:
            moments = problem.second_moments[problem.second_moments > 0.0]
            neurons = _PENALISED_PRICE * float(
                np.sum(moments / (moments + self.weight_decay / (2.0 * masses[:, None])))
            )
        return neurons + problem.linear_freedom

    @property
    def criterion(self) -> float:
        """Generalised cross-validation: ``loss/(1 − freedom/n)²``; infinite where nothing is left for the errors.

        Source: Golub, Heath and Wahba (1979); Friedman, Multivariate adaptive regression splines (1991), eq. 30.
        """
        room = 1.0 - self.freedom / self.problem.count
        return self.error / room**2 if room > 0.0 else np.inf


def rows_on_path(n_columns: int) -> int:
    """Rows that the path walks on: what is kept of them has at most 2²⁴ numbers, if that leaves 10,000 rows."""
    return min(KEPT_ROWS, max(_LEAST_ROWS, KEPT_ENTRIES // (n_columns + 1)))


def prepare(
    X: Float[np.ndarray, "n d"], labels: Float[np.ndarray, " n"], counts: Float[np.ndarray, " n"], plan: Plan
) -> TableProblem:
    """The problem of these rows: inputs, and the ridge penalty that plain ridge chooses by leave-one-out."""
    weights = counts / counts.sum()
    inputs = Inputs.fit(X, weights, plan.shrinkage, plan.threshold_scale, plan.guard, plan.ladder)
    # a few rows are enough for the penalty
    part = slice(None, None, -(-len(X) // rows_on_path(X.shape[1])))
    alpha, _ = leave_one_out(inputs, X[part], labels[part], counts[part])
    return TableProblem(inputs, X, labels, weights, float(counts.sum()), alpha)


def sampled(X: Float[np.ndarray, "n d"], rng: np.random.Generator) -> np.ndarray | slice:
    """The rows that the path walks on, drawn without replacement where they are not all."""
    n, most = len(X), rows_on_path(X.shape[1])
    return slice(None) if n <= most else np.sort(rng.choice(n, most, replace=False))


def ridge_point(problem: TableProblem) -> Point:
    """No neurons."""
    return Point(np.inf, problem, Atoms.none(problem.dim), False)


def penalised_points(problem: TableProblem, rng: np.random.Generator, decays: Iterator[float]) -> Iterator[Point]:
    """Points at the weight decays given, each started where the last one ended."""
    path = Path(problem, rng)
    for weight_decay in decays:
        yield Point(weight_decay, problem, path.step(weight_decay), False)


def refitted(point: Point) -> Point | None:
    """The point's neurons without the penalty; None where they are too many for the rows."""
    found = refit(point.problem, point.atoms)
    return None if found is None else Point(point.weight_decay, *found, True)


def exhausted(point: Point) -> bool:
    """Whether what is left of the labels is rounding, or the neurons have used up the rows."""
    problem = point.problem
    tiny = point.error <= _EXHAUSTED * float((problem.weights * problem.target) @ problem.target)
    return tiny or point.freedom >= 0.9 * problem.count


def finished(point: Point, problem: TableProblem) -> Point:
    """The point with its neurons polished to convergence on all rows of ``problem``."""
    whole = problem
    if point.refitted:
        own = point.problem
        whole = problem.restricted(linear=bool(np.isfinite(own.alpha)), thresholds=own.thresholds, relu=own.relu)
    decay = 1e-12 if point.refitted else point.weight_decay
    steps = _FINAL_STEPS if len(whole.labels) <= rows_on_path(whole.dim - 1) else _FINAL_STEPS // 10
    start = carried(point.atoms, point.problem.inputs, whole.inputs)
    atoms = polish(whole, start, decay, max_steps=steps, tolerance=_FINAL_TOLERANCE)
    return Point(point.weight_decay, whole, atoms, point.refitted)


def search_path(
    problem: TableProblem,
    rng: np.random.Generator,
    plan: Plan,
    patience: int,
    with_refits: bool,
    say: Callable[[str], None],
) -> tuple[Point, list[Point]]:
    """The point of least criterion, and all of them: ridge, then λ from its largest value down."""
    points = [ridge_point(problem)]
    best, since = points[0], 0
    if exhausted(best):
        return best, points
    path = Path(problem, rng)
    for step in range(1, plan.n_steps + 1):
        weight_decay = path.largest * plan.ratio**step
        if not weight_decay > 0.0:
            break
        point = Point(weight_decay, problem, path.step(weight_decay), False)
        points.append(point)
        say(f"λ = {weight_decay:.3g}: {len(point.atoms.masses)} neurons, criterion {point.criterion:.4g}")
        better = point.criterion < best.criterion
        best, since = (point, 0) if better else (best, since + 1)
        if since >= patience or exhausted(point):
            break
    if with_refits:
        again = [one for one in map(refitted, refit_candidates(points, best)) if one is not None]
        points += again
        best = min([best, *again], key=lambda one: one.criterion)
    return best, points


def refit_candidates(points: list[Point], best: Point) -> list[Point]:
    """The chosen point and two of larger λ: fewer neurons, more bias to take away. None twice with as many neurons."""
    at = next(i for i, one in enumerate(points) if one is best)
    found: dict[int, Point] = {}
    for place in (at, at - 2, at - 5):
        if 0 < place < len(points):
            found.setdefault(joined_count(points[place].atoms), points[place])
    return [point for count, point in found.items() if count]
