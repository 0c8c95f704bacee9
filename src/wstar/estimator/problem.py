"""Least squares with neurons and a ridge-penalised linear part that is always at its optimum."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float

from wstar.algorithms.optimum.problem import Atoms
from wstar.algorithms.optimum.sample_problem import SampleProblem
from wstar.estimator.inputs import Inputs

# inputs are kept where they have at most this many entries (64 MB), otherwise made again block by block
_KEPT_ENTRIES = 2**23
_BLOCK_ENTRIES = 2**18
# below every penalty, above the rounding of dependent columns' eigenvalues
_UNPENALISED = 1e-9
_ALPHAS = 10.0 ** np.arange(-6.0, 3.01, 0.25)


@dataclass(frozen=True, eq=False)
class TableProblem:
    """``min_β Σ ω (y − b − β·z − Σ c_i σ(u_i·x))² + α‖β‖²`` as a function of the atoms (c, u): a seminorm of y − f.

    With ``M`` the map that takes off the mean and the ridge fit, it is ``r·ωM r`` for ``r = y − f``. σ is |·|, which
    with a linear part stands for every 1-homogeneous activation, or ReLU.

    Attributes:
        columns: rows in their own units (never written to).
        labels: (n,).
        weights: ω, sum one.
        count: number of rows that the weights stand for.
        alpha: penalty of the linear part; ∞ for no linear part.
        relu: whether σ is ReLU.
        thresholds: whether neurons have them.
    """

    inputs: Inputs
    columns: Float[np.ndarray, "n d"]
    labels: Float[np.ndarray, " n"]
    weights: Float[np.ndarray, " n"]
    count: float
    alpha: float
    relu: bool = False
    thresholds: bool = True

    @property
    def dim(self) -> int:
        """Length of a direction."""
        return self.inputs.dim

    @property
    def n_free(self) -> int:
        """Parameters of one neuron."""
        return self.inputs.rank + self.thresholds

    @property
    def linear_freedom(self) -> float:
        """Degrees of freedom of mean and linear part."""
        eigenvalues = self.inputs.eigenvalues
        return 1.0 + float(np.sum(eigenvalues[eigenvalues > 0.0] / (eigenvalues[eigenvalues > 0.0] + self.alpha)))

    @cached_property
    def mean(self) -> float:
        """Of the labels."""
        return float(self.weights @ self.labels)

    @cached_property
    def target(self) -> Float[np.ndarray, " n"]:
        """Labels without their mean."""
        return self.labels - self.mean

    @cached_property
    def energy(self) -> float:
        """The objective of no atoms at no penalty."""
        return max(float((self.weights * self.target) @ self.projected(self.target)), 0.0)

    @cached_property
    def ridge(self) -> Float[np.ndarray, "d d"]:
        """``G`` with ``β·z = x·G E(x y)``: the ridge fit in the coordinates x."""
        shape = self.inputs
        present = shape.eigenvalues > 0.0
        inverse = np.where(present, 1.0 / (np.where(present, shape.eigenvalues, 1.0) + self.alpha), 0.0)
        stretch = np.sum(shape.vectors * (shape.matrix @ shape.vectors), axis=0)
        inverse = np.where(present, inverse / np.where(present, stretch, 1.0) ** 2, 0.0)
        return (shape.vectors * inverse) @ shape.vectors.T

    @cached_property
    def second_moments(self) -> Float[np.ndarray, " d1"]:
        """Eigenvalues of ``E x xᵀ``, the constant's last."""
        stretch = np.sum(self.inputs.vectors * (self.inputs.matrix @ self.inputs.vectors), axis=0)
        return np.append(self.inputs.eigenvalues * stretch**2, self.inputs.constant**2)

    def restricted(self, *, linear: bool, thresholds: bool, relu: bool) -> "TableProblem":
        """The same rows with an unpenalised linear part or none, with or without thresholds and ReLU."""
        other = replace(self, alpha=_UNPENALISED if linear else np.inf, relu=relu, thresholds=thresholds)
        if "_kept" in self.__dict__:
            other.__dict__["_kept"] = self._kept
        return other

    def blocks(self, width: int = 1) -> Iterator[tuple[slice, Float[np.ndarray, "r d1"]]]:
        """Slices of rows and their inputs, few enough that ``width`` numbers a row fit the cache."""
        rows = max(256, _BLOCK_ENTRIES // max(width, self.dim))
        for start in range(0, len(self.labels), rows):
            part = slice(start, start + rows)
            yield part, self.rows(part)

    def rows(self, part: slice | np.ndarray) -> Float[np.ndarray, "r d1"]:
        """Inputs of some rows."""
        return self.inputs(self.columns[part]) if self._kept is None else self._kept[part]

    @cached_property
    def _kept(self) -> Float[np.ndarray, "n d1"] | None:
        return self.inputs(self.columns) if len(self.labels) * self.dim <= _KEPT_ENTRIES else None

    def features(self, pre: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """``σ(pre)``."""
        return np.maximum(pre, 0.0) if self.relu else np.abs(pre)

    def slopes(self, pre: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """``σ'(pre)``."""
        return (pre > 0.0).astype(float) if self.relu else np.sign(pre)

    def residual(self, atoms: Atoms) -> Float[np.ndarray, " n"]:
        """``Σ c_i σ(u_i·x) − y`` without its mean."""
        values = -self.target
        if len(atoms.masses):
            for part, x in self.blocks(len(atoms.masses)):
                values[part] += self.features(x @ atoms.directions.T) @ atoms.masses
            values -= self.weights @ values
        return values

    def projected(self, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """``M values``."""
        left = values - self.weights @ values
        if np.isinf(self.alpha):
            return left
        slope = self.linear_fit(left)
        for part, x in self.blocks():
            left[part] -= x[:, :-1] @ slope
        # inputs have mean zero up to rounding and the guard
        return left

    def linear_fit(self, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " d"]:
        """Slopes of the ridge fit to ``values``, in the coordinates x."""
        if np.isinf(self.alpha):
            return np.zeros(self.dim - 1)
        weighted, total = self.weights * values, np.zeros(self.dim - 1)
        for part, x in self.blocks():
            total += weighted[part] @ x[:, :-1]
        return self.ridge @ total

    def loss(self, atoms: Atoms) -> float:
        """The objective at no penalty."""
        residual = self.residual(atoms)
        return max(float((self.weights * residual) @ self.projected(residual)), 0.0)

    def objective(self, atoms: Atoms, weight_decay: float) -> float:
        """``loss + λ Σ|c_i|``."""
        return self.loss(atoms) + weight_decay * atoms.total

    def mass_problem(
        self, directions: Float[np.ndarray, "m d1"]
    ) -> tuple[Float[np.ndarray, "m m"], Float[np.ndarray, " m"]]:
        """Inner products of the features with each other and with the labels, linear part at its optimum."""
        m = len(directions)
        gram, cross, correlation = np.zeros((m, m)), np.zeros((self.dim - 1, m)), np.zeros(m)
        mean, weighted_target = np.zeros(m), self.weights * self.projected(self.target)
        for part, x in self.blocks(m):
            features = self.features(x @ directions.T)
            weighted = features * self.weights[part, None]
            gram += weighted.T @ features
            cross += x[:, :-1].T @ weighted
            mean += weighted.sum(axis=0)
            correlation += features.T @ weighted_target[part]
        gram -= np.outer(mean, mean)
        return (gram if np.isinf(self.alpha) else gram - cross.T @ self.ridge @ cross), correlation

    def certifiable(self) -> "RidgeSample":
        """The same problem as the solver of :func:`optimal_measure` sees it."""
        return RidgeSample(self)


def leave_one_out_penalty(
    inputs: Inputs, columns: Float[np.ndarray, "n d"], labels: Float[np.ndarray, " n"], counts: Float[np.ndarray, " n"]
) -> float:
    """The ridge penalty α with the least leave-one-out error, one of 37 from 1e-6 to 1e3.

    A row of count k stands for k rows of which one is left out at a time.
    """
    weights = counts / counts.sum()
    target, eigenvalues = labels - weights @ labels, inputs.eigenvalues
    present = eigenvalues > 0.0
    scores = inputs.standardised(columns) @ inputs.vectors[:, present]
    eigenvalues, moments = eigenvalues[present], scores.T @ (weights * target)
    best, best_error = float(_ALPHAS[-1]), np.inf
    squares = scores**2
    for alpha in _ALPHAS[::-1]:
        shrunk = 1.0 / (eigenvalues + alpha)
        leverage = (1.0 + squares @ shrunk) / counts.sum()
        left = np.maximum(1.0 - leverage, 1e-9)
        error = float(weights @ ((target - scores @ (shrunk * moments)) / left) ** 2)
        if error < best_error * (1.0 - 1e-9):
            best, best_error = float(alpha), error
    return best


class RidgeSample(SampleProblem):
    """The sample's measure problem with a ridge-penalised linear part: features ``M^{1/2}|Xu|``."""

    def __init__(self, table: TableProblem) -> None:
        """``table`` must have |·| neurons."""
        self.X, self.weights, self.raw = table.rows(slice(None)), table.weights, table.target
        self.inverse = np.zeros((table.dim + 1,) * 2)
        self.inverse[0, 0], self.inverse[1:-1, 1:-1] = 1.0, table.ridge
        self.y = self._project(self.raw)

    @property
    def energy(self) -> float:
        """``y·ωM y``."""
        return float((self.weights * self.raw) @ self.y)

    def loss(self, atoms: Atoms) -> float:
        """``r·ωM r``."""
        left = np.abs(self.X @ atoms.directions.T) @ atoms.masses - self.raw
        return max(float((self.weights * left) @ self._project(left)), 0.0)
