"""From columns in their own units to inputs that every direction costs the same in, and back."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

# columns whose spread is the rounding of their mean are constant; eigenvalues below this share of the largest are none
_CONSTANT, _RANK = 1e-13, 1e-10
_BLOCK_ROWS = 8192


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
    """Rounded to multiples of 2⁻³⁰: other units of a column then give the same numbers to the last bit.

    A path makes decisions, and rounding of 1e-16 could turn one of them.
    """
    return np.rint(standardised * 2.0**30) * 2.0**-30


@dataclass(frozen=True, eq=False)
class Inputs:
    """``x = (W z, c)``: standardised columns z, guarded and whitened, and a constant that gives neurons thresholds.

    Attributes:
        mean, scale: weighted mean and standard deviation of the columns; scale 0 marks a constant column.
        low, high: limits of z; what an unseen row has beyond them is moved to them, so that no prediction
            extrapolates far.
        matrix: W, (d, d).
        constant: c.
        eigenvalues, vectors: of the correlation matrix; 0 where columns are dependent.
    """

    mean: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]
    low: Float[np.ndarray, " d"]
    high: Float[np.ndarray, " d"]
    matrix: Float[np.ndarray, "d d"]
    constant: float
    eigenvalues: Float[np.ndarray, " d"]
    vectors: Float[np.ndarray, "d d"]

    @classmethod
    def fit(
        cls,
        X: Float[np.ndarray, "n d"],
        weights: Float[np.ndarray, " n"],
        shrinkage: float,
        constant: float,
        guard: float,
    ) -> "Inputs":
        """From rows with ``weights`` that sum to one; ``guard`` is in ranges of the column."""
        mean = weights @ X
        low, high = X.min(axis=0) - mean, X.max(axis=0) - mean
        squares, moments = np.zeros(X.shape[1]), np.zeros((X.shape[1],) * 2)
        # columns at size one before they are squared: units of 1e200 would overflow
        size = np.maximum(np.maximum(-low, high), np.finfo(float).tiny)
        blocks = [slice(start, start + _BLOCK_ROWS) for start in range(0, len(X), _BLOCK_ROWS)]
        for rows in blocks:
            squares += weights[rows] @ ((X[rows] - mean) / size) ** 2
        spread = np.sqrt(squares) * size
        varies = spread > _CONSTANT * (np.abs(mean) + size)
        scale = np.where(varies, spread, 0.0)
        inverse = np.where(varies, 1.0 / np.where(varies, scale, 1.0), 0.0)
        for rows in blocks:
            z = nine_digits((X[rows] - mean) * inverse)
            moments += (z * weights[rows, None]).T @ z
        matrix, eigenvalues, vectors = whitening(moments, shrinkage)
        room = guard * (high - low)
        return cls(mean, scale, (low - room) * inverse, (high + room) * inverse, matrix, constant, eigenvalues, vectors)

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
        varies = self.scale > 0.0
        return np.where(varies, 1.0 / np.where(varies, self.scale, 1.0), 0.0)

    def standardised(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Standardised columns z of rows X, guarded."""
        return nine_digits(np.clip((X - self.mean) * self.inverse_scale, self.low, self.high))

    def __call__(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d1"]:
        """Inputs x of rows X."""
        inputs = np.empty((len(X), self.dim))
        np.matmul(self.standardised(X), self.matrix, out=inputs[:, :-1])
        inputs[:, -1] = self.constant
        return inputs

    def whitened(self, gradients: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m d"]:
        """Rows that act on the columns, as unit rows on uncorrelated inputs: inner products are correlations."""
        rows = (gradients * self.scale) @ (self.vectors * np.sqrt(self.eigenvalues))
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(length > 0.0, length, 1.0)

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
