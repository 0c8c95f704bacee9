"""From a table's columns to numbers, by rules fitted on the training rows alone and stored as JSON."""

from typing import Annotated

import numpy as np
import pandas as pd
from jaxtyping import Float
from pandas.api import types
from pydantic import BaseModel, ConfigDict, Field

from wstar.experiments.table.column_rules import DateColumn, NumberColumn, TextColumn

# correlation of columns that are one column
_SAME = 1.0 - 1e-12
_CONSTANT = 1e-12

Part = Annotated[NumberColumn | TextColumn | DateColumn, Field(discriminator="kind")]


class Encoding(BaseModel):
    """Columns of a table → numbers, column by column.

    Attributes:
        parts: what each column of the table becomes.
        kept: places of the encoded columns that are used; the others did not vary or were the same as one before.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    parts: tuple[Part, ...]
    kept: tuple[int, ...]

    @classmethod
    def fit(cls, training: pd.DataFrame) -> tuple["Encoding", list[str]]:
        """The encoding of the ``training`` rows, and what it does, as sentences.

        Raises:
            ValueError: no column varies.
        """
        parts: list[NumberColumn | TextColumn | DateColumn] = []
        notes, plain = [], []
        for name in training.columns:
            part, said = _fit_part(training[name])
            if part is not None:
                parts.append(part)
            notes += said
            if isinstance(part, NumberColumn) and not said:
                plain.append(name)
        whole = cls(parts=tuple(parts), kept=())
        kept, dropped = _useful(whole._all(training), whole._all_names) if parts else ([], [])
        if not kept:
            raise ValueError("no input column varies over the training rows: nothing to predict from")
        used = [name for name in plain if name in {whole._all_names[k] for k in kept}]
        if used:
            shown = ", ".join(used[:8]) + (f" and {len(used) - 8} more" if len(used) > 8 else "")
            notes.append(f"Numbers that stay as they are: {shown}.")
        return cls(parts=tuple(parts), kept=tuple(kept)), [*notes, *dropped]

    @property
    def columns(self) -> list[str]:
        """Names of the encoded columns."""
        return [self._all_names[k] for k in self.kept]

    @property
    def sources(self) -> list[str]:
        """Names of the table's columns that are needed."""
        return [part.name for part in self.parts]

    def __call__(self, rows: pd.DataFrame) -> Float[np.ndarray, "n d"]:
        """The encoded columns of ``rows``."""
        return self._all(rows)[:, list(self.kept)]

    def strange(self, rows: pd.DataFrame) -> dict[str, int]:
        """For each column, how many cells could not be taken as they are (none: left out)."""
        found = {part.name: part.strange(rows[part.name]) for part in self.parts}
        return {name: count for name, count in found.items() if count}

    @property
    def _all_names(self) -> list[str]:
        return [name for part in self.parts for name in part.names]

    def _all(self, rows: pd.DataFrame) -> Float[np.ndarray, "n k"]:
        return np.hstack([part(rows[part.name]) for part in self.parts])


def _fit_part(column: pd.Series) -> tuple[NumberColumn | TextColumn | DateColumn | None, list[str]]:
    if types.is_datetime64_any_dtype(column):
        if not column.notna().any():
            return None, [f"Dropped {column.name}: it is empty in all training rows."]
        return DateColumn.fit(column)
    if types.is_numeric_dtype(column):
        return NumberColumn.fit(column)
    return TextColumn.fit(column)


def _useful(encoded: Float[np.ndarray, "n k"], names: list[str]) -> tuple[list[int], list[str]]:
    """Places of columns that vary and are no copy (up to scale) of one before; sentences on the others."""
    size = np.maximum(np.abs(encoded).max(axis=0), np.finfo(float).tiny)
    standard = encoded / size
    standard -= standard.mean(axis=0)
    spread = np.sqrt(np.mean(standard**2, axis=0))
    varies = np.flatnonzero(spread > _CONSTANT)
    notes = []
    if len(varies) < len(names):
        still = [names[k] for k in range(len(names)) if k not in set(varies)]
        notes.append(f"Dropped what does not vary over the training rows: {', '.join(still)}.")
    standard = standard[:, varies] / spread[varies]
    alike = np.triu(np.abs(standard.T @ standard / len(standard)) > _SAME, 1)
    for first, second in zip(*np.nonzero(alike), strict=True):
        if not alike[:, first].any() and not alike[:first, second].any():
            notes.append(f"Dropped {names[varies[second]]}: it is {names[varies[first]]} up to scale.")
    return [int(k) for k in varies[~alike.any(axis=0)]], notes
