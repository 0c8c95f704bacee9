"""A file's columns as they are, or one line that says why they cannot be had."""

import csv
import warnings
from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

import pandas as pd

_DELIMITERS = ",;\t"


def read_frame(path: Path) -> pd.DataFrame:
    """The file's columns as they were read.

    Raises:
        ValueError: no such file, another extension, unreadable, repeated column names.
    """
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


def require(frame: pd.DataFrame, names: Iterable[str], file: str) -> None:
    """Check that the columns ``names`` are there.

    Raises:
        ValueError: one is not; names the nearest one.
    """
    for name in names:
        if name not in frame.columns:
            near = get_close_matches(name, frame.columns, n=1, cutoff=0.4)
            known = ", ".join(frame.columns[:8]) + (", …" if len(frame.columns) > 8 else "")
            raise ValueError(
                f"{file} has no column {name!r}; {f'did you mean {near[0]!r}?' if near else f'it has {known}'}"
            )


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
            path,
            header=0,
            names=range(len(names)),
            sep=delimiter,
            index_col=False,
            encoding="utf-8-sig",
            low_memory=False,
        )
    frame.columns = pd.Index([name.strip() for name in names])
    return frame


def _read_parquet(path: Path) -> pd.DataFrame:
    frame = pd.read_parquet(path)
    frame.columns = pd.Index([str(name) for name in frame.columns])
    return frame.reset_index(drop=True)
