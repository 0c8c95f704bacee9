"""What a column of a table holds: numbers, dates or text, decided on its cells, whatever kind of file it came from."""

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from pandas.api import types

NUMBER, DATE, TEXT = "number", "date", "text"
# a column is of numbers (or dates) where at least this share of the cells that are filled are; the others are gaps
SHARE = 0.9
_ISO_DATE = r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"


def kind_of(column: pd.Series) -> str:
    """``"number"``, ``"date"`` or ``"text"``.

    Booleans and time spans are numbers, and so is text that reads as numbers. Dates are dates, and so is text in ISO
    form (2024-05-31, 2024-05-31 14:30). A column without any filled cell is of numbers.
    """
    if _is_plain_number(column) or types.is_timedelta64_dtype(column):
        return NUMBER
    if types.is_datetime64_any_dtype(column):
        return DATE
    if not column.notna().any():
        return NUMBER
    enough = SHARE * int(column.notna().sum())
    if column.notna().sum() - not_numbers(column).sum() >= enough:
        return NUMBER
    return DATE if (~np.isnat(as_dates(column))).sum() >= enough else TEXT


def as_numbers(column: pd.Series) -> Float[np.ndarray, " n"]:
    """The cells as numbers, time spans in days; NaN where a cell holds no finite number."""
    if types.is_timedelta64_dtype(column):
        values = (column / pd.Timedelta(days=1)).to_numpy(dtype=float, na_value=np.nan)
    elif _is_plain_number(column):
        values = column.to_numpy(dtype=float, na_value=np.nan)
    else:
        values = pd.to_numeric(_objects(column), errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    return np.where(np.isfinite(values), values, np.nan)


def as_dates(column: pd.Series) -> np.ndarray:
    """The cells as times of day and date without a zone (``datetime64[s]``), those with a zone in UTC; else NaT."""
    if types.is_datetime64_any_dtype(column):
        zoned = pd.to_datetime(column, utc=True)
    else:
        text = _objects(column).astype("string").str.strip()
        iso = text.where(text.str.fullmatch(_ISO_DATE).fillna(False).astype(bool))
        zoned = pd.to_datetime(iso, errors="coerce", utc=True, format="ISO8601")
    return zoned.dt.tz_localize(None).to_numpy().astype("datetime64[s]")


def as_texts(column: pd.Series) -> np.ndarray:
    """The cells as text, an object array; None for a gap."""
    gaps = column.isna().to_numpy()
    # whole numbers among gaps are read as 1.0 where they would be 1
    if types.is_float_dtype(column) and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")
    values = _objects(column).astype(str).str.strip().to_numpy(dtype=object)
    values[gaps] = None
    return values


def not_numbers(column: pd.Series) -> Bool[np.ndarray, " n"]:
    """Which cells are filled with what is no number."""
    if _is_plain_number(column) or types.is_timedelta64_dtype(column):
        return np.zeros(len(column), dtype=bool)
    infinite = pd.to_numeric(_objects(column), errors="coerce").isin([np.inf, -np.inf]).to_numpy()
    return column.notna().to_numpy() & np.isnan(as_numbers(column)) & ~infinite


def _is_plain_number(column: pd.Series) -> bool:
    return bool(types.is_numeric_dtype(column) and not types.is_complex_dtype(column))


def _objects(column: pd.Series) -> pd.Series:
    """Cells one by one, of a categorical column its categories; complex numbers as text."""
    return (column.astype(str) if types.is_complex_dtype(column) else column).astype(object)
