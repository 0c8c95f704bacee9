"""LMZ Stage 1: Lemmas A.2 and A.3, Proposition A.1; and what Proposition A.4 keeps through Stage 2."""

import numpy as np

from wstar.algorithms.truncated.descent import truncated_descent
from wstar.algorithms.truncated.truncation import thresholds
from wstar.risks.population import PopulationRisk
from wstar.theory.claims.lmz_runs import (
    DIMS,
    RATE,
    WIDTH,
    mean_by_dim,
    plateau_scale,
    runs,
    settling_scale,
    spaced,
    target,
)
from wstar.theory.claims.verdict import Claim, Effort, Verdict
from wstar.theory.tensor_dynamics import first_below, mass_errors, neuron_sets
from wstar.theory.tickets import score_rule, serving, winning_tickets

# basis-like: cosine with a direction
_COSINE = 0.95
# C₀ of the small and dense neurons: the largest of d Gaussian squares is about 2 log d, so 1 would leave next to none
_DENSE = 3.0


def settling(claim: Claim, effort: Effort) -> Verdict:
    """Steps until Δ, δ_+, δ_− are all below log d/d², a_i within a factor 2 of 1/d. Broken: until order 4 halves.

    Weights are wide enough, 3d neurons, that these errors and not the finite width decide; a mean over two starts.
    """
    if effort.broken:
        found = runs(effort)
        dims, times = mean_by_dim(found, [run.times.plateau_end for run in found])
        return claim.rate(settling_scale(dims), times, 1.0, side="equal", axes=("d log d", "ηT"))
    rng, dims, times, later = np.random.default_rng(effort.seed), list(DIMS), [], []
    for dim in dims:
        teacher = target(dim, 2.0, rng)
        n = int(0.8 * settling_scale([dim])[0] / RATE)
        reached = []
        for k in range(effort.size(2, 6)):
            result = truncated_descent(
                PopulationRisk(teacher, preprocessed=False), WIDTH * dim, 10 * effort.seed + k, n, RATE, stage_one=n,
                record_weights=True, record_steps=spaced(n, 50),
            )  # fmt: skip
            errors = [mass_errors(w, teacher) for w in result.trajectory.weights.values]
            sizes = np.array([max(abs(e.total), e.largest_excess, e.largest_deficit) for e in errors])
            level = np.log(dim) / dim**2
            steps = result.trajectory.step.values.astype(float)
            reached.append(RATE * first_below(steps, sizes, level))
            later.append(float(sizes[steps * RATE > reached[-1]].max(initial=0.0) / level))
        times.append(float(np.mean(reached)))
    note = f"{min(times / settling_scale(dims)):.2g} to {max(times / settling_scale(dims)):.2g} times d log d; from "
    note += f"there to 0.8 d log d the errors stay below {max(later):.2g} log d/d²"
    return claim.rate(settling_scale(dims), times, 1.0, side="equal", note=note, axes=("d log d", "ηT"))


def plateau(claim: Claim, effort: Effort) -> Verdict:
    """Steps until order 4 has halved, against d²/log m. Broken: until orders 0 and 2 have settled.

    What shortens the plateau is the largest square of m initial coordinates, about 2 log(m)/d; LMZ's m is poly(d).
    """
    found = runs(effort)
    seen = [run.times.settled if effort.broken else run.times.plateau_end for run in found]
    dims, times = mean_by_dim(found, seen)
    scale = plateau_scale(dims)
    slope = np.polyfit(np.log(dims), np.log(times), 1)[0]
    note = f"order 4 halves at {min(times / scale):.2g} to {max(times / scale):.2g} d²/(η log m); ∝ d^{slope:.2f}"
    return claim.rate(scale, times, 1.0, side="equal", note=note, axes=("d²/log m", "ηT"))


def winners(claim: Claim, effort: Effort) -> Verdict:
    """1 − ROC area of ``a_i v_i²`` at the start for who serves at the end. Broken: the starts are shuffled.

    A perfect forecast in the limit: the error must fall with d, at least as the power −0.1 of d²/log m.
    """
    rng, found, errors, named, hits, empty = np.random.default_rng(effort.seed), runs(effort), [], 0, 0.0, True
    for run in found:
        start = rng.permutation(run.result.start) if effort.broken else run.result.start
        tickets = winning_tickets(start, run.result.weights, run.teacher, _COSINE)
        errors.append(1.0 - tickets.roc_area)
        sets = neuron_sets(start, run.teacher, RATE, run.times.plateau_end / RATE)
        quarter = neuron_sets(
            start, run.teacher, RATE, run.times.plateau_end / RATE, margin=0.25 * float(sets.thresholds[0])
        )
        score = score_rule(quarter, tickets.serves)
        named += score.named
        hits += score.named * score.precision if score.named else 0.0
        wide = neuron_sets(start, run.teacher, RATE, run.times.plateau_end / RATE, np.log(run.dim) / run.dim)
        empty = empty and not wide.good.any()
    dims, means = mean_by_dim(found, errors)
    note = (
        f"ROC area {1.0 - means[0]:.3f} at d = {dims[0]}, {1.0 - means[-1]:.3f} at {dims[-1]}; of {named} good neurons "
        f"by the threshold rule with ρ = Γ/4, {hits / max(named, 1):.0%} serve their teacher neuron at the end"
        + ("; with ρ = log d/d no neuron is good at these d" if empty else "")
    )
    axes = ("d²/log m", "1 − ROC area")
    return claim.rate(plateau_scale(dims), means, -0.1, side="at most", slack=0.0, note=note, axes=axes)


def typical(claim: Claim, effort: Effort) -> Verdict:
    """Neurons that start with ``‖w̄‖²_∞ ≤ C₀ log d/d`` up to T₂ = πd²/(4C₀η log d). Broken: up to 10 T₂.

    At that T₂ LMZ's threshold is Γ = 2C₀ log d/d, so such a coordinate's square about doubles. Asked for: its square
    stays below e C₀ log d/d, ‖w‖² below twice the largest at the start, and E w_i² between 1/(2d) and 2/d.
    """
    ratios, shares = [], []
    for run in runs(effort):
        limit = _DENSE * np.log(run.dim) / run.dim
        squares = run.result.start**2
        dense = squares.max(axis=1) <= limit * squares.sum(axis=1)
        end = 0.25 * np.pi * run.dim**2 / (_DENSE * np.log(run.dim)) * (10.0 if effort.broken else 1.0)
        path = run.weights[RATE * run.steps <= end]
        shares.append(dense.mean())
        norms = (path[:, dense] ** 2).sum(axis=2)
        ratios.append(float((path[:, dense] ** 2).max()) / (np.exp(1.0) * limit))
        ratios.append(0.5 * float(norms.max() / norms[0].max()))
        means = run.dim * (path[-1] ** 2).mean(axis=0)
        ratios += [float(means.max()) / 2.0, 0.5 / float(means.min())]
    note = f"C₀ = {_DENSE}: {min(shares):.0%} of the neurons or more, d = 5 to 64"
    return claim.inequality(ratios, note)


def second_stage(claim: Claim, effort: Effort) -> Verdict:
    """Through Stage 2. Broken: another neuron is looked at after the first record of the stage.

    Nobody reaches the threshold 1/(2λ₁); who is basis-like stays so and keeps half of its own coordinate's square;
    neurons with two large coordinates (squares above 2 log d/d) weigh less than the basis-like ones, and ever less.
    """
    rng, ratios, worst_bad = np.random.default_rng(effort.seed), [], 0.0
    for run in runs(effort):
        later = run.weights[run.second_stage :].copy()
        if effort.broken:
            later[1:] = later[1:, rng.permutation(later.shape[1])]
        squares = later**2
        norms = squares.sum(axis=2)
        ratios.append(float(norms.max()) * 2.0 * thresholds(run.dim)[1])
        basis_like = serving(later[0], run.teacher, _COSINE).any(axis=1)
        own = np.take_along_axis(squares, squares[:1].argmax(axis=2)[..., None], axis=2)[..., 0]
        ratios.append(float(((1.0 - own / norms)[:, basis_like]).max()) / (1.0 - _COSINE**2))
        ratios.append(0.5 * float((own[0] / own)[:, basis_like].max()))
        bad = np.sort(squares, axis=2)[:, :, -2] > 2.0 * np.log(run.dim) / run.dim
        bad_mass, good_mass = (bad * norms).mean(axis=1), norms[:, basis_like].sum(axis=1) / norms.shape[1]
        worst_bad = max(worst_bad, float(bad_mass[-1] / good_mass[-1]))
        ratios.append(float((bad_mass / good_mass).max()))
    note = f"at the end neurons with two large coordinates have at most {worst_bad:.2g} of the basis-like ones' mass"
    return claim.inequality(ratios, note)


CLAIMS = (
    Claim("LMZ Lemma A.2", "LMZ", "Stage 1.1: Δ, δ_+ and δ_− fall below O(log d/d²) within Θ(d log d/η)", "rate",
          settling, "lmz"),
    Claim("LMZ Lemma A.3 (plateau)", "LMZ", "Stage 1.2: the plateau lasts Θ(d²/(η log d))", "rate", plateau, "lmz"),
    Claim("LMZ Lemma A.3 (winners)", "LMZ", "the neurons with the largest initial coordinates become basis-like",
          "rate", winners, "lmz"),
    Claim("LMZ Prop. A.1", "LMZ", "typical neurons stay small and dense through Stage 1", "set", typical, "lmz"),
    Claim("LMZ Prop. A.4", "LMZ",
          "Stage 2: no neuron is truncated, basis-like neurons stay basis-like, bad ones weigh little", "set",
          second_stage, "lmz"),
)  # fmt: skip
