"""LMZ Stage 2 (Lemmas A.5, A.6) and Theorems 3.1 and 1.1: when the target is fitted, and how well."""

import numpy as np

from wstar.algorithms.truncated.descent import truncated_descent
from wstar.algorithms.truncated.infinite_width import infinite_width_descent
from wstar.algorithms.truncated.truncation import stage_one_steps
from wstar.kernels.hermite import coefficient_energy
from wstar.risks.population import PopulationRisk
from wstar.theory.claims.lmz_runs import DIMS, RATE, mean_by_dim, runs, settling_scale, spaced, target
from wstar.theory.claims.verdict import Claim, Effort, Verdict
from wstar.theory.tensor_dynamics import mass_errors, stage_times

# LMZ's Q is below 1/100
_Q = 0.01


def warm_start(claim: Claim, effort: Effort) -> Verdict:
    """From the end of the plateau until every relative tensor loss is at most 0.1. Broken: from the run's start."""
    found = runs(effort)
    waits = [run.times.warm - (0.0 if effort.broken else run.times.plateau_end) for run in found]
    dims, times = mean_by_dim(found, waits)
    left = [run.dim * float(run.trajectory.loss.values[run.at(run.times.warm)]) for run in found]
    scale = settling_scale(dims)
    note = f"{min(times / scale):.2g} to {max(times / scale):.2g} d log d/η, after which d·L ≤ {max(left):.2g}"
    return claim.rate(scale, times, 1.0, side="at most", note=note, axes=("d log d", "ηT"))


def last_stage(claim: Claim, effort: Effort) -> Verdict:
    """Φ = max(|Δ|, δ_+, δ_−) against the time since the warm start. Broken: half as many neurons as directions.

    ``Φ ← Φ(1 − Ω(ηΦ))`` gives Φ = O(1/ηt). LMZ's Φ also weighs the neurons that are not potential ones.
    """
    dim = effort.size(12, 20)
    teacher, n = target(dim), effort.size(60_000, 200_000)
    width = dim // 2 if effort.broken else 4 * dim
    result = truncated_descent(
        PopulationRisk(teacher, preprocessed=False), width, effort.seed, n, RATE,
        record_weights=True, record_steps=spaced(n, 150),
    )  # fmt: skip
    # a network too narrow for a warm start is looked at from the end of Stage 1
    warm = float(result.stages[0].last_step) if effort.broken else stage_times(result.trajectory).warm
    steps = result.trajectory.step.values.astype(float)
    errors = [mass_errors(w, teacher) for w in result.trajectory.weights.values]
    sizes = np.array([max(abs(e.total), e.largest_excess, e.largest_deficit) for e in errors])
    # from the time on that the warm start itself took
    late = steps >= 1.5 * warm
    times = RATE * (steps[late] - warm)
    found = () if effort.broken else runs(effort)
    slope = np.nan
    if found:
        dims, waits = mean_by_dim(found, [run.times.fitted - run.times.warm for run in found])
        slope = float(np.polyfit(np.log(dims), np.log(waits), 1)[0])
    losses = result.trajectory.loss.values[late]
    note = (
        f"d = {dim}: L from {losses[0]:.1e} to {losses[-1]:.1e}; from 10 % to 1 % of every "
        f"order in a time ∝ d^{slope:.2f} (claimed 1 + 10Q), d = {DIMS[0]} to {DIMS[-1]}, too few decades to decide"
    )
    return claim.rate(times, sizes[late], -1.0, side="at most", note=note, axes=("η(t − T₃)", "Φ"))


def infinite_width(claim: Claim, effort: Effort) -> Verdict:
    """Final loss of the symmetric network against d. Broken: Stage 1 alone."""
    dims, losses = [4, 6, 8, 12] if effort.quick else [4, 6, 10, 16, 24, 32], []
    for dim in dims:
        n = stage_one_steps(dim, RATE) // 4 if effort.broken else None
        run = infinite_width_descent(target(dim), effort.size(48, 96), effort.seed, n, RATE)
        losses.append(float(run.trajectory.loss.values[-1]))
    return _final(claim, dims, losses)


def finite_width(claim: Claim, effort: Effort) -> Verdict:
    """Final loss of 3d neurons (full: also 2d at d = 100, 130 and 160) against d. Broken: the loss on the plateau."""
    found = runs(effort)
    seen = [run.at(run.times.settled) if effort.broken else -1 for run in found]
    dims, losses = mean_by_dim(found, [float(r.trajectory.loss.values[k]) for r, k in zip(found, seen, strict=True)])
    if not effort.quick and not effort.broken:
        for dim in (100, 130, 160):
            risk = PopulationRisk(target(dim), preprocessed=False)
            run = truncated_descent(risk, 2 * dim, effort.seed, None, RATE, record_steps=())
            dims, losses = [*dims, dim], [*losses, float(run.trajectory.loss.values[-1])]
    return _final(claim, dims, losses)


def _final(claim: Claim, dims: list[int], losses: list[float]) -> Verdict:
    scaled = np.array(dims) * losses
    floor = 1.0 - coefficient_energy(0) - coefficient_energy(2)
    late = np.polyfit(np.log(dims[len(dims) // 2 :]), np.log(losses[len(dims) // 2 :]), 1)[0]
    note = (
        f"d·L from {scaled.min():.1e} to {scaled.max():.1e} after 2d²/(η log d) + 20d^1.1/η steps, where every "
        f"polynomial of order 2 leaves {floor:.3f}; over the upper half of the d the slope is {late:.2f}"
    )
    return claim.rate(dims, losses, -1.0 - _Q, side="at most", note=note, axes=("d", "final L"))


CLAIMS = (
    Claim("LMZ Lemma A.5", "LMZ", "Stage 2.1: a warm start, L = o(1/d), within Θ(d log d/η)", "rate", warm_start,
          "lmz"),
    Claim("LMZ Lemma A.6", "LMZ", "Stage 2.2: the potential Φ falls as O(1/(ηt)), so L = O(1/d^{1+Q}) in time", "rate",
          last_stage, "lmz"),
    Claim("LMZ Theorem 3.1", "LMZ", "infinite width: the final loss is O(1/d^{1+Q})", "rate", infinite_width),
    Claim("LMZ Theorem 1.1", "LMZ", "finite width: the final loss is O(1/d^{1+Q})", "rate", finite_width, "lmz"),
)  # fmt: skip
