"""Where the field of a residual is largest: local maximisers of |Ψ| on the sphere, from many starts at once."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from wstar.algorithms.optimum.problem import Atoms, MeasureProblem, ResidualField, unit

# radians: a step of the ascent is never longer
_LONGEST_STEP = 0.3
# rows this close (a chord) are one maximiser
_SAME_CHORD = 1e-6
# rows compared with all others at once
_BLOCK = 128


class Candidates(NamedTuple):
    """Local maximisers of |Ψ| (p, k) and Ψ there, largest |Ψ| first, each once."""

    points: Float[np.ndarray, "p k"]
    values: Float[np.ndarray, " p"]

    @property
    def top(self) -> float:
        """Largest |Ψ| found."""
        return float(np.abs(self.values).max(initial=0.0))


def search(
    problem: MeasureProblem, atoms: Atoms, rng: np.random.Generator, n_starts: int, max_iterations: int = 40
) -> Candidates:
    """Local maximisers of |Ψ| from ``n_starts`` uniform starts, from every atom and from the gaps between atoms."""
    around = _around(np.concatenate([atoms.directions, problem.special_directions()]), rng)
    field = problem.field(atoms)
    uniform = unit(rng.standard_normal((n_starts * problem.screening, problem.dim)))
    if problem.screening > 1:
        uniform = uniform[np.argsort(-np.abs(field.at(uniform)[0]), kind="stable")[:n_starts]]
    points, values = climb(field, np.concatenate([uniform, around]), max_iterations, problem.resolution)
    order = np.argsort(-np.abs(values), kind="stable")
    order = order[distinct(points[order], problem.even)]
    return Candidates(points[order], values[order])


def climb(
    field: ResidualField, starts: Float[np.ndarray, "p k"], max_iterations: int = 40, resolution: float = 1e-8
) -> tuple[Float[np.ndarray, "p k"], Float[np.ndarray, " p"]]:
    """Ascend |Ψ| from each start by the field's own steps, shortened until |Ψ| grows; ends and their Ψ.

    A climb ends when its step is below ``resolution`` (radians).
    """
    points = starts.copy()
    values, steps = field.ascent(points)
    reach = np.full(len(points), _LONGEST_STEP)
    moving = np.arange(len(points))
    for _ in range(max_iterations):
        if not moving.size:
            break
        length = np.linalg.norm(steps[moving], axis=1)
        taken = np.minimum(length, reach[moving])
        trial = unit(points[moving] + steps[moving] * (taken / np.maximum(length, 1e-300))[:, None])
        trial_values, trial_steps = field.ascent(trial)
        better = trial_values * np.sign(values[moving]) > np.abs(values[moving])
        up, down = moving[better], moving[~better]
        points[up], values[up], steps[up] = trial[better], trial_values[better], trial_steps[better]
        reach[up] = np.minimum(_LONGEST_STEP, 2.0 * reach[up])
        reach[down] = 0.25 * taken[~better]
        moving = moving[(taken > resolution) & (reach[moving] > resolution)]
    return points, values


def distinct(points: Float[np.ndarray, "p k"], even: bool, chord: float = _SAME_CHORD) -> np.ndarray:
    """Indices of unit rows no closer than ``chord`` to a row kept before (modulo sign where ``even``)."""
    kept: list[int] = []
    left = np.arange(len(points))
    while left.size:
        rows = points[left]
        cosine = rows[:_BLOCK] @ rows.T
        near = (np.abs(cosine) if even else cosine) > 1.0 - 0.5 * chord**2
        gone = np.zeros(len(left), dtype=bool)
        for i, beside in enumerate(near):
            if not gone[i]:
                kept.append(left[i])
                gone |= beside
                gone[i] = True
        left = left[~gone]
    return np.array(kept, dtype=int)


def _around(rows: Float[np.ndarray, "n k"], rng: np.random.Generator) -> Float[np.ndarray, "s k"]:
    """Each row, points half as far from it as its neighbours are, and the midpoints to these neighbours.

    A cluster of atoms leaves maximisers of |Ψ| between them, at the cluster's own scale, which uniform starts miss.
    """
    if not len(rows):
        return rows
    starts = [rows, unit(rows + 0.05 * rng.standard_normal(rows.shape))]
    cosine = rows @ rows.T
    chords = np.sqrt(np.maximum(2.0 - 2.0 * np.abs(cosine), 0.0))
    np.fill_diagonal(chords, np.inf)
    order = np.argsort(chords, axis=1)
    for rank in range(min(3, len(rows) - 1)):
        nearest = order[:, rank]
        reach = np.minimum(chords[np.arange(len(rows)), nearest], 0.5)
        starts.append(unit(rows + 0.5 * reach[:, None] * unit(rng.standard_normal(rows.shape))))
        sign = np.where(cosine[np.arange(len(rows)), nearest] < 0.0, -1.0, 1.0)
        # a tilt that is below every scale of interest: the midpoint of an orthogonal pair must not sit on a symmetry
        starts.append(unit(rows + sign[:, None] * rows[nearest] + 1e-12 * rng.standard_normal(rows.shape)))
    return np.concatenate(starts)
