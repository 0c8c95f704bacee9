"""Numbers written for people: three digits, powers of ten, a true minus sign, a dash where there is none."""

import math
from collections.abc import Iterable
from html import escape

import numpy as np

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MISSING = "–"


def number(value: float | None, digits: int = 3) -> str:
    """``value`` to ``digits`` significant digits: ``0.0123``, ``12,300``, ``4.9 × 10⁻⁴``; a dash for None and NaN."""
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0.0:
        return "0"
    mantissa, exponent = f"{abs(value):.{digits - 1}e}".split("e")
    power = int(exponent)
    if -3 <= power < 5:
        text = f"{float(f'{mantissa}e{power}'):,.{max(0, digits - 1 - power)}f}"
    else:
        shown = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        text = ("" if shown == "1" else f"{shown}\u00a0×\u00a0") + "10" + str(power).translate(_SUPERSCRIPT)
    return ("−" if value < 0.0 else "") + text


def count(value: int | None) -> str:
    """A whole number with thousands set apart."""
    return MISSING if value is None else f"{value:,}"


def percent(share: float | None, digits: int = 2) -> str:
    """``share`` of one as per cent; what would round to nothing is said to be below 0.01 %."""
    if share is None or math.isnan(share):
        return MISSING
    if 0.0 < abs(share) < 1e-4:
        return "<\u00a00.01\u00a0%"
    return f"{number(100.0 * share, digits)}\u00a0%"


def radians(value: float | None) -> str:
    """An angle in radians, two digits."""
    return MISSING if value is None or math.isnan(value) else f"{number(value, 2)}\u00a0rad"


def degrees(value: float | None) -> str:
    """An angle given in radians, written in degrees."""
    return MISSING if value is None or math.isnan(value) else f"{number(math.degrees(value), 2)}°"


def duration(seconds: float | None) -> str:
    """``0.82 s``, ``41 s``, ``2 min 05 s``, ``1 h 12 min``."""
    if seconds is None or math.isnan(seconds):
        return MISSING
    if seconds < 60.0:
        return f"{number(seconds, 2)}\u00a0s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def plural(n: int, noun: str, many: str | None = None) -> str:
    """``1 direction``, ``4 directions``."""
    return f"{count(n)} {noun if n == 1 else many or noun + 's'}"


def plain(text: str, longest: int = 28) -> str:
    """``text`` for a label inside a figure, where tags would be read as markup; shortened with an ellipsis."""
    return escape(text if len(text) <= longest else text[: longest - 1] + "…", quote=False)


def plotted(values: Iterable[float] | np.ndarray, digits: int = 6) -> list[float | None]:
    """Numbers for a figure: ``digits`` significant digits (a page should stay small), None where not finite."""
    return [float(f"{v:.{digits}g}") if math.isfinite(v) else None for v in np.asarray(values, dtype=float).tolist()]


def thinned(n: int, most: int) -> np.ndarray:
    """At most ``most`` of the indices 0 … n−1, evenly spaced, first and last among them."""
    return np.arange(n) if n <= most else np.unique(np.linspace(0, n - 1, most).round().astype(int))
