"""Sliding Frank–Wolfe: add the summits of the field, re-solve the masses, slide the atoms, certify, repeat."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from wstar.algorithms.optimum.candidates import Candidates, search
from wstar.algorithms.optimum.problem import Atoms, MeasureProblem, unit
from wstar.algorithms.optimum.slide import merge, resolve_masses, slide

# a last coordinate below this is a direction of the span, seen with the search's own accuracy
_IN_SPAN = 1e-6
# summits lower than this share of the highest excess wait for a later round; most that enter in one round
_LEAST_EXCESS, _MOST_NEW = 0.05, 200
_SLIDE_STEPS, _SLIDE_ACCURACY = 25, 0.03
# rounds without a gap a tenth lower before giving up
_PATIENCE = 12
# the last search, by which the answer is certified, uses this many times the starts
_CERTIFYING_EFFORT = 4


@dataclass(frozen=True)
class Solution:
    """Atoms with their certificate, in the solver's units; ``problem`` may have gained coordinates on the way.

    ``history`` holds the atoms at the end of every round before.
    """

    problem: MeasureProblem
    atoms: Atoms
    sup: float
    gap: float
    neuron_gain: float
    n_iterations: int
    reason: str
    history: tuple[Atoms, ...] = ()


def certified_gap(problem: MeasureProblem, atoms: Atoms, weight_decay: float, sup: float) -> tuple[float, float]:
    """``sup|η|`` with the atoms' own values counted in, and the duality gap that it proves.

    ``p = −2R/(λs)`` with ``s = max(1, sup|η|)`` is dual feasible, and ``P − D`` collects to
    ``L(1 − 1/s)² + λ Σ|c_i|(1 − sign(c_i) η(u_i)/s)``: every term is ≥ 0 and small by itself, so that a gap far
    below the rounding of P and D is right.
    """
    values, _ = problem.field(atoms).at(atoms.directions)
    eta = -2.0 * values / weight_decay
    sup = max(sup, float(np.abs(eta).max(initial=0.0)))
    s = max(1.0, sup)
    slack = np.abs(atoms.masses) @ (1.0 - np.sign(atoms.masses) * eta / s)
    return sup, float(problem.loss(atoms) * (1.0 - 1.0 / s) ** 2 + weight_decay * slack)


def frank_wolfe(
    problem: MeasureProblem,
    weight_decay: float,
    atoms: Atoms,
    *,
    tolerance: float,
    rng: np.random.Generator,
    max_iterations: int,
) -> Solution:
    """Rounds until the certified gap is within ``tolerance``, no longer falls, or ``max_iterations`` are done.

    The best round's atoms are returned.
    """
    damping, best, best_at = 1e-3, None, 0
    history: list[Atoms] = []
    if atoms.masses.size:
        atoms, damping = _descend(problem, atoms, np.sign(atoms.masses), weight_decay, 1e-3, damping)
    for iteration in range(max_iterations + 1):
        found, sup, gap = _look(problem, atoms, weight_decay, rng, problem.n_starts)
        if gap <= tolerance:
            again = _look(problem, atoms, weight_decay, rng, _CERTIFYING_EFFORT * problem.n_starts)
            found, sup, gap = max((found, sup, gap), again, key=lambda look: look[2])
        gain = neuron_gain(problem, atoms, found, weight_decay)
        here = Solution(problem, atoms, sup, gap, gain, iteration, "")
        if best is None or gap < 0.9 * best.gap:
            best_at = iteration
        if best is None or gap < best.gap:
            best = here
        reason = _why_stop(gap, tolerance, iteration, max_iterations, iteration - best_at)
        if reason:
            return replace(best, n_iterations=iteration, reason=reason, history=tuple(history))
        history.append(atoms)
        problem, atoms, points, values = _enter_span(problem, atoms, found)
        excess = 2.0 * np.abs(values) / weight_decay - 1.0
        new = np.flatnonzero(excess > min(1e-3, _LEAST_EXCESS * (sup - 1.0)))[:_MOST_NEW]
        signs = np.concatenate([np.sign(atoms.masses), -np.sign(values[new])])
        grown = Atoms(
            np.concatenate([atoms.masses, np.zeros(len(new))]), np.concatenate([atoms.directions, points[new]])
        )
        atoms, damping = _descend(problem, grown, signs, weight_decay, _SLIDE_ACCURACY * (sup - 1.0), damping)
    raise AssertionError("the last round always has a reason to stop")


def _descend(
    problem: MeasureProblem,
    atoms: Atoms,
    signs: Float[np.ndarray, " n"],
    weight_decay: float,
    accuracy: float,
    damping: float,
) -> tuple[Atoms, float]:
    atoms, _ = resolve_masses(problem, atoms, signs, weight_decay)
    atoms = merge(problem, atoms, weight_decay)
    slid = slide(problem, atoms, weight_decay, tolerance=accuracy, damping=max(damping, 1e-6), max_steps=_SLIDE_STEPS)
    return merge(problem, slid.atoms, weight_decay), slid.damping


def _look(
    problem: MeasureProblem, atoms: Atoms, weight_decay: float, rng: np.random.Generator, n_starts: int
) -> tuple[Candidates, float, float]:
    """Search the sphere, with one coordinate beyond the span where there is one: that covers the span's ball.

    A direction ``u = v + (part orthogonal to the span)`` has ``η(u) = η(v)``, which depends on v alone, ‖v‖ ≤ 1.
    """
    wide = problem.extended()
    arena = wide or problem
    found = search(arena, atoms if wide is None else atoms.padded(wide.dim), rng, n_starts)
    sup, gap = certified_gap(problem, atoms, weight_decay, 2.0 * found.top / weight_decay)
    return found, sup, gap


def _enter_span(
    problem: MeasureProblem, atoms: Atoms, found: Candidates
) -> tuple[MeasureProblem, Atoms, Float[np.ndarray, "p k"], Float[np.ndarray, " p"]]:
    """Candidates in the problem's coordinates; where the highest one needs a new coordinate, the problem gains it."""
    points, values = found
    wide = problem.extended()
    if wide is None:
        return problem, atoms, points, values
    inside = np.abs(points[:, -1]) < _IN_SPAN
    if inside[0]:
        return problem, atoms, unit(points[inside, :-1]), values[inside]
    return wide, atoms.padded(wide.dim), points, values


def neuron_gain(problem: MeasureProblem, atoms: Atoms, found: Candidates, weight_decay: float) -> float:
    """``max_u (2|Ψ(u)| − λ)₊²/(4‖φ(u)‖²)``: what the best single mass at a candidate takes off the objective."""
    excess = 2.0 * np.abs(found.values) - weight_decay
    over = excess > 0.0
    if not over.any():
        return 0.0
    dim = found.points.shape[1]
    arena = problem if dim == problem.dim else problem.extended()
    norms = (arena or problem).field(atoms.padded(dim)).square_norms(found.points[over])
    return float((excess[over] ** 2 / (4.0 * np.maximum(norms, np.finfo(float).tiny))).max())


def _why_stop(gap: float, tolerance: float, iteration: int, cap: int, waited: int) -> str:
    if gap <= tolerance:
        return f"converged: the certified gap {gap:.1e} is within the tolerance {tolerance:.1e}"
    if waited >= _PATIENCE:
        return f"stalled: no lower gap in {waited} rounds; raise the tolerance or accept this one"
    if iteration >= cap:
        return f"round cap: {cap} rounds were done; raise max_iterations"
    return ""
