"""Tables that can be learnt from: columns of one kind each, a target apart, checked before anything is computed."""

import shlex
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from pandas.api import types

from wstar.experiments.table.columns import DATE, NUMBER, TEXT, as_dates, as_numbers, as_texts, kind_of, not_numbers
from wstar.experiments.table.files import read_frame, require

MISSING = ("impute", "drop", "refuse")
CATEGORIES = ("onehot", "drop", "refuse")
DATES = ("parts", "drop", "refuse")
LEAST_ROWS = 10
# what R and pandas call a column that numbers the rows
_INDEX_NAMES = ("", "rownames", "row.names", "__index_level_0__")
# squares of larger numbers overflow, those of numbers smaller than its inverse vanish
_LARGEST = 1e100
# correlation with the target that hardly any measured quantity has by itself
_LEAK = 0.9999


@dataclass(frozen=True, eq=False)
class Table:
    """A checked table: numeric target without gaps; inputs are numbers, dates or text, with gaps where allowed.

    Attributes:
        name: file name without its folder.
        target: name of the target column.
        inputs: the other columns: float64 (gap: NaN), datetime64 (gap: NaT) or text (gap: None).
        labels: the target, (n,).
        rows: (n,), which row of the file each is, the first below the names being 1.
        notes: what was done to the table, as sentences.
        cautions: what to beware of, as sentences.
    """

    name: str
    target: str
    inputs: pd.DataFrame
    labels: Float[np.ndarray, " n"]
    rows: Int[np.ndarray, " n"]
    notes: tuple[str, ...]
    cautions: tuple[str, ...] = ()


def read_table(
    path: str | Path,
    target: str,
    *,
    missing: str = "impute",
    categories: str = "onehot",
    dates: str = "parts",
    leave_out: Iterable[str] = (),
) -> Table:
    """The table at ``path`` (.csv, .parquet) with ``target`` set apart.

    ``missing`` says what becomes of gaps (NaN, infinite or empty cells): "impute" keeps them to be filled from the
    training rows and drops rows without a target, "drop" drops their rows. ``categories`` and ``dates`` say what
    becomes of columns of text and of dates: "onehot" and "parts" keep them to be encoded, "drop" drops them. All three
    may be "refuse". Columns ``leave_out`` are left out before anything else.

    Raises:
        ValueError: one line that names the file, column and count and says what to change: no such file, another
            extension, unreadable, repeated or missing column names, a target that is missing, text or constant, gaps,
            text or dates where they are refused, fewer than 10 usable rows, no input column.

    Warns:
        UserWarning: for each caution: an input column is the target in disguise (correlation ±1).
    """
    for name, value, choices in (
        ("missing", missing, MISSING),
        ("categories", categories, CATEGORIES),
        ("dates", dates, DATES),
    ):
        if value not in choices:
            raise ValueError(f"{name}={value!r}: choose one of {', '.join(map(repr, choices))}")
    path = Path(path)
    frame = read_frame(path)
    leave_out = tuple(leave_out)
    require(frame, [target, *leave_out], path.name)
    if target in leave_out:
        raise ValueError(f"{target!r} is the target: it cannot be left out")
    if len(frame) < 2:
        raise ValueError(
            f"{path.name} has {'no rows' if frame.empty else 'one row'}: at least {LEAST_ROWS} are needed to learn from"
        )
    frame, notes = _without_row_numbers(frame.drop(columns=list(leave_out)), target)
    notes = [*([f"Left out as asked: {', '.join(leave_out)}."] if leave_out else []), *notes]
    frame, said = _typed(frame, target, categories, dates)
    _check_sizes(frame)
    frame.index = pd.RangeIndex(1, len(frame) + 1)
    frame, gaps = _without_gaps(frame, target, missing)
    labels = frame.pop(target).to_numpy(dtype=float)
    _check_shape(frame, labels, target)
    notes = [f"{path.name} has {len(labels):,} usable rows; {target} is the target.", *notes, *said, *gaps]
    cautions = tuple(_leaks(frame, labels, target))
    for caution in cautions:
        warnings.warn(caution, stacklevel=2)
    rows = frame.index.to_numpy(dtype=int)
    return Table(path.name, target, frame.reset_index(drop=True), labels, rows, tuple(notes), cautions)


def split_rows(table: Table, test_size: float, seed: int) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " test"]]:
    """Indices of training and test rows; of the latter ``round(test_size·n)``, drawn with ``seed``.

    They are drawn from a list sorted by value and come in an order that depends on it alone, so that neither the order
    of the file nor a column's unit matters.

    Raises:
        ValueError: ``test_size`` outside [0, 1), or not one training row left.
    """
    if not 0.0 <= test_size < 1.0:
        raise ValueError(f"test_size={test_size} must be at least 0 and below 1: the share of rows held back")
    n = len(table.labels)
    n_test = max(1, round(test_size * n)) if test_size > 0.0 else 0
    drawn = _order_by_value(table)[np.random.default_rng([seed, 3]).permutation(n)]
    return drawn[n_test:], drawn[:n_test]


def _order_by_value(table: Table) -> Int[np.ndarray, " n"]:
    order = np.argsort(table.labels, kind="stable")
    if (np.diff(table.labels[order]) > 0.0).all():
        return order
    values = table.inputs.assign(**{table.target: table.labels})
    return values.sort_values([table.target, *sorted(table.inputs.columns)], kind="stable").index.to_numpy()


def _without_row_numbers(frame: pd.DataFrame, target: str) -> tuple[pd.DataFrame, list[str]]:
    """Drop a first column that only numbers the rows, whatever order they are in now and even if some are gone."""
    name = frame.columns[0]
    if name == target or not types.is_integer_dtype(frame[name]) or not frame[name].is_unique:
        return frame, []
    counted = np.ptp(frame[name].to_numpy()) == len(frame) - 1
    if name.lower() not in _INDEX_NAMES and not (name.lower() == "index" and counted):
        return frame, []
    return frame.drop(columns=name), [f"Dropped the first column{f' {name}' if name else ''}: it numbers the rows."]


def _typed(frame: pd.DataFrame, target: str, categories: str, dates: str) -> tuple[pd.DataFrame, list[str]]:
    """Every column as numbers, dates or text, without those that are to be dropped."""
    kinds = {name: kind_of(frame[name]) for name in frame.columns}
    if kinds[target] != NUMBER or not_numbers(frame[target]).any():
        what = "holds dates" if kinds[target] == DATE else _text_example(frame[target])
        raise ValueError(f"the target {target!r} {what}: give a column of numbers")
    by_kind = {kind: [name for name in frame.columns if kinds[name] == kind] for kind in (NUMBER, DATE, TEXT)}
    if by_kind[TEXT] and categories == "refuse":
        _refuse(frame, by_kind[TEXT], _text_example, "categories", "onehot", "make a 0/1 column of every level")
    if by_kind[DATE] and dates == "refuse":
        _refuse(frame, by_kind[DATE], lambda _: "holds dates", "dates", "parts", "turn dates into numbers")
    gone = [
        *(by_kind[TEXT] if categories == "drop" else []),
        *(by_kind[DATE] if dates == "drop" else []),
    ]
    notes = [f"Dropped as asked, columns of text or dates: {', '.join(gone)}."] if gone else []
    columns = {}
    for name in (name for name in frame.columns if name not in gone):
        column, kind = frame[name], kinds[name]
        columns[name] = {NUMBER: as_numbers, DATE: as_dates, TEXT: as_texts}[kind](column)
        odd = not_numbers(column) if kind == NUMBER else column.notna().to_numpy() & pd.isna(columns[name])
        if odd.any():
            example = str(column[odd].iloc[0])[:30]
            many = _plural(int(odd.sum()), "cell")
            notes.append(f"{many} of {name} without a {kind} ({example!r}) count as empty.")
    return pd.DataFrame(columns), notes


def _refuse(
    frame: pd.DataFrame, names: list[str], example: Callable[[pd.Series], str], option: str, choice: str, remedy: str
) -> NoReturn:
    others = f" (also {', '.join(map(repr, names[1:]))})" if names[1:] else ""
    raise ValueError(
        f"column {names[0]!r} {example(frame[names[0]])}{others}: add --{option} {choice} to {remedy}, or "
        f"--{option} drop to leave it out"
    )


def _text_example(column: pd.Series) -> str:
    """Which text; where most cells are numbers, the ones that are not."""
    filled, odd = int(column.notna().sum()), column[not_numbers(column)]
    example = repr(str((odd if len(odd) else column.dropna()).iloc[0])[:30])
    if 0 < len(odd) < 0.5 * filled:
        return f"holds text in {len(odd)} of {len(column)} rows, e.g. {example} (leave cells without a value empty)"
    return f"holds text, e.g. {example}"


def _without_gaps(frame: pd.DataFrame, target: str, missing: str) -> tuple[pd.DataFrame, list[str]]:
    gaps = frame.isna()
    counts = {name: int(count) for name, count in gaps.sum().items() if count}
    if not counts:
        return frame, []
    listed = ", ".join(f"{name} ({count})" for name, count in counts.items())
    if missing == "refuse":
        name, count = next(iter(counts.items()))
        others = f" (all columns with gaps: {listed})" if len(counts) > 1 else ""
        raise ValueError(
            f"column {name!r} holds {_plural(count, 'NaN, infinite or empty cell')}{others}: add --missing drop to "
            "leave those rows out, or --missing impute to fill them in"
        )
    if gaps[target].all():
        raise ValueError(f"the target {target!r} is empty in all {len(frame)} rows: there is nothing to learn from")
    bad = gaps.any(axis=1) if missing == "drop" else gaps[target]
    why = f"with NaN, infinite or empty cells: {listed}" if missing == "drop" else f"without a value of {target}"
    return frame[~bad], [f"Dropped {_plural(int(bad.sum()), 'row')} {why}."] if bad.any() else []


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _check_shape(inputs: pd.DataFrame, labels: Float[np.ndarray, " n"], target: str) -> None:
    n = len(labels)
    if inputs.shape[1] == 0:
        raise ValueError(f"no input column is left beside {target!r}: nothing to predict it from")
    if n < LEAST_ROWS:
        raise ValueError(f"{_plural(n, 'usable row')}: at least {LEAST_ROWS} are needed to learn from")
    if np.ptp(labels) == 0.0:
        raise ValueError(f"the target {target!r} is {labels[0]:g} in all {n} rows: nothing to predict; choose another")


def _check_sizes(frame: pd.DataFrame) -> None:
    for name in frame.select_dtypes("number").columns:
        size = float(frame[name].abs().max())
        if size > 0.0 and not 1.0 / _LARGEST <= size <= _LARGEST:
            raise ValueError(f"column {name!r} has values of size {size:.0e}, whose squares are no numbers: rescale it")


def _leaks(inputs: pd.DataFrame, labels: Float[np.ndarray, " n"], target: str) -> list[str]:
    found = []
    for name in inputs.columns:
        if not types.is_numeric_dtype(inputs[name]):
            continue
        values = inputs[name].to_numpy()
        both = ~np.isnan(values)
        if both.sum() < LEAST_ROWS or np.ptp(values[both]) == 0.0 or np.ptp(labels[both]) == 0.0:
            continue
        size = np.abs(values[both]).max()
        correlation = np.corrcoef(values[both] / size, labels[both] / np.abs(labels).max())[0, 1]
        if abs(correlation) > _LEAK:
            found.append(
                f"column {name!r} is {target!r} up to scale (correlation {correlation:.5f}): if it is not known before "
                f"{target!r} is, it gives the answer away; leave it out with --leave-out {shlex.quote(name)}"
            )
    return found
