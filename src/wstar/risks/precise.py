"""Losses in ball arithmetic: a value with a radius that holds every rounding error, however small the loss."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    bits = _FIRST_BITS
    while True:
        with working_bits(bits):
            ball = _loss(target, network, weight_decay, raw=raw)
            if narrow(ball, relative_radius) or bits >= _LAST_BITS:
                # a mean square is not negative
                return to_ball(ball, nonnegative=True)
        bits *= 2


@contextmanager
def working_bits(bits: int) -> Iterator[None]:
    """Ball arithmetic at that precision, the caller's own restored on leaving."""
    before = flint.ctx.prec
    flint.ctx.prec = bits
    try:
        yield
    finally:
        flint.ctx.prec = before


def to_ball(ball: arb, *, nonnegative: bool = False) -> Ball:
    """The nearest float with a radius that holds all of ``ball``; ``nonnegative`` cuts what lies below zero."""
    middle = float(ball.mid())
    value = max(middle, 0.0) if nonnegative else middle
    radius = float(ball.rad()) + abs(middle - value) + np.spacing(abs(value))
    return Ball(value, float(np.nextafter(radius, np.inf)))


def narrow(ball: arb, relative_radius: float) -> bool:
    """Whether the radius is within ``relative_radius`` of the value, which is not zero."""
    return bool(ball.rad() <= arb(relative_radius) / 2 * abs(ball.mid())) and float(abs(ball.mid())) > 0.0


def centred_abs(rho: arb) -> arb:
    """``K = (2/π)(s + ρt − 1)``, the kernel of |x| less its mean, t = atan2(ρ, s): no branch at ρ = ±1."""
    sine = ((1 - rho) * (1 + rho)).nonnegative_part().sqrt()
    return 2 / arb.pi() * (sine + rho * arb.atan2(rho, sine) - 1)


def gram_matrix(rows: Float[np.ndarray, "n d"]) -> arb_mat:
    """Inner products of rows of floats taken as exact."""
    return _gram([[arb(float(x)) for x in row] for row in rows])


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
    """``ΣΣ ĉ_pĉ_q K(ρ_pq)``."""
    total, at_one = arb(0), 1 - 2 / arb.pi()
    for p in range(len(masses)):
        total += masses[p] ** 2 * at_one
        for q in range(p):
            total += 2 * masses[p] * masses[q] * centred_abs(gram[p, q] / (norms[p] * norms[q]))
    return total


def _sum(terms: Sequence[arb]) -> arb:
    total = arb(0)
    for term in terms:
        total += term
    return total
