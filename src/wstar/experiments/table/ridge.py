"""What a fitted model says about a table: a few ridge functions ``φ_k(g_k·x)`` and a linear part."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from wstar.estimator.bands import Resamples
from wstar.experiments.table.index_model import IndexModel

# neurons whose projections are correlated like directions at most this far apart (radians) are one ridge function
MERGE_ANGLE = 0.2
LEVEL = 0.9
_N_GRID = 61
_MOST_POINTS = 2000
# a neuron is turned where that takes away at least this share of the linear part
_WORTH_TURNING = 1e-3


@dataclass(frozen=True, eq=False)
class Bends:
    """``intercept + linear·x + Σ_k m_k (|t_k| + s_k t_k)``, ``t_k = g_k·x + b_k``, with kinks among the rows.

    Attributes:
        places: which neurons of the model these are.
        masses, directions, thresholds: m, g, b; projections ``g_k·x`` have mean 0 and standard deviation 1.
        sides: s: 0 for a V, ±1 for a hinge that is flat on one side.
    """

    places: Int[np.ndarray, " m"]
    masses: Float[np.ndarray, " m"]
    directions: Float[np.ndarray, "m d"]
    thresholds: Float[np.ndarray, " m"]
    sides: Float[np.ndarray, " m"]
    linear: Float[np.ndarray, " d"]
    intercept: float

    def only(self, members: Int[np.ndarray, " k"]) -> "Bends":
        """Some of the neurons."""
        names = ("places", "masses", "directions", "thresholds", "sides")
        return replace(self, **{name: getattr(self, name)[members] for name in names})

    def responses(self, projections: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """``m_k (|t_k| + s_k t_k)`` for ``g_k·x``."""
        pre = projections + self.thresholds
        return self.masses * (np.abs(pre) + self.sides * pre)


@dataclass(frozen=True, eq=False)
class Ridge:
    """Neurons in line as one function of ``t = weights·x``; ``cosines`` are their correlations with t."""

    bends: Bends
    weights: Float[np.ndarray, " d"]
    cosines: Float[np.ndarray, " m"]

    @classmethod
    def of(cls, bends: Bends, X: Float[np.ndarray, "n d"]) -> "Ridge":
        """The mean direction, turned so that its weightiest column (in standard deviations) pulls upwards."""
        projections = X @ bends.directions.T
        signs = np.where(projections.T @ projections[:, 0] >= 0.0, 1.0, -1.0)
        weights = (np.abs(bends.masses) * signs) @ bends.directions
        weights /= (X @ weights).std()
        standard = weights * X.std(axis=0)
        weights *= np.sign(standard[np.abs(standard).argmax()])
        return cls(bends, weights, projections.T @ (X @ weights) / len(X))

    def curve(self, t: Float[np.ndarray, " t"]) -> Float[np.ndarray, " t"]:
        """``φ(t)``."""
        return self.bends.responses(t[:, None] * self.cosines).sum(axis=1)

    def moved(self, masses: Float[np.ndarray, " m"], thresholds: Float[np.ndarray, " m"]) -> "Ridge":
        """With other masses and thresholds."""
        return replace(self, bends=replace(self.bends, masses=masses, thresholds=thresholds))


def ridge_functions(
    model: IndexModel,
    X: Float[np.ndarray, "n d"],
    labels: Float[np.ndarray, " n"],
    resamples: Resamples | None = None,
    shrunk: float = 1.0,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Directions (most important first) and linear part of ``model``, a network on *centred* columns.

    A neuron that is linear over all rows joins the linear part. A V and a linear part can be a hinge:
    ``|t| = 2 max(t, 0) − t``; neurons are turned into hinges where that makes the linear part smaller. Neurons whose
    projections are correlated to 0.98 or more are one ridge function of their mean direction. Curves have mean zero
    over the rows; the intercept holds the means. ``intercept + linear·x + Σ_k φ_k`` is the prediction, up to the
    merging.

    Bands hold 0.9 of the curves of ``resamples`` (each of mean zero too) at every point; ``shrunk`` < 1 draws them in
    where resamples were of a part of the rows only. Stability is the size of the correlation with the nearest
    direction of each resample.

    Returns:
        For every direction its mass ``Σ m_k``, importance (its standard deviation over the rows, as share of all),
        weights per unit of a column, curve (t, value, and low, high of the band) with all its kinks, points (t, value):
        curve plus the residual of at most 2,000 rows; and the linear part, intercept and weights.
    """
    bends = _turned(_kinked(model.without_relu(), X), X)
    projections = X @ bends.directions.T
    responses = bends.responses(projections)
    residual = labels - model(X)
    found, intercept = [], bends.intercept
    for members in _groups(projections, responses):
        total = responses[:, members].sum(axis=1)
        intercept += float(total.mean())
        ridge = Ridge.of(bends.only(members), X)
        one = _as_lists(ridge, X, total, residual)
        if resamples is not None:
            one |= _bands(ridge, one["curve"], X, resamples, shrunk)
        found.append(one)
    whole = sum(one["spread"] for one in found)
    for one in found:
        one["importance"] = one["spread"] / whole if whole > 0.0 else 0.0
    found.sort(key=lambda one: -one["importance"])
    return found, {"intercept": intercept, "weights": bends.linear.tolist()}


def _kinked(model: IndexModel, X: Float[np.ndarray, "n d"]) -> Bends:
    pre = X @ model.directions.T + model.thresholds
    above, below = (pre >= 0.0).all(axis=0), (pre <= 0.0).all(axis=0)
    kept = ~(above | below)
    flat = np.where(above, model.masses, -model.masses)[~kept]
    return Bends(
        np.flatnonzero(kept),
        model.masses[kept],
        model.directions[kept],
        model.thresholds[kept],
        np.zeros(int(kept.sum())),
        model.linear + flat @ model.directions[~kept],
        model.intercept + float(flat @ model.thresholds[~kept]),
    )


def _turned(bends: Bends, X: Float[np.ndarray, "n d"]) -> Bends:
    """Each neuron a V or a hinge, whichever leaves the least linear part (as standard deviation over the rows)."""
    covariance = X.T @ X / len(X)
    linear, sides, intercept = bends.linear, bends.sides.copy(), bends.intercept
    for _ in range(5 * len(sides)):
        steps = [(k, side - sides[k]) for k in range(len(sides)) for side in (-1.0, 0.0, 1.0) if side != sides[k]]
        rests = np.array([linear - step * bends.masses[k] * bends.directions[k] for k, step in steps])
        sizes = np.einsum("ij,jk,ik->i", rests, covariance, rests)
        best = int(sizes.argmin())
        if sizes[best] >= (1.0 - _WORTH_TURNING) * (linear @ covariance @ linear):
            break
        k, step = steps[best]
        linear, intercept = rests[best], intercept - float(step * bends.masses[k] * bends.thresholds[k])
        sides[k] += step
    return replace(bends, sides=sides, linear=linear, intercept=intercept)


def _groups(projections: Float[np.ndarray, "n m"], responses: Float[np.ndarray, "n m"]) -> list[np.ndarray]:
    """Places of neurons in line with the most important one that is left, modulo sign; that one first."""
    left, groups = np.argsort(-responses.std(axis=0), kind="stable"), []
    unit = projections / np.linalg.norm(projections, axis=0)
    while left.size:
        near = np.abs(unit[:, left].T @ unit[:, left[0]]) >= np.cos(MERGE_ANGLE)
        near[0] = True
        groups.append(left[near])
        left = left[~near]
    return groups


def _as_lists(
    ridge: Ridge, X: Float[np.ndarray, "n d"], total: Float[np.ndarray, " n"], residual: Float[np.ndarray, " n"]
) -> dict[str, Any]:
    """One ridge function; ``spread`` is its standard deviation over the rows."""
    t = X @ ridge.weights
    knots = -ridge.bends.thresholds / ridge.cosines
    inside = knots[(knots > t.min()) & (knots < t.max())]
    grid = np.union1d(np.linspace(t.min(), t.max(), _N_GRID), inside)
    shown = np.unique(np.linspace(0, len(X) - 1, min(len(X), _MOST_POINTS)).astype(int))
    return {
        "mass": float(ridge.bends.masses.sum()),
        "n_neurons": len(ridge.cosines),
        "spread": float(total.std()),
        "weights": ridge.weights.tolist(),
        "curve": {"t": grid.tolist(), "value": (ridge.curve(grid) - total.mean()).tolist()},
        "points": {"t": t[shown].tolist(), "value": (total + residual - total.mean())[shown].tolist()},
    }


def _bands(
    ridge: Ridge, curve: dict[str, Any], X: Float[np.ndarray, "n d"], resamples: Resamples, shrunk: float
) -> dict[str, Any]:
    grid, rows = np.array(curve["t"]), X[:: max(1, len(X) // _MOST_POINTS)] @ ridge.weights
    places = ridge.bends.places
    masses = resamples.masses[:, places] * (0.5 if resamples.relu else 1.0)
    drawn = [ridge.moved(*pair) for pair in zip(masses, resamples.thresholds[:, places], strict=True)]
    curves = np.array([one.curve(grid) - one.curve(rows).mean() for one in drawn])
    low, high = np.quantile(curves, [0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL], axis=0)
    if shrunk < 1.0:
        value, middle = np.array(curve["value"]), np.median(curves, axis=0)
        low, high = value + shrunk * (low - middle), value + shrunk * (high - middle)
    steady = resamples.cosines[:, places[0]]
    return {
        "curve": curve | {"low": low.tolist(), "high": high.tolist()},
        "stability": {"median": float(np.median(steady)), "low": float(np.quantile(steady, 0.1))},
    }
