"""The measure problem of a sample: features are columns over the rows of a table, the affine part projected out."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from jaxtyping import Float

from wstar.algorithms.optimum.problem import Atoms, MeasureProblem, ResidualField
from wstar.risks.empirical import EmpiricalRisk

# entries of one block of pre-activations; the Jacobian of a block is dim times larger
_BLOCK_ENTRIES = 2**18


class SampleProblem(MeasureProblem):
    """``φ(u) = Π|Xu|`` in the weighted inner product of the rows, Π taking off the span of 1 and the columns.

    With bias and linear part free, every 1-homogeneous activation is its even part |·| (the odd part is linear), so
    this one feature serves them all.
    """

    even = True
    screening = 10
    resolution = 1e-5

    def __init__(self, risk: EmpiricalRisk) -> None:
        """``risk`` gives rows, labels and weights; nothing of it is written to."""
        self.X, labels, self.weights = risk.rows()
        self.inverse = np.asarray(risk.affine_inverse)
        self.y = self._project(labels)

    @cached_property
    def energy(self) -> float:
        """``Σ ω y²`` without the affine part."""
        return float(self.weights @ self.y**2)

    @property
    def dim(self) -> int:
        """Columns d."""
        return self.X.shape[1]

    @property
    def n_starts(self) -> int:
        """Fewer than a population's: each climb is many passes over the rows."""
        return 24

    def mass_problem(
        self, directions: Float[np.ndarray, "n k"]
    ) -> tuple[Float[np.ndarray, "n n"], Float[np.ndarray, " n"]]:
        """Weighted inner products of the projected features."""
        n = len(directions)
        gram, cross, correlation = np.zeros((n, n)), np.zeros((self.dim + 1, n)), np.zeros(n)
        for rows in self._blocks(n):
            features, weighted = np.abs(self.X[rows] @ directions.T), self.weights[rows, None]
            gram += features.T @ (weighted * features)
            cross += self._affine(rows).T @ (weighted * features)
            correlation += features.T @ (self.weights[rows] * self.y[rows])
        return gram - cross.T @ self.inverse @ cross, correlation

    def loss(self, atoms: Atoms) -> float:
        """``Σ ω R²``."""
        return float(self.weights @ self.residual(atoms) ** 2)

    def residual(self, atoms: Atoms) -> Float[np.ndarray, " N"]:
        """``R_n`` with the affine part at its optimum."""
        values = np.empty(len(self.y))
        for rows in self._blocks(len(atoms.masses)):
            values[rows] = np.abs(self.X[rows] @ atoms.directions.T) @ atoms.masses
        return self._project(values) - self.y

    def field(self, atoms: Atoms) -> "SampleField":
        """See :class:`SampleField`."""
        return SampleField(self, self.weights * self.residual(atoms))

    def derivatives(
        self, atoms: Atoms, weight_decay: float
    ) -> tuple[Float[np.ndarray, " nk"], Float[np.ndarray, "nk nk"]]:
        """Exact within the present activation pattern, where R is linear: ``2JᵀJ`` and the curvature of ‖w‖.

        What rows crossing a kink would add is left to the damping.
        """
        u, (n, k) = atoms.directions, atoms.directions.shape
        sign, root = np.sign(atoms.masses), np.sqrt(np.abs(atoms.masses))
        _, slope = self.field(atoms).at(u)
        gradient = 2.0 * sign[:, None] * slope + weight_decay * u
        hessian, cross = np.zeros((n * k, n * k)), np.zeros((k + 1, n * k))
        for rows in self._blocks(n * k):
            X = self.X[rows]
            jacobian = ((np.sign(X @ u.T) * (sign * root))[:, :, None] * X[:, None, :]).reshape(len(X), n * k)
            weighted = self.weights[rows, None] * jacobian
            hessian += jacobian.T @ weighted
            cross += self._affine(rows).T @ weighted
        hessian = 2.0 * (hessian - cross.T @ self.inverse @ cross)
        blocks, diagonal = hessian.reshape(n, k, n, k), np.arange(n)
        blocks[diagonal, :, diagonal] += weight_decay * (np.eye(k) - u[:, :, None] * u[:, None, :])
        return (gradient * root[:, None]).ravel(), hessian

    def _affine(self, rows: slice) -> Float[np.ndarray, "N d1"]:
        X = self.X[rows]
        return np.concatenate([np.ones((len(X), 1)), X], axis=1)

    def _project(self, values: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        weighted = self.weights * values
        fit = self.inverse @ np.concatenate([[weighted.sum()], weighted @ self.X])
        return values - fit[0] - self.X @ fit[1:]

    def _blocks(self, columns: int) -> Iterator[slice]:
        rows = max(256, _BLOCK_ENTRIES // max(columns, 1))
        for start in range(0, len(self.X), rows):
            yield slice(start, start + rows)


class SampleField(ResidualField):
    """``Ψ(u) = Σ ω R|x·u|``: piecewise linear in u, with gradient ``Σ ω R sign(x·u) x``."""

    def __init__(self, problem: SampleProblem, weighted_residual: Float[np.ndarray, " N"]) -> None:
        """``weighted_residual`` is ``ω R``, already free of its affine part."""
        self.problem, self.weighted = problem, weighted_residual

    def at(self, points: Float[np.ndarray, "p k"]) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, "p k"]]:
        """See the base class."""
        gradient = np.zeros(points.shape)
        for rows in self.problem._blocks(len(points)):
            X = self.problem.X[rows]
            gradient += (np.sign(X @ points.T) * self.weighted[rows, None]).T @ X
        return np.sum(points * gradient, axis=1), gradient

    def ascent(self, points: Float[np.ndarray, "p k"]) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, "p k"]]:
        """Towards ``±∇Ψ/‖∇Ψ‖``, the maximiser on the sphere of the linear piece at hand."""
        values, gradient = self.at(points)
        step = gradient / np.where(values == 0.0, 1.0, values)[:, None] - points
        return values, step - np.sum(step * points, axis=1, keepdims=True) * points

    def square_norms(self, points: Float[np.ndarray, "p k"]) -> Float[np.ndarray, " p"]:
        """``‖Π|Xu|‖²``, one by one."""
        return np.array([self.problem.mass_problem(point[None])[0][0, 0] for point in points])
