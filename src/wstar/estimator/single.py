"""One weight decay: the path down to it, then rounds at it until the objective stands still."""

import numpy as np

from wstar.estimator.fitting import Plan, Point, refitted, ridge_point
from wstar.estimator.path import Path
from wstar.estimator.problem import TableProblem

_ROUNDS, _STILL = 12, 1e-5


def at_weight_decay(
    problem: TableProblem, rng: np.random.Generator, plan: Plan, weight_decay: float, with_refit: bool
) -> tuple[Point, list[Point]]:
    """The point at ``weight_decay`` (the refitted one where its criterion is lower), and all on the way there."""
    points, path = [ridge_point(problem)], Path(problem, rng)
    decay = path.largest
    while decay * plan.ratio > weight_decay:
        decay *= plan.ratio
        points.append(Point(decay, problem, path.step(decay), False))
    before = np.inf
    for _ in range(_ROUNDS):
        value = problem.objective(path.step(weight_decay), weight_decay)
        if before - value <= _STILL * value:
            break
        before = value
    best = Point(weight_decay, problem, path.atoms, False)
    points.append(best)
    again = refitted(best) if with_refit else None
    if again is not None:
        points.append(again)
        if again.criterion < best.criterion:
            best = again
    return best, points
