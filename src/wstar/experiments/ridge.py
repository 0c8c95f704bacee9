"""What a trained network says about a table: a few ridge functions ``φ_k(g_k·z)`` and a linear part."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from wstar.kernels.activations import HomogeneousActivation
from wstar.networks.student import Student

# neurons whose directions agree to this angle, modulo sign, are one ridge function
MERGE_ANGLE = 0.2
_N_GRID = 41
_MOST_POINTS = 2000
# neurons lighter than this share of the heaviest are dying ones; they are left out
_DEAD_SHARE = 1e-3


@dataclass(frozen=True, eq=False)
class Ridges:
    """``Σ_i m_i σ(u_i·z + b_i) + intercept + linear·z`` with unit u_i: neurons with a kink among the rows."""

    masses: Float[np.ndarray, " m"]
    directions: Float[np.ndarray, "m d"]
    thresholds: Float[np.ndarray, " m"]
    intercept: float
    linear: Float[np.ndarray, " d"]
    activation: HomogeneousActivation

    def responses(self, z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n m"]:
        """``m_i σ(u_i·z + b_i)``."""
        return self.masses * self.activation(z @ self.directions.T + self.thresholds)

    def without(self, gone: Bool[np.ndarray, " m"], slopes: Float[np.ndarray, " m"]) -> "Ridges":
        """Neurons ``gone`` replaced by ``slopes·(u·z + b)``."""
        weights = np.where(gone, self.masses * slopes, 0.0)
        return Ridges(
            self.masses[~gone],
            self.directions[~gone],
            self.thresholds[~gone],
            self.intercept + float(weights @ self.thresholds),
            self.linear + weights @ self.directions,
            self.activation,
        )


def ridge_functions(
    student: Student, z: Float[np.ndarray, "n d"], labels: Float[np.ndarray, " n"]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Directions (most important first) and linear part of ``student``, a network on inputs ``(z, 1)``.

    A neuron that is linear over all rows joins the linear part, one lighter than a thousandth of the heaviest is
    left out, the others are turned so that the linear part is small
    (``σ(x) = σ(−x) + x`` for ReLU: the data cannot tell) and merged where their angle is at most 0.2 rad. Curves have
    mean zero over the rows; the intercept holds the means. ``intercept + linear·z + Σ_k φ_k`` is the prediction, up
    to the merging.

    Returns:
        For every direction its mass Σ m_i, importance (its standard deviation over the rows, as share of all), unit
        weights, curve (t, value) with all its kinks, points (t, value): curve plus the residual of at most 2,000 rows;
        and the linear part, intercept and weights.
    """
    ridges = _turned(_kinked(_from_student(student), z))
    residual = labels - student(np.column_stack([z, np.ones(len(z))]))
    responses = ridges.responses(z)
    found, intercept = [], ridges.intercept
    for members in _groups(ridges):
        total = responses[:, members].sum(axis=1)
        intercept += float(total.mean())
        found.append(_ridge(ridges, members, z, total, residual))
    whole = sum(one["importance"] for one in found)
    for one in found:
        one["importance"] /= whole if whole > 0.0 else 1.0
    found.sort(key=lambda one: -one["importance"])
    return found, {"intercept": intercept, "weights": ridges.linear.tolist()}


def _from_student(student: Student) -> Ridges:
    slopes, shifts = student.weights[:, :-1], student.weights[:, -1]
    norms = np.linalg.norm(slopes, axis=1)
    flat = norms == 0.0
    constant = float(student.outputs[flat] @ student.activation(shifts[flat]))
    masses = np.abs(student.outputs) * norms
    living = ~flat & (masses > _DEAD_SHARE * masses.max())
    norms = norms[living]
    return Ridges(
        student.outputs[living] * norms,
        slopes[living] / norms[:, None],
        shifts[living] / norms,
        student.bias + float(student.linear[-1]) + constant,
        student.linear[:-1].copy(),
        student.activation,
    )


def _kinked(ridges: Ridges, z: Float[np.ndarray, "n d"]) -> Ridges:
    inside = z @ ridges.directions.T + ridges.thresholds
    above, below = (inside >= 0.0).all(axis=0), (inside <= 0.0).all(axis=0)
    slopes = np.where(above, ridges.activation.positive, -ridges.activation.negative)
    return ridges.without(above | below, slopes)


def _turned(ridges: Ridges) -> Ridges:
    """Turn neurons over, heaviest first, while that makes the linear part smaller."""
    odd, heaviest_first = 2.0 * ridges.activation.odd, np.argsort(-np.abs(ridges.masses), kind="stable")
    directions, thresholds = ridges.directions.copy(), ridges.thresholds.copy()
    intercept, linear = ridges.intercept, ridges.linear.copy()
    turned = True
    while turned:
        turned = False
        for i in heaviest_first:
            gain = odd * ridges.masses[i] * directions[i]
            # by a margin, so that rounding cannot turn a neuron back and forth
            if np.linalg.norm(linear + gain) < (1.0 - 1e-9) * np.linalg.norm(linear):
                linear, intercept = linear + gain, intercept + odd * ridges.masses[i] * thresholds[i]
                directions[i], thresholds[i] = -directions[i], -thresholds[i]
                turned = True
    return replace(ridges, directions=directions, thresholds=thresholds, intercept=float(intercept), linear=linear)


def _groups(ridges: Ridges) -> list[np.ndarray]:
    """Indices of neurons within ``MERGE_ANGLE`` of the heaviest that is left, modulo sign."""
    left, groups = np.argsort(-np.abs(ridges.masses), kind="stable"), []
    while left.size:
        near = np.abs(ridges.directions[left] @ ridges.directions[left[0]]) >= np.cos(MERGE_ANGLE)
        near[0] = True
        groups.append(left[near])
        left = left[~near]
    return groups


def _ridge(
    ridges: Ridges,
    members: np.ndarray,
    z: Float[np.ndarray, "n d"],
    total: Float[np.ndarray, " n"],
    residual: Float[np.ndarray, " n"],
) -> dict[str, Any]:
    """One group as plain lists; ``importance`` is still a standard deviation."""
    masses, directions, thresholds = ridges.masses[members], ridges.directions[members], ridges.thresholds[members]
    signs = np.where(directions @ directions[0] >= 0.0, 1.0, -1.0)
    mean = (np.abs(masses) * signs) @ directions
    mean /= np.linalg.norm(mean)
    mean *= np.sign(mean[np.abs(mean).argmax()])
    cosines, t = directions @ mean, z @ mean
    knots = -thresholds / cosines
    inside = knots[(knots > t.min()) & (knots < t.max())]
    grid = np.union1d(np.linspace(t.min(), t.max(), _N_GRID), inside)
    curve = ridges.activation(grid[:, None] * cosines + thresholds) @ masses
    shown = np.unique(np.linspace(0, len(z) - 1, min(len(z), _MOST_POINTS)).astype(int))
    return {
        "mass": float(masses.sum()),
        "importance": float(total.std()),
        "weights": mean.tolist(),
        "curve": {"t": grid.tolist(), "value": (curve - total.mean()).tolist()},
        "points": {"t": t[shown].tolist(), "value": (total + residual - total.mean())[shown].tolist()},
    }
