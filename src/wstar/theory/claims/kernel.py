"""ZG Lemmas G.1, G.2: the normalised kernel ``K_{≥ℓ}`` of ReLU is a spike of width ``ℓ^{-1/2}``.

With θ = ∠(w, u), ``s = sin θ``, ``c = cos θ`` and K a function of c, derivatives along the sphere are, in the plane of
w and u and across it,

* ``K⁽²⁰⁾[z, z]``: ``K''s² − K'c`` and ``−K'c``
* ``K⁽¹¹⁾[z, q]``: ``K''s² − K'c`` (up to sign) and ``K'``
* ``K⁽²¹⁾[z, z, q]``: ``K'''s³ − 3K''sc − K's``, ``−(K''c + K')s`` and, z and q both partly across, ``K''s``.

Directions between the plane and across change the suprema by a constant factor only.
"""

import numpy as np
from jaxtyping import Float, Int
from numpy.polynomial.polynomial import polyder, polyval

from wstar.kernels.hermite import relu_coefficients
from wstar.theory.claims.verdict import Claim, Effort, Verdict, worst

_ORDERS_QUICK, _ORDERS_FULL = (4, 8, 16, 32, 64, 128, 256), (4, 8, 16, 32, 64, 128, 256, 512, 1024)
# the hidden constant of r = Θ(ℓ^{-1/2})
_RADIUS = 0.25


def jets(theta: Float[np.ndarray, " n"], order: int, *, twice: bool = False) -> Float[np.ndarray, "4 n"]:
    """``K, sK', s²K'', s³K'''`` at cos θ for ``K_{≥ℓ}/Z²`` of ReLU (``twice``: over Z⁴).

    The closed form ``(s + ρt)/2π`` without its low orders: its derivatives are singular at θ = 0, these products not.
    """
    s, rho = np.sin(theta), np.cos(theta)
    t = 0.5 * np.pi - theta
    low = relu_coefficients(order) ** 2
    low[1] = 0.0
    closed = np.stack([s + rho * t, s * t, s, rho]) / (2.0 * np.pi)
    low_jets = np.stack([s**k * polyval(rho, polyder(low, k)) for k in range(4)])
    energy = 0.25 - low.sum()
    return (closed - low_jets) / (energy**2 if twice else energy)


def _orders(effort: Effort) -> Int[np.ndarray, " k"]:
    return np.array(_ORDERS_QUICK if effort.quick else _ORDERS_FULL)


def spike_shape(claim: Claim, effort: Effort) -> Verdict:
    """1 − K at θ = r, and the smallest −K⁽²⁰⁾ within r. Broken: K_{≥2} at every ℓ."""
    orders, drops, curvatures = _orders(effort), [], []
    for order in orders:
        radius = _RADIUS / np.sqrt(order)
        theta = radius * np.geomspace(1e-3, 1.0, 60)
        value, first, second, _ = jets(theta, 2 if effort.broken else int(order))
        drops.append(1.0 - value[-1])
        # K decreases from 0 to π/2, so that beyond r it is largest at r
        curvatures.append(float((first / np.tan(theta) - second).min()))
    note = f"r = {_RADIUS}/√ℓ: K ≤ 1 − {min(drops):.3f} beyond r, K⁽²⁰⁾ ≤ −{min(curvatures / orders):.2f} ℓ within"
    parts = [
        claim.rate(orders, drops, 0.0, side="equal", slack=0.1, note=note),
        claim.rate(orders, curvatures, 1.0, side="equal", slack=0.1, note=note),
    ]
    return worst(parts)


def separated(claim: Claim, effort: Effort) -> Verdict:
    """Smallest ℓ with all cross terms at angles ≥ Δ within h/m_*², over log(m_*ℓ/hΔ). Broken: angles ≥ Δ^{3/2}."""
    width, level = 4, 0.1
    deltas, needed = np.geomspace(0.025, 1.0, effort.size(8, 16)), []
    for delta in deltas:
        apart = delta**1.5 if effort.broken else delta
        order = _smallest_order(float(apart), level / width**2)
        needed.append(order / np.log(width * order / (level * delta)))
    constant = float(np.max(needed * deltas**2))
    note = f"h = {level}, m_* = {width}: ℓ = {constant:.2f} Δ⁻² log(m_*ℓ/hΔ) serves for every Δ"
    return claim.rate(deltas, needed, -2.0, side="at least", note=note)


def _smallest_order(delta: float, level: float) -> int:
    """Smallest even ℓ with every ``‖K⁽ⁱʲ⁾‖ ≤ level`` at the angles Δ … π/2, from suffix sums over all orders."""
    top = int(120.0 / delta**2) + 60
    k = np.arange(2, top, 2)
    energies = relu_coefficients(top)[2::2] ** 2
    # what is left of Z² beyond the last order, from its total 1/4 − 1/2π
    energy = np.cumsum(energies[::-1])[::-1] + (0.25 - 0.5 / np.pi - energies.sum())
    served = np.ones(len(k), dtype=bool)
    for theta in np.unique(np.minimum(delta * np.array([1.0, 1.3, 2.0, 4.0]), 0.5 * np.pi - 1e-3)):
        s, log_c = np.sin(theta), np.log(np.cos(theta))
        c = np.exp(log_c)
        powers = energies * np.exp(k * log_c)
        zero, one, two, three = (
            np.cumsum((factor * powers)[::-1])[::-1] / energy
            for factor in (
                1.0 + 0.0 * k,
                k * s / c,
                k * (k - 1.0) * (s / c) ** 2,
                k * (k - 1.0) * (k - 2.0) * (s / c) ** 3,
            )
        )
        tangent = one * c / s
        for term in (zero, one, two + tangent, three + 3.0 * two * c / s + one):
            served &= term <= level
    return int(k[served.argmax()])


def bounded(claim: Claim, effort: Effort) -> Verdict:
    """Suprema over θ against ℓ, order by order. Broken: the kernel is divided by Z⁴ instead of Z²."""
    orders = _orders(effort)
    theta = np.geomspace(1e-5, 0.5 * np.pi, effort.size(400, 2000))
    s, c, tops = np.sin(theta), np.cos(theta), []
    for order in orders:
        value, first, second, third = jets(theta, int(order), twice=effort.broken)
        slope = first / s
        in_plane = np.abs(second - slope * c)
        mixed = [np.abs(third - 3.0 * second * c / s - first), np.abs(second * c / s + first), np.abs(second / s)]
        tops.append(
            [np.abs(value).max(), np.abs(first).max(), np.maximum(in_plane, slope).max(), in_plane.max(), np.max(mixed)]
        )
    names, claimed = ("B_00", "B_10", "B_11", "B_20", "B_21"), (0.0, 0.5, 1.0, 1.0, 1.5)
    parts = []
    for name, exponent, values in zip(names, claimed, np.transpose(tops), strict=True):
        note = f"{name} ≤ {np.max(values / orders**exponent):.2f} ℓ^{exponent:g}; the one nearest to its bound"
        parts.append(claim.rate(orders, values, exponent, side="at most", note=note))
    return worst(parts)


CLAIMS = (
    Claim(
        "ZG Lemma G.1 (i), (ii)",
        "ZG",
        "with r = Θ(ℓ^{-1/2}): K_{≥ℓ} ≤ 1 − Θ(1) beyond angle r and K⁽²⁰⁾ ≤ −Θ(ℓ) within",
        "rate",
        spike_shape,
    ),
    Claim("ZG Lemma G.1 (iii)", "ZG", "‖K⁽ⁱʲ⁾(w*_i,w*_k)‖ ≤ h/m_*² from ℓ = Θ(Δ⁻² log(m_*ℓ/hΔ)) on", "rate", separated),
    Claim("ZG Lemma G.2", "ZG", "B_00 = O(1), B_10 = O(√ℓ), B_11 = B_20 = O(ℓ), B_21 = O(ℓ^{3/2})", "rate", bounded),
)
