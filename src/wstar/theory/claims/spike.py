"""ZG Lemma F.6 by its test function: a network without half of a teacher's mass near it pays a loss of δ^{4c_σ−2}."""

import numpy as np

from wstar.kernels.activations import RELU, HermiteActivation, HomogeneousActivation
from wstar.networks.student import Student
from wstar.networks.teacher import Teacher
from wstar.theory.claims.instances import direct_loss, fitted
from wstar.theory.claims.verdict import Claim, Effort, Verdict, worst
from wstar.theory.spikes import spike

# |μ|₁ ≤ 3|μ*|₁ (ZG Lemma F.4)
_MASS = 3.0
_SMALLEST = 0.025


def floor_exponents(claim: Claim, effort: Effort) -> Verdict:
    """The bound ``max_ℓ ⟨R,g⟩²/‖g‖²`` against δ for several decays. Broken: coefficients decay faster than claimed."""
    deltas, parts = np.geomspace(_SMALLEST, 0.8, effort.size(8, 20)), []
    for decay in (1.25, 0.9, 1.5):
        seen = decay + 0.3 if effort.broken else decay
        activation = RELU if seen == 1.25 else power_decay(seen)
        bounds = [_floor(activation, float(d), effort.size(12, 40)) for d in deltas]
        note = f"c_σ = {decay}: without half of the mass within δ, L ≥ {bounds[0]:.2g} at δ = {deltas[0]:.3f}"
        parts.append(claim.rate(deltas, bounds, 4.0 * decay - 2.0, side="equal", slack=0.1, note=note))
    return worst(parts)


def floor_below_loss(claim: Claim, effort: Effort) -> Verdict:
    """The bound over the loss of atoms at w* and ±δ. Broken: all mass stays at w*, slightly off."""
    ratios, teacher = [], Teacher([1.0], [[1.0, 0.0]])
    for delta in np.geomspace(_SMALLEST, 0.8, effort.size(8, 40)):
        for near in (0.0, 0.25, 0.5):
            share, angle = (1.0, 1e-4) if effort.broken else (near, float(delta))
            rest = 0.5 * (1.0 - share)
            phi = np.array([1e-4 if effort.broken else 0.0, angle, -angle])
            student = Student([share, rest, rest], np.stack([np.cos(phi), np.sin(phi)], axis=1))
            ratios.append(_floor(RELU, float(delta), effort.size(12, 40)) / direct_loss(fitted(student), teacher))
    return claim.inequality(ratios, f"the bound reaches {max(ratios):.2g} of the loss of atoms at ±δ")


def _floor(activation: HomogeneousActivation | HermiteActivation, delta: float, n_orders: int) -> float:
    """Least loss that g proves for ``μ(T(δ)) ≤ a*/2``, |μ|₁ ≤ 3, a* = 1: ``⟨R,g⟩ ≥ ½Σ|σ̂_k| − 3 Σ|σ̂_k| cos^k δ``."""
    rows = np.array([[1.0, 0.0], [np.cos(delta), np.sin(delta)]])
    best = 0.0
    for order in np.unique(np.maximum(2, np.geomspace(1.0, 6.0, n_orders) / delta**2).astype(int)):
        g = spike(rows[0], int(order), activation)
        at_axis, beside = g.correlation(rows)
        best = max(best, max(0.0, 0.5 * at_axis - _MASS * beside) ** 2 / g.squared_norm)
    return float(best)


def power_decay(exponent: float, smallest: float = _SMALLEST) -> HermiteActivation:
    """``|σ̂_k| = k^{−c}`` at every order from 2 on, as far as the spikes reach."""
    k = np.arange(2.0, 13.0 / smallest**2)
    return HermiteActivation((0.0, 0.0, *(k**-exponent)), name=f"decay {exponent:g}")


CLAIMS = (
    Claim(
        "ZG Lemma F.6 (test function)",
        "ZG",
        "g proves L = Ω̃(δ^{4c_σ−2}) when T_i(δ) lacks half of a*_i",
        "rate",
        floor_exponents,
    ),
    Claim(
        "ZG Lemma F.6 (bound)",
        "ZG",
        "⟨R,g⟩²/‖g‖² ≤ L for networks that lack half of a*_i within δ",
        "inequality",
        floor_below_loss,
    ),
)
