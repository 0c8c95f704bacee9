"""Skewed columns on Tukey's ladder of powers: a logarithm, root or square where that makes a column less lopsided."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

# tried from the identity outwards; 0 is the logarithm
_POWERS = (1.0, 0.5, 2.0, 0.0, -0.5, -1.0)
# a column is left alone up to this skewness
_SKEWED = 1.0
# the shape of a column is seen on this many rows, evenly spaced
_ROWS = 5_000


@dataclass(frozen=True, eq=False)
class Ladder:
    """``h_j(x) = ((x + start_j)/unit_j)^{p_j}``, its logarithm at p = 0, minus it below; the identity at p = 1.

    Attributes:
        powers: p, (d,).
        starts: added first, so that no logarithm or inverse meets a zero: 0 for columns without one, else the least
            positive value.
        units: the least value after that, so that other units of a column change nothing.
    """

    powers: Float[np.ndarray, " d"]
    starts: Float[np.ndarray, " d"]
    units: Float[np.ndarray, " d"]

    @classmethod
    def none(cls, n_columns: int) -> "Ladder":
        """All columns as they are."""
        return cls(np.ones(n_columns), np.zeros(n_columns), np.ones(n_columns))

    @classmethod
    def least_skewed(cls, X: Float[np.ndarray, "n d"], counts: Float[np.ndarray, " n"]) -> "Ladder":
        """The power of least skewness for each column of skewness above 1, of more than two values, none negative.

        Source: Tukey, Exploratory data analysis (1977), chapter 3.
        """
        rows = slice(None, None, -(-len(X) // _ROWS))
        shares, lowest = counts[rows] / counts[rows].sum(), X.min(axis=0)
        found = cls.none(X.shape[1])
        for j in np.flatnonzero(lowest >= 0.0):
            column, least = np.asarray(X[rows, j], dtype=float), float(lowest[j])
            if abs(_skewness(column, shares)) <= _SKEWED or len(np.unique(column)) <= 2:
                continue
            start = 0.0 if least > 0.0 else float(column[column > 0.0].min())
            unit = least + start
            sizes = [abs(_skewness(_power((column + start) / unit, p), shares)) for p in _POWERS]
            # the nearest to the identity of those that rounding cannot tell apart
            best = int(np.argmax(np.array(sizes) <= min(sizes) + 1e-6))
            if best:
                found.powers[j], found.starts[j], found.units[j] = _POWERS[best], start, unit
        return found

    @property
    def moved(self) -> Bool[np.ndarray, " d"]:
        """Which columns are not left as they are."""
        return self.powers != 1.0

    def __call__(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """``h(X)``; X itself where nothing is to be done. Values below the least one seen are taken as that one."""
        moved = np.flatnonzero(self.moved)
        if not moved.size:
            return X
        X = np.array(X, dtype=float)
        for j in moved:
            X[:, j] = _power(np.maximum((X[:, j] + self.starts[j]) / self.units[j], 1.0), self.powers[j])
        return X

    def name(self, column: int, name: str) -> str:
        """``log(name)``, ``name^0.5``; with the start where there is one."""
        power, start = self.powers[column], self.starts[column]
        if power == 1.0:
            return name
        inner = f"{name} + {start:g}" if start else name
        if power == 0.0:
            return f"log({inner})"
        raised = f"({inner})^{power:g}" if start else f"{inner}^{power:g}"
        return raised if power > 0.0 else f"−{raised}"


def _power(values: Float[np.ndarray, " n"], power: float) -> Float[np.ndarray, " n"]:
    if power == 0.0:
        return np.log(values)
    return values**power if power > 0.0 else -(values**power)


def _skewness(values: Float[np.ndarray, " n"], shares: Float[np.ndarray, " n"]) -> float:
    size = float(np.abs(values).max())
    if size == 0.0:
        return 0.0
    left = values / size
    left = left - shares @ left
    variance = float(shares @ left**2)
    return float(shares @ left**3) / variance**1.5 if variance > 1e-24 else 0.0
