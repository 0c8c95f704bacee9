"""Least squares with neurons and a ridge-penalised linear part that is always at its optimum."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float

from wstar.algorithms.optimum.problem import Atoms
from wstar.algorithms.optimum.sample_problem import SampleProblem
from wstar.estimator.inputs import Inputs, row_blocks

# inputs are kept up to that many rows and numbers (134 MB), otherwise made again block by block
KEPT_ROWS, KEPT_ENTRIES = 50_000, 2**24
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
        return max(float(self.target @ self.weighted_target), 0.0)

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
        for name in ("_kept", "mean", "target"):
            if name in self.__dict__:
                other.__dict__[name] = self.__dict__[name]
        return other

    def lifted(self, rows: Float[np.ndarray, "m d1"]) -> Float[np.ndarray, "m d1"]:
        """Rows that act on inputs x, as rows that act on what :meth:`blocks` gives; the same turns gradients back."""
        return rows if self._kept is not None else self.inputs.on_standardised(rows)

    def blocks(self, width: int = 1) -> Iterator[tuple[slice, Float[np.ndarray, "r d1"]]]:
        """Slices of rows with their inputs x or, where these are not kept, (z, 1) in a buffer that is used again.

        A block is so small that ``width`` numbers a row fit the cache.
        """
        buffer = np.empty(0)
        for part in row_blocks(len(self.labels), max(width, self.dim)):
            if self._kept is not None:
                yield part, self._kept[part]
                continue
            columns = self.columns[part]
            if len(buffer) < len(columns):
                buffer = np.ones((len(columns), self.dim))
            self.inputs.standardised(columns, out=buffer[: len(columns), :-1])
            yield part, buffer[: len(columns)]

    def rows(self, part: slice | np.ndarray) -> Float[np.ndarray, "r d1"]:
        """Inputs x of some rows."""
        return self.inputs(self.columns[part]) if self._kept is None else self._kept[part]

    @cached_property
    def _kept(self) -> Float[np.ndarray, "n d1"] | None:
        few = len(self.labels) <= KEPT_ROWS and len(self.labels) * self.dim <= KEPT_ENTRIES
        return self.inputs(self.columns) if few else None

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
            lifted = self.lifted(atoms.directions)
            for part, x in self.blocks(len(atoms.masses)):
                values[part] += self.features(x @ lifted.T) @ atoms.masses
            values -= self.weights @ values
        return values

    def projected(self, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """``M values``."""
        left = values - self.weights @ values
        slope = self.lifted_slope(self.linear_fit(left))
        if slope.any():
            for part, x in self.blocks():
                left[part] -= x @ slope
        # inputs have mean zero up to rounding
        return left

    def linear_fit(self, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " d"]:
        """Slopes of the ridge fit to ``values``, in the coordinates x."""
        if np.isinf(self.alpha):
            return np.zeros(self.dim - 1)
        weighted, total = self.weights * values, np.zeros(self.dim)
        for part, x in self.blocks():
            total += weighted[part] @ x
        return self.slopes_of(total)

    def slopes_of(self, moments: Float[np.ndarray, " d1"]) -> Float[np.ndarray, " d"]:
        """Slopes of the ridge fit to values whose moments ``Σ ω values·(block's row)`` are given."""
        return self.ridge @ self.lifted(moments[None])[0, :-1]

    def lifted_slope(self, slope: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d1"]:
        """Slopes in the coordinates x, for the rows that :meth:`blocks` gives."""
        return self.lifted(np.append(slope, 0.0)[None])[0]

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
        m, lifted = len(directions), self.lifted(directions)
        gram, cross, correlation = np.zeros((m, m)), np.zeros((m, self.dim)), np.zeros(m)
        mean, weighted_target = np.zeros(m), self.weighted_target
        for part, x in self.blocks(m):
            features = self.features(x @ lifted.T)
            weighted = features * self.weights[part, None]
            gram += weighted.T @ features
            cross += weighted.T @ x
            mean += weighted.sum(axis=0)
            correlation += features.T @ weighted_target[part]
        gram -= np.outer(mean, mean)
        if np.isfinite(self.alpha):
            cross = self.lifted(cross)[:, :-1]
            gram -= cross @ self.ridge @ cross.T
        return gram, correlation

    @cached_property
    def weighted_target(self) -> Float[np.ndarray, " n"]:
        """``ω M y``."""
        return self.weights * self.projected(self.target)

    def certifiable(self) -> "RidgeSample":
        """The same problem as the solver of :func:`optimal_measure` sees it."""
        return RidgeSample(self)


def leave_one_out(
    inputs: Inputs, columns: Float[np.ndarray, "n d"], labels: Float[np.ndarray, " n"], counts: Float[np.ndarray, " n"]
) -> tuple[float, float]:
    """The ridge penalty α with the least leave-one-out error, one of 37 from 1e-6 to 1e3, and that error.

    A row of count k stands for k rows of which one is left out at a time.
    """
    weights = counts / counts.sum()
    target, present = labels - weights @ labels, inputs.eigenvalues > 0.0
    eigenvalues, vectors = inputs.eigenvalues[present], inputs.vectors[:, present]
    moments, errors = np.zeros(len(eigenvalues)), np.zeros(len(_ALPHAS))
    for part in row_blocks(len(target), inputs.dim):
        moments += (weights[part] * target[part]) @ inputs.standardised(columns[part]) @ vectors
    shrunk = 1.0 / (eigenvalues[:, None] + _ALPHAS)
    for part in row_blocks(len(target), inputs.dim):
        scores = inputs.standardised(columns[part]) @ vectors
        leverage = (1.0 + scores**2 @ shrunk) / counts.sum()
        left = target[part, None] - scores @ (shrunk * moments[:, None])
        errors += weights[part] @ (left / np.maximum(1.0 - leverage, 1e-9)) ** 2
    best = len(_ALPHAS) - 1
    for place in range(best - 1, -1, -1):
        if errors[place] < errors[best] * (1.0 - 1e-9):
            best = place
    return float(_ALPHAS[best]), float(errors[best])


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
