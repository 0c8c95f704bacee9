"""Primal value, dual value and gap in ball arithmetic: what float64 rounds off is inside the radius."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from flint import arb

from wstar.algorithms.optimum.gaussian_problem import AngleKernel
from wstar.algorithms.optimum.problem import Atoms
from wstar.risks.precise import Ball, gram_matrix, narrow, to_ball, working_bits

_FIRST_BITS, _LAST_BITS = 160, 640
_RELATIVE_RADIUS = 1e-6
# a gap below this is as good as none: no more bits are spent on telling it from zero
_NOTHING = 1e-40


class PreciseGap(NamedTuple):
    """``P`` of the answer, ``D`` of the certifying measure, and ``P − D``."""

    primal: Ball
    dual: Ball
    gap: Ball


def precise_gap(
    kernel: AngleKernel,
    scale: float,
    targets: Atoms,
    answer: Atoms,
    certifying: Atoms,
    weight_decay: float,
    sup: float,
) -> PreciseGap:
    """The values for ``K = scale² kernel`` and targets in the kernel's own units, given ``sup |η_λ| ≤ sup``.

    All floats are taken as exact (a power series' σ̂_k² too), and an atom ``(c, u)`` stands for the mass ``c‖u‖`` at
    ``u/‖u‖``: what rounding has done to the length of a row is part of its mass. Over the certifying measure, P' and
    L' its objective and loss, ``P − D = (P − P') + L'(1 − 1/s)² + λΣ|c_i|(1 − sign(c_i)η(u_i)/s)``,
    ``s = max(1, sup)``. D is a lower bound because s bounds |η|.
    """
    bits = _FIRST_BITS
    while True:
        with working_bits(bits):
            primal, dual, gap = _values(kernel, scale, targets, answer, certifying, weight_decay, max(1.0, sup))
            enough = narrow(primal, _RELATIVE_RADIUS) and (
                narrow(gap, _RELATIVE_RADIUS) or float(abs(gap).upper()) < _NOTHING
            )
            if enough or bits >= _LAST_BITS:
                return PreciseGap(to_ball(primal, nonnegative=True), to_ball(dual), to_ball(gap, nonnegative=True))
        bits *= 2


def _values(
    kernel: AngleKernel,
    scale: float,
    targets: Atoms,
    answer: Atoms,
    certifying: Atoms,
    weight_decay: float,
    s: float,
) -> tuple[arb, arb, arb]:
    decay = arb(float(weight_decay))
    masses, lengths, heights = _residual(kernel, scale, targets, certifying)
    n = len(certifying.masses)
    loss, sizes = _dot(masses, heights), _sizes(certifying, lengths)
    # λ⟨p, y⟩ − λ²‖p‖²/4 at p = −2R/(λs)
    dual = 2 / arb(s) * _dot(masses[n:], heights[n:]) - loss / arb(s) ** 2
    etas = [-2 / decay * arb(float(scale)) * height for height in heights[:n]]
    short = [1 - int(np.sign(mass)) * eta / arb(s) for mass, eta in zip(certifying.masses, etas, strict=True)]
    gap = loss * (1 - 1 / arb(s)) ** 2 + decay * _dot(sizes, short)
    primal = loss + decay * sum(sizes, arb(0))
    if answer is not certifying:
        masses, lengths, heights = _residual(kernel, scale, targets, answer)
        own = _dot(masses, heights) + decay * sum(_sizes(answer, lengths), arb(0))
        primal, gap = own, gap + (own - primal)
    return primal, dual, gap


def _sizes(atoms: Atoms, lengths: Sequence[arb]) -> list[arb]:
    return [arb(float(abs(mass))) * length for mass, length in zip(atoms.masses, lengths, strict=False)]


def _dot(left: Sequence[arb], right: Sequence[arb]) -> arb:
    return sum((a * b for a, b in zip(left, right, strict=True)), arb(0))


def _residual(
    kernel: AngleKernel, scale: float, targets: Atoms, atoms: Atoms
) -> tuple[list[arb], list[arb], list[arb]]:
    """Masses of the residual (atoms, then targets with the opposite sign), lengths of its rows, Ψ at each of them."""
    rows = np.concatenate([atoms.directions, targets.directions])
    gram = gram_matrix(rows)
    lengths = [gram[p, p].sqrt() for p in range(len(rows))]
    factors = [arb(float(scale))] * len(atoms.masses) + [arb(-1)] * len(targets.masses)
    floats = np.concatenate([atoms.masses, targets.masses])
    masses = [f * arb(float(c)) * length for f, c, length in zip(factors, floats, lengths, strict=True)]
    at_one = kernel.ball(arb(1))
    heights = [mass * at_one for mass in masses]
    for p in range(len(rows)):
        for q in range(p):
            value = kernel.ball(gram[p, q] / (lengths[p] * lengths[q]))
            heights[p] += masses[q] * value
            heights[q] += masses[p] * value
    return masses, lengths, heights
