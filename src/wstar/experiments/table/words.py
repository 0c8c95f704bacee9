"""A fit in words: what each direction does to the target, and what the numbers come to."""

from typing import Any

import numpy as np
from jaxtyping import Float

# a turn of the curve smaller than this share of its range is not spoken of
_TURN = 0.12
# ups and downs that make up less than this share of the way are not either
_WIGGLE = 0.25
# a slope below this share of the other end's is flat
_FLAT = 0.1
# slopes at the two ends that differ by less than this share of the larger one are one slope
_EVEN = 0.35
_MOST_COLUMNS = 3
# directions spoken of, and the least share of what all do
_MOST_DIRECTIONS, _LEAST_IMPORTANCE = 3, 0.01
# columns below this share of the weightiest are left out of a name
_LEAST_WEIGHT = 0.25


def made_of(standardised: Float[np.ndarray, " d"], columns: list[str]) -> str:
    """The weightiest columns with the way each pulls: ``temp (+) and wind (−)``."""
    sizes = np.abs(standardised)
    order = [k for k in np.argsort(-sizes, kind="stable")[:_MOST_COLUMNS] if sizes[k] >= _LEAST_WEIGHT * sizes.max()]
    terms = [f"{columns[k]} ({'+' if standardised[k] > 0.0 else '−'})" for k in order]
    return terms[0] if len(terms) == 1 else f"{', '.join(terms[:-1])} and {terms[-1]}"


def shape(t: Float[np.ndarray, " k"], value: Float[np.ndarray, " k"]) -> str:
    """What a curve does from left to right, as in ``"is flat, then rises"``."""
    span, way = float(np.ptp(value)), float(np.abs(np.diff(value)).sum())
    if span == 0.0:
        return "is flat"
    left, right, low, high = float(value[0]), float(value[-1]), float(value.min()), float(value.max())
    if min(left, right) - low > _TURN * span and left + right - 2.0 * low > (1.0 - _WIGGLE) * way:
        return f"falls, then rises: least near {_place(t[value.argmin()])}"
    if high - max(left, right) > _TURN * span and 2.0 * high - left - right > (1.0 - _WIGGLE) * way:
        return f"rises, then falls: greatest near {_place(t[value.argmax()])}"
    if abs(right - left) < (1.0 - _WIGGLE) * way:
        return "goes up and down"
    verb = "rises" if right > left else "falls"
    first, last = _end_slopes(t, value)
    if abs(first - last) < _EVEN * max(abs(first), abs(last)):
        return f"{verb} evenly"
    if abs(first) < abs(last):
        return f"is flat, then {verb}" if abs(first) < _FLAT * abs(last) else f"{verb}, ever more steeply"
    return f"{verb}, then is flat" if abs(last) < _FLAT * abs(first) else f"{verb}, ever less steeply"


def _place(t: float) -> str:
    return f"{round(float(t), 1) + 0.0:g}"


def _end_slopes(t: Float[np.ndarray, " k"], value: Float[np.ndarray, " k"]) -> tuple[float, float]:
    """Mean slopes over the first and the last third of the way."""
    a, b = t[0] + (t[-1] - t[0]) / 3.0, t[-1] - (t[-1] - t[0]) / 3.0
    at = np.interp([a, b], t, value)
    return float((at[0] - value[0]) / (a - t[0])), float((value[-1] - at[1]) / (t[-1] - b))


def summarise(result: dict[str, Any]) -> list[str]:
    """The result as sentences, most important first."""
    return [_accuracy(result), *_directions(result), _support(result), *result["diagnosis"]["sentences"]]


def _accuracy(result: dict[str, Any]) -> str:
    scores = result["scores"]
    rows = "test" if scores["model"]["test"] else "train"
    own, ridge = scores["model"][rows], scores["ridge"][rows]
    where = f"On {result['n_test']:,} rows it has not seen" if rows == "test" else "On the rows it was fitted to"
    rivals = f"ridge regression: {ridge['mae']:.3g}, the mean: {scores['mean'][rows]['mae']:.3g}"
    text = f"{where}, the fit misses {result['target']} by {own['mae']:.3g} on average ({rivals})."
    certain = scores["certainty"]
    if certain:
        text += f" {100 * certain['better_than_ridge']:.0f} % of resamples of these rows prefer it to ridge regression."
    return text


def _directions(result: dict[str, Any]) -> list[str]:
    if not result["directions"]:
        return ["No direction beyond the linear part helps to predict: the fit is linear."]
    return [
        f"Direction {k}, {one['made_of']}: along it, {result['target']} {one['shape']} (range {one['swing']:.3g} over "
        "the middle nine tenths of the rows)."
        for k, one in enumerate(result["directions"][:_MOST_DIRECTIONS], 1)
        if one["importance"] >= _LEAST_IMPORTANCE
    ]


def _support(result: dict[str, Any]) -> str:
    support = result["support"]
    if not support["neurons"]:
        return f"The rows name no direction beyond a linear part with confidence ({support['rule']})."
    neurons = "1 bend" if support["neurons"] == 1 else f"{support['neurons']} bends"
    directions = "1 direction" if support["directions"] == 1 else f"{support['directions']} directions"
    text = f"The rows support {neurons} in {directions} ({support['rule']})."
    if len(result["directions"]) > support["directions"]:
        text += (
            " The model has more because it predicts held-out rows better with them: they describe, and prove little."
        )
    return text
