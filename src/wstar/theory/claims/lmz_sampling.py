"""LMZ Claim 2.1 and Section B: what is lost by finitely many neurons and samples."""

from math import gamma, sqrt
from typing import Any

import numpy as np
from jaxtyping import Float

from wstar.algorithms.truncated.descent import truncated_descent
from wstar.algorithms.truncated.infinite_width import infinite_width_descent
from wstar.algorithms.truncated.initial_measure import truncated_gaussian
from wstar.kernels.activations import ABS
from wstar.networks.student import Student
from wstar.risks.population import PopulationRisk
from wstar.theory.claims.lmz_runs import RATE, target
from wstar.theory.claims.verdict import Claim, Effort, Verdict, worst

_DIM, _SEEN, _STEPS = 6, 16, (5, 10, 20)
# each divides the last
_WIDTHS = np.array([24, 48, 120, 320, 960])


def _per_particle(
    norms: np.ndarray, units: np.ndarray, gradients: Float[np.ndarray, "m d"]
) -> Float[np.ndarray, "m d"]:
    """``2[Ψ(v)v̄ + ‖v‖∇Ψ(v̄)]`` with ``Ψ(v̄) = v̄·∇Ψ(v̄)``."""
    along = np.sum(units * gradients, axis=1)
    return 2.0 * norms[:, None] * (along[:, None] * units + gradients)


def width_error(claim: Claim, effort: Effort) -> Verdict:
    """Largest error of ∇_v over neurons v, m neurons of N(0, I/d) against all of N(0, I/d). Broken: copies of ten.

    The isotropic population is ``f = E‖w‖² μ‖x‖``, μ = E|u_1| on the sphere, whose field at unit u is ``dμ²u``.
    """
    rng, dim = np.random.default_rng(effort.seed), 10
    risk = PopulationRisk(target(dim), preprocessed=False)
    mean = gamma(0.5 * dim) / (sqrt(np.pi) * gamma(0.5 * (dim + 1)))
    seen = rng.standard_normal((20, dim)) / np.sqrt(dim)
    norms = np.linalg.norm(seen, axis=1)
    units = seen / norms[:, None]
    silent = risk.field(Student(np.zeros(1), np.ones((1, dim)), activation=ABS), units)[1]
    exact = silent + dim * mean**2 * units
    widths = np.geomspace(10, effort.size(1000, 5000), 9).astype(int)
    errors = []
    for width in widths:
        found = []
        for _ in range(effort.size(25, 60)):
            weights = rng.standard_normal((width, dim)) / np.sqrt(dim)
            if effort.broken:
                weights = np.resize(weights[:10], weights.shape)
            # filled up with absent neurons so that one compilation serves all widths
            network = Student.from_mean_field(np.pad(weights, ((0, widths[-1] - width), (0, 0))), ABS)
            scale = widths[-1] / width
            finite = silent + scale * (risk.field(network, units)[1] - silent)
            found.append(np.linalg.norm(_per_particle(norms, units, finite - exact), axis=1).max())
        errors.append(float(np.median(found)))
    note = f"d = {dim}; largest of 20 neurons, median of the draws: {errors[-1]:.2g} at m = {widths[-1]}"
    return claim.rate(widths, errors, -0.5, side="equal", note=note, axes=("m", "error of the gradient"))


def sample_error(claim: Claim, effort: Effort) -> Verdict:
    """Largest error of ∇_v over the network's neurons, N samples against the population. Broken: inputs 5 % too long.

    The gradient of the samples is written out here.
    """
    rng, dim, width = np.random.default_rng(effort.seed), 10, 30
    teacher, weights = target(dim, 2.0, rng), rng.standard_normal((width, dim)) / np.sqrt(dim)
    norms = np.linalg.norm(weights, axis=1)
    units = weights / norms[:, None]
    student = Student.from_mean_field(weights, ABS)
    exact = PopulationRisk(teacher, preprocessed=False).field(student, units)[1]
    sizes = np.geomspace(300, effort.size(60_000, 600_000), 9).astype(int)
    errors = []
    for n in sizes:
        found = []
        for _ in range(5):
            X = (1.05 if effort.broken else 1.0) * rng.standard_normal((n, dim))
            residual = student(X) - teacher(X)
            sampled = (np.sign(units @ X.T) * residual) @ X / n
            found.append(np.linalg.norm(_per_particle(norms, units, sampled - exact), axis=1).max())
        errors.append(float(np.median(found)))
    note = f"d = {dim}, m = {width}; largest over the neurons, median of five samples: {errors[-1]:.2g} at N = {n}"
    return claim.rate(sizes, errors, -0.5, side="equal", note=note, axes=("N", "error of the gradient"))


def finite_width(claim: Claim, effort: Effort) -> Verdict:
    """ξ: how far neurons are from tracers that start with them in the infinite-width field. Broken: other starts.

    Root mean square over some neurons of each network, at steps into Stage 1. Starts are draws of the same truncated
    initial measure: plain Gaussian ones differ from it by more than the width's own error.
    """
    teacher, risk = target(_DIM), PopulationRisk(target(_DIM), preprocessed=False)
    widths, seeds = effort.size(1, 4) * _WIDTHS, range(effort.size(3, 8))
    starts = [[truncated_gaussian(teacher.masses, int(m), 1000 * effort.seed + 100 * k + i)[0] for k in seeds]
              for i, m in enumerate(widths)]  # fmt: skip
    shift = 1 if effort.broken else 0
    tracers = np.concatenate([np.roll(start, shift, axis=0)[:_SEEN] for row in starts for start in row])
    settings: dict[str, Any] = {
        "n_steps": _STEPS[-1], "learning_rate": RATE, "stage_one": _STEPS[-1], "record_steps": _STEPS
    }  # fmt: skip
    infinite = infinite_width_descent(teacher, effort.size(400, 1500), effort.seed, tracers=tracers, **settings)
    paths = infinite.trajectory.tracers.values.reshape(len(_STEPS) + 1, len(widths), len(seeds), _SEEN, _DIM)
    gaps = np.zeros((len(widths), len(seeds), len(_STEPS)))
    for i, row in enumerate(starts):
        for k, start in enumerate(row):
            # a network and its neurons repeated are the same mean-field network: one shape is compiled once
            repeated = np.resize(start, (int(widths[-1]), _DIM))
            run = truncated_descent(risk, len(repeated), start=repeated, record_weights=True, **settings)
            off = run.trajectory.weights.values[1:, :_SEEN] - paths[1:, i, k]
            gaps[i, k] = np.mean(np.sum(off**2, axis=2), axis=1)
    gap = np.sqrt(gaps.mean(axis=1))
    note = (
        f"d = {_DIM}, against {infinite.width} symmetric particles; at m = {widths[-1]} the gap is {gap[-1][0]:.2g} "
        f"after {_STEPS[0]} steps and {gap[-1][-1] / gap[-1][0]:.2f} times that after {_STEPS[-1]}"
    )
    parts = [
        claim.rate(widths, gap[:, i], -0.5, side="at most", note=note, axes=("m", f"gap after {s} steps"))
        for i, s in enumerate(_STEPS)
    ]
    return worst(parts)


CLAIMS = (
    Claim("LMZ Claim 2.1 (width)", "LMZ", "m sampled neurons give the population's gradient up to O(m^{-1/2})", "rate",
          width_error),
    Claim("LMZ Claim 2.1 (samples)", "LMZ", "N samples give the gradient up to O(N^{-1/2})", "rate", sample_error),
    Claim("LMZ Section B", "LMZ", "a finite network follows the infinite-width one: ξ falls with m", "rate",
          finite_width),
)  # fmt: skip
