"""The path over the weight decay: sliding Frank–Wolfe, warm, a few rounds at each λ (ZG Algorithm 1 on samples)."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from wstar.algorithms.optimum.candidates import distinct
from wstar.algorithms.optimum.problem import Atoms, unit
from wstar.estimator.polish import best_masses, joined, polish
from wstar.estimator.problem import TableProblem

# rows that the search for new neurons looks at, at least, and for each input; the best summits are climbed from on all
_SEARCH_ROWS, _ROWS_FOR_INPUT = 2000, 10
_CLIMB_STEPS, _FINAL_CLIMB_STEPS = 12, 3
# uniform directions looked at for each climb
_SCREENING = 4
_LEAST_STARTS, _MOST_STARTS = 30, 150
# starts times entries of the rows looked at: more is not climbed from
_SEARCH_ENTRIES = 2**25
# from so many inputs on uniform starts see little, and principal Hessian directions are starts as well
_MANY_INPUTS, _HESSIAN_STARTS = 40, 20
_MOST_NEW = 15
_POLISH_STEPS = 60
# summits closer than this (radians) are entered one at a time
_APART = 0.2
_SAME = 0.03


@dataclass
class Path:
    """State of one path: where it stands, in the problem's coordinates."""

    problem: TableProblem
    rng: np.random.Generator
    atoms: Atoms = field(init=False)
    largest: float = field(init=False)

    def __post_init__(self) -> None:
        """Start without neurons; ``largest`` is the λ at which the first would enter."""
        self.atoms = Atoms.none(self.problem.dim)
        self.largest = 2.0 * float(np.abs(self._summits()[1]).max(initial=0.0))

    def step(self, weight_decay: float) -> Atoms:
        """Neurons where ``|Ψ| > λ/2`` enter, all are polished, near ones joined, masses solved for again."""
        problem = self.problem
        points, values = self._summits()
        enter = np.flatnonzero(2.0 * np.abs(values) > 1.01 * weight_decay)[:_MOST_NEW]
        grown = Atoms(
            np.concatenate([self.atoms.masses, -1e-12 * np.sign(values[enter])]),
            np.concatenate([self.atoms.directions, points[enter]]),
        )
        atoms = best_masses(problem, grown, weight_decay)
        atoms = polish(problem, atoms, weight_decay, max_steps=_POLISH_STEPS)
        fewer = joined(atoms, _SAME)
        if len(fewer.masses) < len(atoms.masses):
            before = problem.objective(atoms, weight_decay)
            if problem.objective(fewer, weight_decay) <= (1.0 + 1e-5) * before:
                atoms = fewer
        self.atoms = best_masses(problem, atoms, weight_decay)
        return self.atoms

    def _summits(self) -> tuple[Float[np.ndarray, "p d1"], Float[np.ndarray, " p"]]:
        """Local maximisers of |Ψ| and Ψ there, highest first."""
        problem = self.problem
        residual = problem.projected(problem.residual(self.atoms))
        weighted, n = problem.weights * residual, len(residual)
        n_rows = min(n, max(_SEARCH_ROWS, _ROWS_FOR_INPUT * problem.dim))
        starts = min(_LEAST_STARTS + 3 * problem.dim, _MOST_STARTS)
        starts = max(_LEAST_STARTS, min(starts, _SEARCH_ENTRIES // (n_rows * problem.dim)))
        directions = unit(self.rng.standard_normal((_SCREENING * starts, problem.dim)))
        directions = np.concatenate([directions, self.atoms.directions])
        if problem.dim >= _MANY_INPUTS:
            directions = np.concatenate([directions, self._hessian_directions(weighted)])
        if n > n_rows:
            chosen = np.sort(self.rng.choice(n, n_rows, replace=False))
            x, share = problem.rows(chosen), weighted[chosen]
            share = share - share.mean()
        else:
            x, share = problem.rows(slice(None)), weighted
        heights = np.abs(np.abs(x @ directions.T).T @ share)
        directions = directions[np.argsort(-heights, kind="stable")[:starts]]
        points, values = _climb(x, share, directions, _CLIMB_STEPS)
        points, values = _highest(points, values, 3 * _MOST_NEW)
        if n > n_rows:
            for _ in range(_FINAL_CLIMB_STEPS):
                points, _ = self._ascend(points, weighted)
            values = np.sum(points * self._ascend(points, weighted)[1], axis=1)
        return _highest(points, values, _MOST_NEW)

    def _hessian_directions(self, weighted: Float[np.ndarray, " n"]) -> Float[np.ndarray, "p d1"]:
        """Eigenvectors of ``E R x xᵀ`` with the largest eigenvalues in size.

        For Gaussian inputs they span the neurons' directions (Stein's lemma), and stand out from rows few times d.

        Source: Li, On principal Hessian directions (1992).
        """
        problem = self.problem
        moments = np.zeros((problem.dim, problem.dim))
        for part, x in problem.blocks():
            moments += (x * weighted[part, None]).T @ x
        moments = problem.lifted(problem.lifted(moments).T)
        values, vectors = np.linalg.eigh(0.5 * (moments + moments.T))
        return vectors[:, np.argsort(-np.abs(values), kind="stable")[:_HESSIAN_STARTS]].T

    def _ascend(
        self, points: Float[np.ndarray, "p d1"], weighted: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, "p d1"], Float[np.ndarray, "p d1"]]:
        """One fixed-point step on all rows; also the gradient before it."""
        problem, gradient = self.problem, np.zeros_like(points)
        lifted = problem.lifted(points)
        for part, x in problem.blocks(len(points)):
            gradient += (np.sign(x @ lifted.T) * weighted[part, None]).T @ x
        gradient = problem.lifted(gradient)
        return _towards(points, gradient), gradient


def _climb(
    x: Float[np.ndarray, "n d1"], weighted: Float[np.ndarray, " n"], points: Float[np.ndarray, "p d1"], n_steps: int
) -> tuple[Float[np.ndarray, "p d1"], Float[np.ndarray, " p"]]:
    """``w ← ±∇Ψ/‖∇Ψ‖``: the maximiser of |Ψ|'s linear piece at hand; |Ψ| never falls where Ψ is convex."""
    for _ in range(n_steps):
        points = _towards(points, (np.sign(x @ points.T) * weighted[:, None]).T @ x)
    return points, np.abs(x @ points.T).T @ weighted


def _towards(points: Float[np.ndarray, "p d1"], gradient: Float[np.ndarray, "p d1"]) -> Float[np.ndarray, "p d1"]:
    length = np.linalg.norm(gradient, axis=1, keepdims=True)
    downhill = np.sum(points * gradient, axis=1, keepdims=True) < 0.0
    return np.where(length > 0.0, gradient / np.where(length > 0.0, length, 1.0) * np.where(downhill, -1, 1), points)


def _highest(
    points: Float[np.ndarray, "p d1"], values: Float[np.ndarray, " p"], most: int
) -> tuple[Float[np.ndarray, "q d1"], Float[np.ndarray, " q"]]:
    order = np.argsort(-np.abs(values), kind="stable")
    order = order[distinct(points[order], even=True, chord=_APART)][:most]
    return points[order], values[order]
