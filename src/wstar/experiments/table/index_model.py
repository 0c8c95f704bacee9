"""A fitted model as plain arrays in the columns' own units: what a run folder stores and predictions need."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

_BLOCK_ENTRIES = 2**20


@dataclass(frozen=True, eq=False)
class IndexModel:
    """``intercept + linear·x + Σ_k masses_k σ(directions_k·x + thresholds_k)``, x moved to within low and high.

    Values are kept between floor and ceiling, since columns that are nearly dependent may carry a row within all of its
    limits to where nothing was seen.

    Attributes:
        masses, thresholds: (K,).
        directions: (K, d); each projection has standard deviation 1 over the training rows.
        linear, low, high: (d,).
        relu: whether σ is ReLU, else it is |·|.
        floor, ceiling: limits of the predictions.
    """

    masses: Float[np.ndarray, " k"]
    directions: Float[np.ndarray, "k d"]
    thresholds: Float[np.ndarray, " k"]
    linear: Float[np.ndarray, " d"]
    intercept: float
    low: Float[np.ndarray, " d"]
    high: Float[np.ndarray, " d"]
    relu: bool
    floor: float = -np.inf
    ceiling: float = np.inf

    def __call__(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Predictions."""
        values = np.empty(len(X))
        rows = max(1, _BLOCK_ENTRIES // max(len(self.low), len(self.masses)))
        for start in range(0, len(X), rows):
            part = np.clip(X[start : start + rows], self.low, self.high)
            pre = part @ self.directions.T + self.thresholds
            features = np.maximum(pre, 0.0) if self.relu else np.abs(pre)
            values[start : start + rows] = self.intercept + part @ self.linear + features @ self.masses
        return np.clip(values, self.floor, self.ceiling)

    def outside(self, X: Float[np.ndarray, "n d"]) -> Int[np.ndarray, " d"]:
        """How many rows each column has beyond low and high."""
        return np.count_nonzero(np.clip(X, self.low, self.high) != X, axis=0)

    def without_relu(self) -> "IndexModel":
        """The same function with |·|: ``ReLU(t) = (|t| + t)/2``."""
        if not self.relu:
            return self
        half = 0.5 * self.masses
        return replace(
            self,
            masses=half,
            linear=self.linear + half @ self.directions,
            intercept=self.intercept + float(half @ self.thresholds),
            relu=False,
        )

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Arrays for an .npz file."""
        return {name: np.asarray(value) for name, value in vars(self).items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> "IndexModel":
        """What :meth:`to_arrays` gave.

        Raises:
            KeyError: an array is missing.
        """
        names = ("masses", "directions", "thresholds", "linear", "low", "high")
        masses, directions, thresholds, linear, low, high = (np.asarray(arrays[name], dtype=float) for name in names)
        intercept, floor, ceiling = (float(arrays[name]) for name in ("intercept", "floor", "ceiling"))
        relu = bool(arrays["relu"])
        return cls(masses, directions, thresholds, linear, intercept, low, high, relu, floor, ceiling)
