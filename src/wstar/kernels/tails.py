"""Kernels ``K_{≥ℓ}(ρ) = Σ_{k≥ℓ} σ̂_k² ρ^k`` without their low orders (ZG Appendix G)."""

import numpy as np
from jaxtyping import Float
from numpy.polynomial.polynomial import polyval
from numpy.typing import ArrayLike

from wstar.kernels.activations import HermiteActivation, HomogeneousActivation
from wstar.kernels.hermite import abs_coefficients

# A tail is summed where |ρ| ≤ 1 − _EDGE/max(ℓ, 30); the term that is then left out is below 1e-17 of the first.
_EDGE, _LEFT_OUT = 1.0, 39.2


def tail_kernel(
    activation: HomogeneousActivation | HermiteActivation, min_order: int, rho: ArrayLike
) -> tuple[Float[np.ndarray, "*n"], Float[np.ndarray, "*n"]]:
    """``K_{≥ℓ}(ρ)`` and its derivative, ℓ = ``min_order``, for ρ in [−1, 1].

    Where ``|ρ| ≤ 1 − 1/max(ℓ, 30)`` the tail is summed, so that it keeps its relative accuracy (1e-13) however small
    it is; nearer to ±1 the low orders are taken off the closed form, whose terms are not much larger than the tail
    there (1e-12 for ℓ ≤ 40, 2e-11 for ℓ ≤ 200). Coefficient lists are summed as they are.

    Raises:
        ValueError: ``min_order`` negative, ρ outside [−1, 1] or not finite, or ``min_order`` beyond the last
            coefficient of a finite activation (the tail would be identically zero).
    """
    rho = np.asarray(rho, dtype=float)
    if min_order < 0:
        raise ValueError(f"min_order={min_order} must not be negative")
    if not (np.abs(rho) <= 1.0).all():
        raise ValueError("rho must lie in [−1, 1]: normalise the directions first")
    if isinstance(activation, HermiteActivation):
        energies = np.array(activation.hermite) ** 2
        if min_order >= len(energies):
            raise ValueError(f"min_order={min_order} is beyond the activation's {len(energies)} coefficients")
        energies[:min_order] = 0.0
        return _power_sum(energies, rho)
    gap = _EDGE / max(min_order, 30)
    inner = np.abs(rho) <= 1.0 - gap
    value, slope = np.empty_like(rho), np.empty_like(rho)
    # the odd orders above 1 vanish: sums over the even ones, in powers of ρ²
    energies = (activation.even * abs_coefficients(min_order + int(_LEFT_OUT / gap))[::2]) ** 2
    first = (min_order + 1) // 2
    low = energies[:first].copy()
    energies[:first] = 0.0
    value[inner], slope[inner] = _even_power_sum(energies, rho[inner])
    edge = rho[~inner]
    low_value, low_slope = _even_power_sum(low, edge)
    angle, sine = np.arcsin(edge), np.sqrt((1.0 - edge) * (1.0 + edge))
    scale = activation.even**2 * (2.0 / np.pi)
    value[~inner] = scale * (sine + edge * angle) - low_value
    slope[~inner] = scale * angle - low_slope
    if min_order <= 1:
        value, slope = value + activation.odd**2 * rho, slope + activation.odd**2
    return value, slope


def tail_energy(activation: HomogeneousActivation | HermiteActivation, min_order: int) -> float:
    """``Z² = K_{≥ℓ}(1) = Σ_{k≥ℓ} σ̂_k²``, ℓ = ``min_order``."""
    return float(tail_kernel(activation, min_order, np.array([1.0]))[0][0])


def _even_power_sum(energies: np.ndarray, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    value, slope = _power_sum(energies, rho * rho)
    return value, 2.0 * rho * slope


def _power_sum(energies: np.ndarray, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    steep = (np.arange(len(energies)) * energies)[1:]
    # polyval wants at least one coefficient; the cut at order 0 leaves none below it
    value = polyval(rho, energies) if len(energies) else np.zeros_like(rho)
    return value, (polyval(rho, steep) if len(steep) else np.zeros_like(rho))
