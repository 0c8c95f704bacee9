"""Stage 2: masses at fixed directions, ``min_c cᵀGc − 2bᵀc + λ‖c‖₁`` with the affine part at its optimum (ZG §4.2)."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from sklearn.linear_model import lars_path_gram

from wstar.algorithms.nonnegative import nonnegative_masses
from wstar.algorithms.run import Update

# directions closer than this (a chord, modulo sign) are one atom: their features agree to working precision
MERGE_CHORD = 1e-9
# of the largest correlation: a violation of the optimality conditions that rounding explains
_ROUNDING = 1e-13
_PATIENCE, _MOST_JOINING = 10, 20


def merge_directions(directions: Float[np.ndarray, "m d"], chord: float = MERGE_CHORD) -> np.ndarray:
    """For every row the index of the first row equal to it modulo sign, within ``chord``; −1 for zero rows.

    With the affine part fitted, ``u`` and ``−u`` carry the same feature. Rows are compared through a sorted random
    projection and then exactly, so the answer does not depend on a Gram matrix's rounding.
    """
    m, d = directions.shape
    owner = np.arange(m)
    probe = np.random.default_rng(0).standard_normal(d)
    key = np.abs(directions @ probe)
    order = np.argsort(key, kind="stable")
    reach = chord * np.linalg.norm(probe) + 1e-14 * np.linalg.norm(probe)
    for position, i in enumerate(order):
        if not directions[i].any():
            owner[i] = -1
            continue
        for j in order[position + 1 :]:
            if key[j] - key[i] > reach:
                break
            gap = min(np.linalg.norm(directions[i] - directions[j]), np.linalg.norm(directions[i] + directions[j]))
            if gap <= chord and directions[j].any():
                low, high = sorted((owner[i], owner[j]))
                owner[owner == high] = low
    return owner


def lasso_path_end(
    gram: Float[np.ndarray, "m m"], correlation: Float[np.ndarray, " m"], weight_decay: float
) -> Float[np.ndarray, " m"]:
    """Minimiser of ``cᵀGc − 2bᵀc + λ‖c‖₁`` by the LARS path from λ_max = 2‖b‖_∞ down to λ; optimality to rounding.

    On dense sets of nearly equal directions the path can break off early: active sets of fixed signs take it from
    where it stopped to the optimum.
    """
    if weight_decay >= 2.0 * np.abs(correlation).max(initial=0.0):
        return np.zeros(len(correlation))
    # sklearn minimises ½cᵀGc/n − bᵀc/n + α‖c‖₁, which is half of ours at α = λ/2
    _, _, path = lars_path_gram(
        Xy=correlation.copy(), Gram=gram.copy(), n_samples=1, alpha_min=0.5 * weight_decay, method="lasso"
    )
    return _polished(gram, correlation, weight_decay, path[:, -1])


def _polished(
    gram: Float[np.ndarray, "m m"],
    correlation: Float[np.ndarray, " m"],
    weight_decay: float,
    masses: Float[np.ndarray, " m"],
) -> Float[np.ndarray, " m"]:
    """The most violated directions join with the sign they ask for, the masses of all are solved for, until none is."""
    slack = _ROUNDING * max(float(np.abs(correlation).max()), weight_decay)
    best, least, waited = masses, np.inf, 0
    while waited < _PATIENCE:
        violation = optimality_violation(gram, correlation, weight_decay, masses)
        best, least, waited = (masses, violation, 0) if violation < least else (best, least, waited + 1)
        if violation <= slack:
            break
        slope = 2.0 * (gram @ masses - correlation)
        excess = np.where(masses == 0.0, np.abs(slope) - weight_decay, 0.0)
        new = np.argsort(-excess, kind="stable")[:_MOST_JOINING]
        active = np.union1d(np.flatnonzero(masses), new[excess[new] > slack])
        signs = np.where(masses[active] != 0.0, np.sign(masses[active]), -np.sign(slope[active]))
        sizes = nonnegative_masses(
            gram[np.ix_(active, active)] * np.outer(signs, signs),
            signs * correlation[active] - 0.5 * weight_decay,
            np.abs(masses[active]),
        )
        masses = np.zeros_like(masses)
        masses[active] = signs * sizes
    return best


def optimality_violation(
    gram: Float[np.ndarray, "m m"],
    correlation: Float[np.ndarray, " m"],
    weight_decay: float,
    masses: Float[np.ndarray, " m"],
) -> float:
    """Largest violation of the conditions ``2(Gc − b)_i = −λ sign c_i`` (c_i ≠ 0), ``|2(Gc − b)_i| ≤ λ`` (c_i = 0)."""
    slope = 2.0 * (gram @ masses - correlation)
    active = masses != 0.0
    on = np.abs(slope[active] + weight_decay * np.sign(masses[active])).max(initial=0.0)
    off = (np.abs(slope[~active]) - weight_decay).max(initial=0.0)
    return float(max(on, off, 0.0))


class MassSubgradient(Update):
    """ZG's Stage 2 as printed: subgradient steps on a, W fixed, (α, β) put at its optimum after each step.

    In ``a``: ``∂L/∂a_i = 2‖w_i‖(Gc − b)_i + λ‖w_i‖ sign a_i`` with ``c_i = a_i‖w_i‖``; at a_i = 0 the subgradient of
    least size is taken. The stopping norm is that of the least subgradient.
    """

    gram: Float[Array, "m m"]
    correlation: Float[Array, " m"]
    norms: Float[Array, " m"]
    weight_decay: Float[Array, ""]
    learning_rate: Float[Array, ""]

    def __call__(self, state: Float[Array, " m"]) -> tuple[Float[Array, " m"], Float[Array, ""]]:
        """One subgradient step; an output that would change sign stops at zero on its way."""
        smooth = 2.0 * self.norms * (self.gram @ (state * self.norms) - self.correlation)
        pull = self.weight_decay * self.norms
        at_zero = jnp.sign(smooth) * jnp.maximum(jnp.abs(smooth) - pull, 0.0)
        subgradient = jnp.where(state == 0.0, at_zero, smooth + pull * jnp.sign(state))
        moved = state - self.learning_rate * subgradient
        crossed = state * moved < 0.0
        return jnp.where(crossed, 0.0, moved), jnp.sqrt(jnp.sum(subgradient**2))
