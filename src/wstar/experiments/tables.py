"""Tables from disk: a CSV or Parquet file read and checked, before anything is computed from it."""

import csv
import warnings
from collections import Counter
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from pandas.api import types

MISSING = ("refuse", "drop", "mean")
CATEGORIES = ("refuse", "onehot", "drop")
_DELIMITERS = ",;\t"
_INDEX_NAMES = ("", "index", "rownames", "row.names")
# correlation with the target that no measured quantity has by itself
_LEAK = 1.0 - 1e-9


@dataclass(frozen=True, eq=False)
class Table:
    """A checked table: numeric target without gaps, inputs as they were read (gaps and text only where asked for).

    Attributes:
        name: file name without its folder.
        target: name of the target column.
        inputs: the other columns, numeric (float64) or text.
        labels: the target, (n,).
        notes: what was done to the table, as sentences.
    """

    name: str
    target: str
    inputs: pd.DataFrame
    labels: Float[np.ndarray, " n"]
    notes: tuple[str, ...]


def read_table(path: str | Path, target: str, *, missing: str = "refuse", categories: str = "refuse") -> Table:
    """The table at ``path`` (.csv, .parquet) with ``target`` set apart.

    ``missing`` says what becomes of NaN and infinite cells: "refuse" them, "drop" their rows, or "mean" (they are
    filled in later, from training rows; rows without a target are dropped). ``categories`` does so for text columns:
    "refuse", "onehot" (encoded later) or "drop" the column.

    Raises:
        ValueError: one line that names the file, column and count and says what to change: no such file, another
            extension, unreadable, repeated or missing column names, a target that is missing, text or constant, gaps
            or text where they are refused, no or one row, fewer rows than columns + 2, no input column.

    Warns:
        UserWarning: an input column is the target in disguise (correlation ±1).
    """
    _check_choice("missing", missing, MISSING)
    _check_choice("categories", categories, CATEGORIES)
    path = Path(path)
    frame = _read(path)
    _check_target(frame, target, path.name)
    if len(frame) < 2:
        many = "no rows" if frame.empty else "one row"
        raise ValueError(f"{path.name} has {many}: at least input columns + 2 = {len(frame.columns) + 1} are needed")
    frame, notes = _without_row_numbers(frame, target)
    frame, dropped = _without_text(frame, target, categories)
    frame = _as_numbers(frame)
    frame, filled = _without_gaps(frame, target, missing)
    labels = frame.pop(target).to_numpy(dtype=float)
    notes = [f"{path.name} has {len(labels)} usable rows; {target} is the target.", *notes, *dropped, *filled]
    _check_shape(frame, labels, target)
    _warn_of_leaks(frame, labels, target)
    return Table(path.name, target, frame, labels, tuple(notes))


def split_rows(n: int, test_size: float, seed: int) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " test"]]:
    """Indices of training and test rows, each in ascending order; ``round(test_size·n)`` rows, drawn with ``seed``.

    Raises:
        ValueError: ``test_size`` outside [0, 1).
    """
    if not 0.0 <= test_size < 1.0:
        raise ValueError(f"test_size={test_size} must be at least 0 and below 1: the share of rows held back")
    n_test = max(1, round(test_size * n)) if test_size > 0.0 else 0
    order = np.random.default_rng([seed, 3]).permutation(n)
    return np.sort(order[n_test:]), np.sort(order[:n_test])


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name}={value!r}: choose one of {', '.join(map(repr, choices))}")


def _read(path: Path) -> pd.DataFrame:
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise ValueError(f"{path}: tables are read from .csv and .parquet files; save it as one of these")
    if not path.is_file():
        raise ValueError(f"{path} does not exist or is not a file: check the path of the table")
    try:
        frame = _read_csv(path) if suffix == ".csv" else _read_parquet(path)
    except pd.errors.ParserWarning:
        raise ValueError(f"{path.name}: its rows have more fields than its first line has names: name all") from None
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()
        raise ValueError(f"{path.name} cannot be read: {first[0] if first else type(error).__name__}") from None
    repeated = [str(name) for name, count in Counter(frame.columns).items() if count > 1]
    if repeated:
        raise ValueError(f"{path.name} has more than one column named {repeated[0]!r}: rename all but one")
    return frame


def _read_csv(path: Path) -> pd.DataFrame:
    with path.open(encoding="utf-8-sig", newline="") as file:
        first = file.readline()
        if not first.strip():
            raise ValueError("it is empty, or its first line is: the first line must name the columns")
        delimiter = max(_DELIMITERS, key=first.count)
        file.seek(0)
        names = next(csv.reader(file, delimiter=delimiter))
    # numbers for names: pandas would quietly rename repeated columns, and drop fields beyond the named ones
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        frame = pd.read_csv(
            path, header=0, names=range(len(names)), sep=delimiter, index_col=False, encoding="utf-8-sig"
        )
    frame.columns = pd.Index([name.strip() for name in names])
    return frame


def _read_parquet(path: Path) -> pd.DataFrame:
    frame = pd.read_parquet(path)
    frame.columns = pd.Index([str(name) for name in frame.columns])
    return frame.reset_index(drop=True)


def _check_target(frame: pd.DataFrame, target: str, name: str) -> None:
    if target in frame.columns:
        return
    near = get_close_matches(target, frame.columns, n=1, cutoff=0.4)
    known = ", ".join(frame.columns[:8]) + (", …" if len(frame.columns) > 8 else "")
    hint = f"did you mean {near[0]!r}?" if near else f"it has {known}"
    raise ValueError(f"{name} has no column {target!r}; {hint}")


def _without_row_numbers(frame: pd.DataFrame, target: str) -> tuple[pd.DataFrame, list[str]]:
    """Drop a first column that only counts the rows, as R and pandas write it."""
    name = frame.columns[0]
    if name == target or name.lower() not in _INDEX_NAMES or not types.is_integer_dtype(frame[name]):
        return frame, []
    values = frame[name].to_numpy()
    if not np.array_equal(values - values[0], np.arange(len(values))):
        return frame, []
    return frame.drop(columns=name), [f"Dropped the first column{f' {name}' if name else ''}: it numbers the rows."]


def _without_text(frame: pd.DataFrame, target: str, categories: str) -> tuple[pd.DataFrame, list[str]]:
    text = [name for name in frame.columns if _is_text(frame[name])]
    if target in text:
        raise ValueError(f"the target {target!r} {_text_example(frame[target])}: give a column of numbers")
    dates = [name for name in frame.columns if types.is_datetime64_any_dtype(frame[name])]
    if dates:
        raise ValueError(f"column {dates[0]!r} holds dates: turn it into numbers (days, years) or remove it")
    if text and categories == "refuse":
        others = f" (text also in {', '.join(map(repr, text[1:]))})" if text[1:] else ""
        raise ValueError(
            f"column {text[0]!r} {_text_example(frame[text[0]])}{others}: add --categories onehot to make "
            "a 0/1 column of every level, or --categories drop to leave text out"
        )
    if text and categories == "drop":
        return frame.drop(columns=text), [f"Dropped text columns: {', '.join(text)}."]
    return frame, []


def _is_text(column: pd.Series) -> bool:
    if types.is_datetime64_any_dtype(column) or types.is_bool_dtype(column):
        return False
    return not types.is_numeric_dtype(column) or types.is_complex_dtype(column)


def _text_example(column: pd.Series) -> str:
    """Which text; where most cells are numbers, the ones that are not."""
    present = column.dropna()
    odd = present[pd.to_numeric(present, errors="coerce").isna()]
    example = repr(str((odd if len(odd) else present).iloc[0])[:30]) if len(present) else "nothing"
    if 0 < len(odd) < 0.5 * len(present):
        return f"holds text in {len(odd)} of {len(column)} rows, e.g. {example} (leave cells without a value empty)"
    return f"holds text, e.g. {example}"


def _as_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Numeric columns in float64 with NaN for every cell that is not finite; text columns as objects."""
    columns = {}
    for name in frame.columns:
        column = frame[name]
        if _is_text(column):
            columns[name] = column.astype(object).where(column.notna(), None)
        else:
            values = column.to_numpy(dtype=float, na_value=np.nan)
            columns[name] = np.where(np.isfinite(values), values, np.nan)
    return pd.DataFrame(columns)


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
            "leave those rows out, or --missing mean to fill in the mean"
        )
    bad = gaps.any(axis=1) if missing == "drop" else gaps[target]
    why = f"with NaN, infinite or empty cells: {listed}" if missing == "drop" else f"without a value of {target}"
    notes = [f"Dropped {_plural(int(bad.sum()), 'row')} {why}."] if bad.any() else []
    return frame[~bad].reset_index(drop=True), notes


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _check_shape(inputs: pd.DataFrame, labels: Float[np.ndarray, " n"], target: str) -> None:
    n, d = inputs.shape[0], inputs.shape[1]
    if d == 0:
        raise ValueError(f"no input column is left beside {target!r}: nothing to predict it from")
    if n < d + 2:
        raise ValueError(f"{n} usable rows for {d} columns: at least columns + 2 = {d + 2} are needed; drop columns")
    if np.ptp(labels) == 0.0:
        raise ValueError(f"the target {target!r} is {labels[0]:g} in all {n} rows: nothing to predict; choose another")


def _warn_of_leaks(inputs: pd.DataFrame, labels: Float[np.ndarray, " n"], target: str) -> None:
    for name in inputs.columns:
        column = inputs[name]
        if not types.is_numeric_dtype(column) or column.isna().any() or np.ptp(column) == 0.0:
            continue
        if abs(np.corrcoef(column.to_numpy(), labels)[0, 1]) > _LEAK:
            warnings.warn(f"column {name!r} is {target!r} up to scale: it gives the answer away, drop it", stacklevel=3)
