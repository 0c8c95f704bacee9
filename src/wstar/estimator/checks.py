"""What comes in is looked at before any work: rows, labels, weights, settings, random states."""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, validate_data

from wstar.estimator.fitting import Plan
from wstar.estimator.inputs import nine_digits
from wstar.estimator.ladder import Ladder

_LEAK = 1.0 - 1e-9
# rows that are enough to see that a column is the labels
_LEAK_ROWS = 10_000


def checked_plan(model: Any, ladder: Ladder) -> Plan:
    """The settings of a regressor's path, with the powers of its columns.

    Raises:
        ValueError: one out of its range.
    """
    for name in ("n_steps", "patience"):
        value = getattr(model, name)
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise ValueError(f"{name}={value!r} must be a whole number of at least 1")
    for name, low, high in (("ratio", 0.0, 1.0), ("shrinkage", 0.0, np.inf), ("threshold_scale", 0.0, np.inf)):
        value = getattr(model, name)
        inside = isinstance(value, int | float | np.number) and low <= value < high
        if not inside or (name != "shrinkage" and value == 0.0):
            raise ValueError(f"{name}={value!r} must be a finite number from {low:g} to {high:g}")
    if not (isinstance(model.guard, int | float | np.number) and model.guard >= 0.0):
        raise ValueError(f"guard={model.guard!r} must be at least 0: ranges that a column may leave its own by")
    if not (model.powers is None or (isinstance(model.powers, str) and model.powers == "auto")):
        raise ValueError(f"powers={model.powers!r} must be 'auto' (skewed columns may enter by a power) or None")
    return Plan(
        int(model.n_steps),
        float(model.ratio),
        float(model.shrinkage),
        float(model.threshold_scale),
        float(model.guard),
        ladder,
    )


def checked_columns(model: BaseEstimator, X: Any) -> Float[np.ndarray, "n d"]:
    """Rows to predict; float32 stays what it is, block by block it is computed with as float64."""
    return np.asarray(validate_data(model, X, dtype=(np.float64, np.float32), reset=False))


def checked_rows(model: BaseEstimator, X: Any, y: Any, sample_weight: Any) -> tuple[np.ndarray, ...]:
    """Rows, labels and counts to fit to; X is the caller's own array where it can be."""
    X, y = (np.asarray(part) for part in validate_data(model, X, y, dtype=(np.float64, np.float32), y_numeric=True))
    y = y.astype(np.float64)
    counts = np.ones(len(y))
    if sample_weight is not None:
        counts = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not counts.sum() > 0.0:
            raise ValueError("sample_weight is zero for every row: give at least one row a positive weight")
    return X, y, counts


def positive_counts(X: np.ndarray, y: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Without the rows of weight zero."""
    if counts.all():
        return X, y, counts
    kept = counts > 0.0
    return X[kept], y[kept], counts[kept]


def standardised_labels(
    y: Float[np.ndarray, " n"], counts: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], float, float]:
    """``(y − centre)/scale``, centre and scale; scale 0 where labels are constant."""
    size = float(np.abs(y).max())
    if size == 0.0:
        return y, 0.0, 0.0
    shares, unit = counts / counts.sum(), y / size
    centre = float(shares @ unit)
    spread = float(np.sqrt(shares @ (unit - centre) ** 2))
    if spread <= 1e-13:
        return y, float(y[0]), 0.0
    return nine_digits((unit - centre) / spread), size * centre, size * spread


def warn_of_leaks(
    X: Float[np.ndarray, "n d"], labels: Float[np.ndarray, " n"], counts: Float[np.ndarray, " n"], names: Any
) -> None:
    """A warning where a column is the target up to scale, on (evenly spaced) 10,000 rows."""
    if len(labels) < 4:
        return
    rows = slice(None, None, max(1, len(X) // _LEAK_ROWS))
    part, shares = np.asarray(X[rows], dtype=float), counts[rows] / counts[rows].sum()
    # columns at size one before they are squared
    part = part / np.maximum(np.abs(part).max(axis=0), np.finfo(float).tiny)
    part -= shares @ part
    target = labels[rows] - shares @ labels[rows]
    covariance, spread = (shares * target) @ part, np.sqrt(shares @ part**2)
    own = float(np.sqrt(shares @ target**2))
    leaking = np.flatnonzero(np.abs(covariance) > _LEAK * spread * own * (spread > 1e-9))
    if len(leaking) and own > 0.0:
        which = repr(names[leaking[0]]) if names is not None else str(leaking[0])
        warnings.warn(f"column {which} is y up to scale: it gives the answer away, drop it", stacklevel=5)


def generator(random_state: Any) -> np.random.Generator:
    """A generator of its own for every kind of ``random_state``.

    Raises:
        ValueError: another kind.
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    if random_state is None or isinstance(random_state, int | np.integer):
        return np.random.default_rng(random_state)
    raise ValueError(f"random_state={random_state!r}: give None, a whole number, a RandomState or a Generator")
