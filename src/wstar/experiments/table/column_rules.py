"""What a column of a table becomes: numbers, by a rule for its kind that is fitted on the training rows alone."""

from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict

from wstar.experiments.table.columns import as_dates, as_numbers, as_texts, not_numbers

# a level of text has a 0/1 column of its own in this many training rows, and this share of them, up to so many levels
LEAST_ROWS, LEAST_SHARE, MOST_LEVELS = 3, 0.01, 20
# more different texts than this share of the rows are names of the rows
NAMES_SHARE = 0.5
# days of the week need so many rows to be told apart from noise, and so many days to come round often enough
WEEKDAY_ROWS, _WEEKDAY_SPAN = 140, 28
# where more than this share of a column is empty, that it is empty is a 0/1 column of its own
MARKED_SHARE = 0.05
EMPTY, OTHER = "(empty)", "(other)"
_WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_YEAR, _DAY = 365.2425, 86_400


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str


class NumberColumn(_Part):
    """A number as it is; ``fill`` (the training median) where it is empty."""

    kind: Literal["number"] = "number"
    fill: float
    marked: bool

    @classmethod
    def fit(cls, column: pd.Series) -> tuple["NumberColumn", list[str]]:
        """Median of the training rows, and what is done to the column, as sentences."""
        values = as_numbers(column)
        gaps = np.isnan(values)
        fill = float(np.median(values[~gaps])) if not gaps.all() else 0.0
        part = cls(name=str(column.name), fill=fill, marked=_to_be_marked(gaps))
        if not gaps.any() or gaps.all():
            return part, []
        return part, [_gap_sentence(part.name, gaps, f"{fill:.4g}", part.marked)]

    @property
    def names(self) -> list[str]:
        """Of the columns it becomes."""
        return [self.name, *([f"{self.name}={EMPTY}"] if self.marked else [])]

    def __call__(self, column: pd.Series) -> Float[np.ndarray, "n k"]:
        """The columns it becomes."""
        values = as_numbers(column)
        gaps = np.isnan(values)
        values = np.where(gaps, self.fill, values)
        return np.column_stack([values, gaps]) if self.marked else values[:, None]

    def strange(self, column: pd.Series) -> int:
        """How many cells are filled with what is no number; they count as empty."""
        return int(not_numbers(column).sum())


class TextColumn(_Part):
    """A 0/1 column for each of ``levels``; the ``reference`` is zero in all; ``other``: one more for rarer ones."""

    kind: Literal["text"] = "text"
    levels: tuple[str, ...]
    reference: str
    other: bool

    @classmethod
    def fit(cls, column: pd.Series) -> tuple["TextColumn | None", list[str]]:
        """Levels by their number of training rows (then by name), and what is done, as sentences; None: dropped."""
        name, text = str(column.name), _levels_of(column)
        counts = text.value_counts()
        filled = counts.drop(EMPTY, errors="ignore")
        if len(filled) > MOST_LEVELS and len(filled) > NAMES_SHARE * filled.sum():
            return None, [
                f"Dropped {name}: {len(filled)} different texts in {filled.sum()} rows name the rows rather than tell "
                "anything of them (dates are understood in the form 2024-05-31)."
            ]
        # ties must not depend on the order of the rows
        order = sorted(counts.index, key=lambda level: (-counts[level], level))
        least = max(LEAST_ROWS, LEAST_SHARE * len(text))
        own = [level for level in order[: MOST_LEVELS + 1] if counts[level] >= least]
        rare = len(order) - len(own)
        if not own:
            return None, [f"Dropped {name}: none of its {len(order)} texts is in {LEAST_ROWS} training rows."]
        part = cls(name=name, levels=tuple(own[1:]), reference=own[0], other=rare > 0)
        shown = ", ".join(own[1:6]) + (", …" if len(own) > 6 else "")
        return part, [
            f"{name} is text: a 0/1 column each for {shown or 'no level'}; all are 0 for {own[0]}, the most frequent."
            + (f" {rare} rarer texts share {name}={OTHER}." if rare else "")
        ]

    @property
    def names(self) -> list[str]:
        """Of the columns it becomes."""
        return [f"{self.name}={level}" for level in (*self.levels, *([OTHER] if self.other else []))]

    def __call__(self, column: pd.Series) -> Float[np.ndarray, "n k"]:
        """The columns it becomes; a text never seen counts as rare, or as the reference where none was rare."""
        text = _levels_of(column).to_numpy(dtype=object)
        columns = [text == level for level in self.levels]
        if self.other:
            columns.append(~np.isin(text.astype(str), [self.reference, *self.levels]))
        return np.array(columns, dtype=float).reshape(len(columns), len(text)).T

    def strange(self, column: pd.Series) -> int:
        """How many cells hold a text without a column of its own."""
        return int((~_levels_of(column).isin([self.reference, *self.levels])).sum())


class DateColumn(_Part):
    """Days since ``origin``; where told, time of the year and of the day as cosine and sine, and days of the week."""

    kind: Literal["date"] = "date"
    origin: str
    fill: float
    year: bool
    weekdays: tuple[str, ...]
    clock: bool
    marked: bool

    @classmethod
    def fit(cls, column: pd.Series) -> tuple["DateColumn", list[str]]:
        """Year from a year of training rows on; weekdays from 140 rows and four weeks on, unless rows are monthly."""
        name, moments = str(column.name), as_dates(column)
        gaps = np.isnat(moments)
        present = np.sort(moments[~gaps])
        origin = present[0].astype("datetime64[D]")
        days = (present - origin).astype(float) / _DAY
        span = float(days[-1] - days[0])
        whole = present.astype("datetime64[D]")
        day_of_month = (whole - whole.astype("datetime64[M]")).astype(int)
        weekdays: tuple[str, ...] = ()
        if len(present) >= WEEKDAY_ROWS and span >= _WEEKDAY_SPAN and np.ptp(day_of_month) > 0:
            present_days, counts = np.unique(_weekday(present), return_counts=True)
            weekdays = tuple(_WEEK[day] for day in np.delete(present_days, counts.argmax()))
        part = cls(
            name=name,
            origin=str(origin),
            fill=float(np.median(days)),
            year=span >= _YEAR,
            weekdays=weekdays,
            clock=bool((present != whole).any()),
            marked=_to_be_marked(gaps),
        )
        extras = [
            *(["time of the year as cosine and sine"] if part.year else []),
            *([f"a 0/1 column for {len(weekdays)} days of the week"] if weekdays else []),
            *(["time of the day as cosine and sine"] if part.clock else []),
        ]
        notes = [f"{name} is a date: days since {origin}{''.join(f', {extra}' for extra in extras)}."]
        if gaps.any():
            middle = origin + np.timedelta64(round(part.fill), "D")
            notes.append(_gap_sentence(name, gaps, str(middle), part.marked))
        return part, notes

    @property
    def names(self) -> list[str]:
        """Of the columns it becomes."""
        circles = [*(["year"] if self.year else []), *(["day"] if self.clock else [])]
        return [
            f"{self.name} (days since {self.origin})",
            *(f"{self.name} ({wave} of the {circle})" for circle in circles for wave in ("cosine", "sine")),
            *(f"{self.name}={day}" for day in self.weekdays),
            *([f"{self.name}={EMPTY}"] if self.marked else []),
        ]

    def __call__(self, column: pd.Series) -> Float[np.ndarray, "n k"]:
        """The columns it becomes."""
        moments, origin = as_dates(column), np.datetime64(self.origin, "s")
        gaps = np.isnat(moments)
        moments = np.where(gaps, origin + np.timedelta64(round(self.fill * _DAY), "s"), moments)
        columns = [(moments - origin).astype(float) / _DAY]
        if self.year:
            within = (moments - moments.astype("datetime64[Y]")).astype("timedelta64[s]").astype(float)
            columns += _circle(within / (_YEAR * _DAY))
        if self.clock:
            columns += _circle((moments - moments.astype("datetime64[D]")).astype(float) / _DAY)
        columns += [_weekday(moments) == _WEEK.index(day) for day in self.weekdays]
        return np.column_stack([*columns, *([gaps] if self.marked else [])]).astype(float)

    def strange(self, column: pd.Series) -> int:
        """How many cells are filled with what is no date; they count as empty."""
        return int((column.notna().to_numpy() & np.isnat(as_dates(column))).sum())


def _to_be_marked(gaps: np.ndarray) -> bool:
    return bool(MARKED_SHARE < gaps.mean() < 1.0)


def _gap_sentence(name: str, gaps: np.ndarray, fill: str, marked: bool) -> str:
    also = f", and {name}={EMPTY} says which" if marked else ""
    return f"{int(gaps.sum())} empty training cells of {name} hold its median {fill}{also}."


def _levels_of(column: pd.Series) -> pd.Series:
    text = pd.Series(as_texts(column), dtype=object)
    return text.where(text.notna(), EMPTY)


def _weekday(moments: np.ndarray) -> np.ndarray:
    # day 0 of the era was a Thursday
    return (moments.astype("datetime64[D]").astype(int) + 3) % 7


def _circle(turns: np.ndarray) -> list[np.ndarray]:
    return [np.cos(2.0 * np.pi * turns), np.sin(2.0 * np.pi * turns)]
