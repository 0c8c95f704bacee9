"""From a table's columns to inputs that Algorithm 1 can take, with every constant fitted on the training rows alone.

Three maps in a row: columns → standardised columns ``z`` (levels as 0/1, gaps filled, centred, scaled, guarded) →
inputs ``x = (W z, c)`` in which the training rows are nearly uncorrelated, with a constant last entry.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float
from pandas.api import types

# directions are penalised where (C + s·I)/(1 + s) is the identity, C the correlation matrix of the training rows:
# s = 0 would blow up combinations of columns that hardly vary, s = ∞ leaves the columns as correlated as they are
SHRINKAGE = 0.3
# the constant input: thresholds of its size are about as cheap as slopes
CONSTANT = 0.5
# unseen rows may leave the training range by this many standard deviations
GUARD = 0.5
_MOST_LEVELS = 30
_GAP = "(missing)"


@dataclass(frozen=True, eq=False)
class Encoding:
    """Columns → standardised columns, fitted on training rows.

    Attributes:
        columns: names after encoding, (d,).
        levels: text column → its levels that have a 0/1 column; the most frequent one is the reference.
        fill: numeric column → its training mean.
        mean, scale, low, high: (d,) of the encoded training rows; low and high are in standardised units.
        notes: what was done, as sentences.
    """

    columns: tuple[str, ...]
    levels: dict[str, tuple[str, ...]]
    fill: dict[str, float]
    mean: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]
    low: Float[np.ndarray, " d"]
    high: Float[np.ndarray, " d"]
    notes: tuple[str, ...]

    @classmethod
    def fit(cls, training: pd.DataFrame) -> "Encoding":
        """Levels, means, scales and ranges of the ``training`` rows; columns that do not vary there are dropped.

        Raises:
            ValueError: a text column with more than 30 levels, no column that varies, or fewer training rows than
                encoded columns + 2.
        """
        levels, fill, notes = {}, {}, []
        for name in training.columns:
            column = training[name]
            if not types.is_numeric_dtype(column):
                levels[name] = _levels(column)
                notes.append(f"{name} is text: a 0/1 column for every level but the most frequent, {levels[name][0]}.")
            elif column.isna().any() and column.notna().any():
                fill[name] = float(column.mean())
                notes.append(
                    f"{int(column.isna().sum())} empty training cells of {name} hold its mean {fill[name]:.4g}."
                )
            else:
                fill[name] = float(column.mean()) if column.notna().any() else 0.0
        levels = {name: found[1:] for name, found in levels.items()}
        encoded = _encoded(training, levels, fill)
        spread = encoded.to_numpy().std(axis=0)
        kept = spread > 1e-12 * np.abs(encoded.to_numpy()).max(axis=0)
        if not kept.all():
            gone = ", ".join(encoded.columns[~kept])
            notes.append(f"Dropped what does not vary over the training rows: {gone}.")
        if not kept.any():
            raise ValueError("no input column varies over the training rows: nothing to predict from")
        columns, n = tuple(encoded.columns[kept]), len(training)
        if n < len(columns) + 2:
            raise ValueError(
                f"{n} training rows for {len(columns)} columns (text levels counted): at least columns + 2 = "
                f"{len(columns) + 2} are needed; drop columns or hold fewer rows back (--test-size)"
            )
        values = encoded.to_numpy()[:, kept]
        mean, scale = values.mean(axis=0), spread[kept]
        standard = (values - mean) / scale
        notes.append(
            f"Inputs are centred and scaled to standard deviation 1 on the {n} training rows; an unseen value more "
            f"than {GUARD:g} beyond their range is moved to that limit."
        )
        low, high = standard.min(axis=0) - GUARD, standard.max(axis=0) + GUARD
        return cls(columns, levels, fill, mean, scale, low, high, tuple(notes))

    def __call__(self, rows: pd.DataFrame) -> Float[np.ndarray, "n d"]:
        """Standardised columns of ``rows``; a level or gap not seen in training counts as the reference or the mean."""
        values = _encoded(rows, self.levels, self.fill)[list(self.columns)].to_numpy()
        return np.clip((values - self.mean) / self.scale, self.low, self.high)

    def standardising(self) -> Float[np.ndarray, "d1 d1"]:
        """``S`` with ``(z, 1) = S (encoded columns, 1)`` inside the training range."""
        d = len(self.columns)
        full = np.eye(d + 1)
        full[:d, :d] /= self.scale[:, None]
        full[:d, d] = -self.mean / self.scale
        return full


def _levels(column: pd.Series) -> tuple[str, ...]:
    counts = column.fillna(_GAP).astype(str).value_counts()
    if len(counts) > _MOST_LEVELS:
        raise ValueError(
            f"text column {column.name!r} has {len(counts)} levels, at most {_MOST_LEVELS} are encoded: group them, or "
            "leave text out with --categories drop"
        )
    # by frequency, then by name: ties must not depend on the order of the rows
    return tuple(sorted(counts.index, key=lambda level: (-counts[level], level)))


def _encoded(rows: pd.DataFrame, levels: dict[str, tuple[str, ...]], fill: dict[str, float]) -> pd.DataFrame:
    columns: dict[str, np.ndarray] = {}
    for name in rows.columns:
        if name in levels:
            text = rows[name].fillna(_GAP).astype(str)
            columns |= {f"{name}={level}": (text == level).to_numpy(dtype=float) for level in levels[name]}
        else:
            columns[name] = rows[name].fillna(fill[name]).to_numpy(dtype=float)
    return pd.DataFrame(columns, index=rows.index)


def input_map(standardised: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "d1 d1"]:
    """``P`` with inputs ``x = P (z, 1)``: ``x = (W z, c)``, ``W = ((C + s I)/(1 + s))^{-1/2}`` symmetric.

    C is the correlation matrix of the ``standardised`` training rows, s = 0.3, c = 0.5. ZG's theory has x ~ N(0, I):
    in these coordinates a direction's cost does not depend on how the columns happen to be correlated, and the
    constant entry gives every neuron a threshold.
    """
    n, d = standardised.shape
    eigenvalues, vectors = np.linalg.eigh(standardised.T @ standardised / n)
    stretch = np.sqrt((np.maximum(eigenvalues, 0.0) + SHRINKAGE) / (1.0 + SHRINKAGE))
    full = np.zeros((d + 1, d + 1))
    full[:d, :d] = (vectors / stretch) @ vectors.T
    full[d, d] = CONSTANT
    return full
