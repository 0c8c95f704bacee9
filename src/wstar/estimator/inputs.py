"""From columns in their own units to inputs that every direction costs the same in, and back."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from wstar.estimator.ladder import Ladder

# columns whose spread is the rounding of their mean are constant; eigenvalues below this share of the largest are none
_CONSTANT, _RANK = 1e-13, 1e-10
# a block of rows and what is computed from it stay in the cache
_BLOCK_ENTRIES = 2**17


def row_blocks(n: int, width: int) -> Iterator[slice]:
    """Slices of ``n`` rows with about 10⁵ numbers each, at ``width`` numbers a row."""
    rows = max(256, _BLOCK_ENTRIES // max(width, 1))
    for start in range(0, n, rows):
        yield slice(start, min(start + rows, n))


def whitening(
    correlation: Float[np.ndarray, "d d"], shrinkage: float
) -> tuple[Float[np.ndarray, "d d"], Float[np.ndarray, " d"], Float[np.ndarray, "d d"]]:
    """``((C + s I)/(1 + s))^{-1/2}``, symmetric and zero where C is; also C's eigenvalues and eigenvectors.

    ZG's theory has x ~ N(0, I): at ``s = 0`` a direction's cost does not depend on how the columns happen to be
    correlated, at ``s = ∞`` columns stay as they are, and combinations of columns that hardly vary cost much.
    """
    eigenvalues, vectors = np.linalg.eigh(correlation)
    present = eigenvalues > _RANK * max(float(eigenvalues[-1]), np.finfo(float).tiny)
    eigenvalues = np.where(present, eigenvalues, 0.0)
    stretch = np.ones_like(eigenvalues)
    stretch[present] = (eigenvalues[present] / (1.0 + shrinkage) + shrinkage / (1.0 + shrinkage)) ** -0.5
    return (vectors * np.where(present, stretch, 0.0)) @ vectors.T, eigenvalues, vectors


def nine_digits(standardised: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Rounded in place to multiples of 2⁻³⁰: other units of a column then give the same numbers to the last bit.

    A path makes decisions, and rounding of 1e-16 could turn one of them.
    """
    standardised *= 2.0**30
    np.rint(standardised, out=standardised)
    standardised *= 2.0**-30
    return standardised


@dataclass(frozen=True, eq=False)
class Inputs:
    """``x = (W z, c)``: standardised columns z, guarded and whitened, and a constant that gives neurons thresholds.

    Columns are those of the rows, or what ``ladder`` makes of them.

    Attributes:
        mean, scale: weighted mean and standard deviation of the columns; scale 0 marks a constant column.
        low, high: limits of z; what an unseen row has beyond them is moved to them, so that no prediction
            extrapolates far.
        matrix: W, (d, d).
        constant: c.
        eigenvalues, vectors: of the correlation matrix; 0 where columns are dependent.
        score_low, score_high: limits of the principal scores ``z·vectors``, for the same purpose: a row may be far out
            along a combination of columns that hardly varied, with each column inside its own limits.
        guard: by how many of its ranges a column, or a score, may leave its own range.
        ladder: powers of skewed columns, before all else.
    """

    mean: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]
    low: Float[np.ndarray, " d"]
    high: Float[np.ndarray, " d"]
    matrix: Float[np.ndarray, "d d"]
    constant: float
    eigenvalues: Float[np.ndarray, " d"]
    vectors: Float[np.ndarray, "d d"]
    score_low: Float[np.ndarray, " d"]
    score_high: Float[np.ndarray, " d"]
    guard: float
    ladder: Ladder

    @classmethod
    def fit(
        cls,
        X: Float[np.ndarray, "n d"],
        weights: Float[np.ndarray, " n"],
        shrinkage: float,
        constant: float,
        guard: float,
        ladder: Ladder,
    ) -> "Inputs":
        """From rows with ``weights`` that sum to one; X is read in blocks."""
        n, d = X.shape
        mean, scale, low, high = _moments(X, weights, ladder)
        inverse = _inverse(scale)
        correlation = np.zeros((d, d))
        for rows in row_blocks(n, d):
            z = nine_digits((ladder(X[rows]) - mean) * inverse)
            correlation += (z * weights[rows, None]).T @ z
        matrix, eigenvalues, vectors = whitening(correlation, shrinkage)
        score_low, score_high = np.full(d, np.inf), np.full(d, -np.inf)
        for rows in row_blocks(n, d):
            scores = nine_digits((ladder(X[rows]) - mean) * inverse) @ vectors
            np.minimum(score_low, scores.min(axis=0), out=score_low)
            np.maximum(score_high, scores.max(axis=0), out=score_high)
        limits = widened(low * inverse, high * inverse, guard)
        score_limits = widened(score_low, score_high, guard)
        return cls(mean, scale, *limits, matrix, constant, eigenvalues, vectors, *score_limits, guard, ladder)

    @property
    def dim(self) -> int:
        """Number of inputs, the constant counted."""
        return len(self.mean) + 1

    @property
    def rank(self) -> int:
        """Number of linear combinations of the columns that vary."""
        return int(np.count_nonzero(self.eigenvalues))

    @property
    def inverse_scale(self) -> Float[np.ndarray, " d"]:
        """``1/scale``, 0 for constant columns."""
        return _inverse(self.scale)

    def standardised(self, X: Float[np.ndarray, "n d"], out: np.ndarray | None = None) -> Float[np.ndarray, "n d"]:
        """Standardised columns z of rows X, each within its limits."""
        z = np.subtract(self.ladder(X), self.mean, out=np.empty(X.shape) if out is None else out)
        z *= self.inverse_scale
        np.clip(z, self.low, self.high, out=z)
        return nine_digits(z)

    def guarded(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """:meth:`standardised`, and rows with a principal score beyond its limits moved to them along its axis."""
        z = self.standardised(X)
        scores = z @ self.vectors
        inside = np.clip(scores, self.score_low, self.score_high)
        present = self.eigenvalues > 0.0
        slack = 1e-7 * (self.score_high - self.score_low)
        out = (np.abs(inside - scores) > slack)[:, present].any(axis=1)
        if out.any():
            z[out] += (inside[out] - scores[out]) @ self.vectors.T
        return z

    def __call__(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d1"]:
        """Inputs x of the rows X that the limits were taken from."""
        inputs = np.empty((len(X), self.dim))
        inputs[:, -1] = self.constant
        for rows in row_blocks(len(X), self.dim):
            inputs[rows, :-1] = self.standardised(X[rows]) @ self.matrix
        return inputs

    def whitened(self, gradients: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m d"]:
        """Rows that act on the columns, as unit rows on uncorrelated inputs: inner products are correlations."""
        rows = (gradients * self.scale) @ (self.vectors * np.sqrt(self.eigenvalues))
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(length > 0.0, length, 1.0)

    def on_standardised(self, slopes: Float[np.ndarray, "m d1"]) -> Float[np.ndarray, "m d1"]:
        """Rows w that act on x, as rows that act on (z, 1); and gradients by those as gradients by w."""
        return np.concatenate([slopes[:, :-1] @ self.matrix, self.constant * slopes[:, -1:]], axis=1)

    def from_columns(
        self, gradients: Float[np.ndarray, "m d"], thresholds: Float[np.ndarray, " m"]
    ) -> Float[np.ndarray, "m d1"]:
        """Rows w with ``w·x = g·columns + t``; what does not vary over these rows is left out of g."""
        slopes = (gradients * self.scale) @ np.linalg.pinv(self.matrix, rcond=1e-9, hermitian=True)
        return np.column_stack([slopes, (thresholds + gradients @ self.mean) / self.constant])

    def to_columns(self, slopes: Float[np.ndarray, "m d1"]) -> tuple[Float[np.ndarray, "m d"], Float[np.ndarray, " m"]]:
        """``w·x`` as ``g·columns + t``: the rows g and thresholds t of the rows w."""
        gradients = slopes[:, :-1] @ self.matrix * self.inverse_scale
        return gradients, slopes[:, -1] * self.constant - gradients @ self.mean


def _moments(
    X: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"], ladder: Ladder
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"], Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Mean, standard deviation (0: constant), and least and largest value less the mean, of each column."""
    d = X.shape[1]
    mean, squares, low, high = np.zeros(d), np.zeros(d), np.full(d, np.inf), np.full(d, -np.inf)
    for rows in row_blocks(len(X), d):
        columns = np.asarray(ladder(X[rows]), dtype=float)
        mean += weights[rows] @ columns
        np.minimum(low, columns.min(axis=0), out=low)
        np.maximum(high, columns.max(axis=0), out=high)
    low, high = low - mean, high - mean
    # columns at size one before they are squared: units of 1e200 would overflow
    size = np.maximum(np.maximum(-low, high), np.finfo(float).tiny)
    for rows in row_blocks(len(X), d):
        squares += weights[rows] @ ((ladder(X[rows]) - mean) / size) ** 2
    spread = np.sqrt(squares) * size
    return mean, np.where(spread > _CONSTANT * (np.abs(mean) + size), spread, 0.0), low, high


def _inverse(scale: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
    return np.where(scale > 0.0, 1.0 / np.where(scale > 0.0, scale, 1.0), 0.0)


def widened(
    low: Float[np.ndarray, "..."], high: Float[np.ndarray, "..."], ranges: float
) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    """The intervals with so many times their own length added at both ends; empty ones stay."""
    length = high - low
    room = np.where(length > 0.0, ranges * np.where(length > 0.0, length, 1.0), 0.0)
    return low - room, high + room
