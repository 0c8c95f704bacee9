"""Least squares over nonnegative masses: the convex problem that is left when directions and signs are fixed."""

import numpy as np
from jaxtyping import Float
from scipy.linalg import LinAlgError, cho_factor, cho_solve

# of a mass solve: they take the ridge's bias off, down to what float64 knows of the field
_REFINEMENTS = 2


def nonnegative_masses(
    gram: Float[np.ndarray, "n n"], linear: Float[np.ndarray, " n"], start: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """``argmin_{m ≥ 0} mᵀGm − 2hᵀm`` by block principal pivoting, started from ``m > 0`` everywhere.

    All infeasible indices change sides at once while their number falls; otherwise the last one alone, which ends
    after finitely many exchanges when G is positive definite (Kim and Park 2011). Where rounding makes it cycle,
    Lawson and Hanson's monotone exchange from ``start`` takes over.
    """
    n = len(linear)
    ridge = 1e-15 * float(np.trace(gram)) / max(n, 1)
    active = np.ones(n, dtype=bool)
    fewest, patience = n + 1, 3
    for _ in range(5 * n + 20):
        masses = np.zeros(n)
        masses[active] = _positive_solve(gram[np.ix_(active, active)], linear[active], ridge)
        pull = linear - gram @ masses
        noise = 1e-15 * (np.abs(gram) @ np.abs(masses) + np.abs(linear))
        wrong = np.flatnonzero(np.where(active, masses < 0.0, pull > noise))
        if not wrong.size:
            return masses
        if wrong.size < fewest:
            fewest, patience = wrong.size, 3
        elif patience > 0:
            patience -= 1
        else:
            wrong = wrong[-1:]
        active[wrong] = ~active[wrong]
    return _lawson_hanson(gram, linear, start, ridge)


def _lawson_hanson(gram: np.ndarray, linear: np.ndarray, start: np.ndarray, ridge: float) -> np.ndarray:
    masses, active = start.copy(), start > 0.0
    for _ in range(10 * len(linear) + 20):
        while active.any():
            target = np.zeros_like(masses)
            target[active] = _positive_solve(gram[np.ix_(active, active)], linear[active], ridge)
            short = np.flatnonzero(active & (target <= 0.0))
            if not short.size:
                masses = target
                break
            share = masses[short] / (masses[short] - target[short])
            masses = np.where(active, masses + share.min() * (target - masses), 0.0)
            active[short[share.argmin()]] = False
            masses[~active] = 0.0
        pull = np.where(active, -np.inf, linear - gram @ masses)
        if pull.max(initial=-np.inf) <= 1e-15 * (1.0 + np.abs(linear).max()):
            break
        active[pull.argmax()] = True
    return masses


def _positive_solve(gram: np.ndarray, linear: np.ndarray, ridge: float) -> np.ndarray:
    if not len(linear):
        return linear
    for _ in range(8):
        try:
            factor = cho_factor(gram + ridge * np.eye(len(gram)), lower=True, check_finite=False)
        except LinAlgError:
            # neighbouring atoms that rounding cannot tell apart: any split of their mass is as good
            ridge *= 30.0
            continue
        solution = cho_solve(factor, linear, check_finite=False)
        for _ in range(_REFINEMENTS):
            solution += cho_solve(factor, linear - gram @ solution, check_finite=False)
        return solution
    return np.linalg.lstsq(gram, linear, rcond=1e-14)[0]
