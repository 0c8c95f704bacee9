"""Losses in ball arithmetic: a value with a radius that holds every rounding error, however small the loss."""

from collections.abc import Sequence
from typing import NamedTuple

import flint
import numpy as np
from flint import arb, arb_mat
from jaxtyping import Float

from wstar.kernels.activations import HomogeneousActivation
from wstar.networks.network import TwoLayer

# bits are doubled from the first to the last until the relative radius is reached
_FIRST_BITS, _LAST_BITS = 160, 2560


class Ball(NamedTuple):
    """A number known to lie in ``value ± radius``."""

    value: float
    radius: float


class Target(NamedTuple):
    """What the labels are, as exact floats: ``Σ masses_j (|u_j·x| + odd_ratio u_j·x) + bias + linear·x``.

    Preprocessed labels are the even orders ≥ 2 of the sum alone.
    """

    masses: Float[np.ndarray, " k"]
    directions: Float[np.ndarray, "k d"]
    odd_ratio: Float[np.ndarray, ""]
    bias: Float[np.ndarray, ""]
    linear: Float[np.ndarray, " d"]


def precise_loss(
    target: Target, network: TwoLayer, weight_decay: float = 0.0, *, raw: bool = False, relative_radius: float = 1e-6
) -> Ball:
    """``L_λ`` of ``network`` with a rigorous radius; ``L = r0² + ‖r1‖² + ΣΣ ĉ_pĉ_q K(u_p·u_q)`` (ZG Claim B.1).

    The floats of network and target are taken as exact. Precision is doubled until the radius is below
    ``relative_radius`` of the value, at most to 2560 bits (losses down to about 1e-700); a loss that is exactly zero
    comes back as 0 with the radius reached.
    """
    bits, ball = _FIRST_BITS, arb(0)
    before = flint.ctx.prec
    try:
        while True:
            flint.ctx.prec = bits
            ball = _loss(target, network, weight_decay, raw=raw)
            if _good(ball, relative_radius) or bits >= _LAST_BITS:
                break
            bits *= 2
    finally:
        flint.ctx.prec = before
    # a mean square is not negative: cut what the ball has below zero
    value = max(float(ball.mid()), 0.0)
    return Ball(
        value, float(np.nextafter(float(ball.rad()) + abs(float(ball.mid()) - value) + np.spacing(value), np.inf))
    )


def _good(ball: arb, relative_radius: float) -> bool:
    return bool(ball.rad() <= arb(relative_radius) / 2 * abs(ball.mid())) and float(abs(ball.mid())) > 0.0


def _loss(target: Target, network: TwoLayer, weight_decay: float, *, raw: bool) -> arb:
    activation: HomogeneousActivation = network.activation
    even, odd = arb(activation.even), arb(activation.odd)
    outputs = [even * arb(float(a)) for a in network.outputs]
    outputs += [-arb(float(a)) for a in target.masses]
    rows = [[arb(float(x)) for x in row] for row in np.concatenate([network.weights, target.directions])]
    # neurons without a direction or a mass add nothing, and their ρ would be 0/0
    kept = [
        i
        for i, (a, row) in enumerate(zip(outputs, rows, strict=True))
        if not a.is_zero() and any(not x.is_zero() for x in row)
    ]
    gram = _gram([rows[i] for i in kept])
    norms = [gram[i, i].sqrt() for i in range(len(kept))]
    masses = [outputs[i] * n for i, n in zip(kept, norms, strict=True)]
    total = _even_part(gram, norms, masses)
    mean = (2 / arb.pi()).sqrt()
    n_students = network.width
    # the odd part of a student neuron is odd/even of its even factor, of a target neuron odd_ratio
    ratios = [odd / even if i < n_students else arb(float(target.odd_ratio)) for i in kept]
    included = [m for m, i in zip(range(len(kept)), kept, strict=True) if raw or i < n_students]
    bias = arb(float(network.bias)) - (arb(float(target.bias)) if raw else arb(0))
    bias += mean * _sum([masses[m] for m in included])
    total += bias**2
    for column in range(network.dim):
        slope = arb(float(network.linear[column])) - (arb(float(target.linear[column])) if raw else arb(0))
        slope += _sum([ratios[m] * outputs[kept[m]] * rows[kept[m]][column] for m in included])
        total += slope**2
    if weight_decay:
        squares = _sum([arb(float(a)) ** 2 for a in network.outputs])
        squares += _sum([arb(float(w)) ** 2 for w in network.weights.ravel()])
        total += arb(float(weight_decay)) / 2 * squares
    return total


def _gram(rows: Sequence[Sequence[arb]]) -> arb_mat:
    matrix = arb_mat([list(row) for row in rows]) if rows else arb_mat(0, 0)
    return matrix * matrix.transpose()


def _even_part(gram: arb_mat, norms: Sequence[arb], masses: Sequence[arb]) -> arb:
    """``ΣΣ ĉ_pĉ_q (2/π)(s + ρt − 1)``, t = atan2(ρ, s): no branch at ρ = ±1."""
    total, at_one = arb(0), arb.pi() / 2 - 1
    for p in range(len(masses)):
        total += masses[p] ** 2 * at_one
        for q in range(p):
            rho = gram[p, q] / (norms[p] * norms[q])
            sine = ((1 - rho) * (1 + rho)).nonnegative_part().sqrt()
            total += 2 * masses[p] * masses[q] * (sine + rho * arb.atan2(rho, sine) - 1)
    return 2 / arb.pi() * total


def _sum(terms: Sequence[arb]) -> arb:
    total = arb(0)
    for term in terms:
        total += term
    return total
