"""Moves that lower ``‖R‖² + λ|μ|₁``: masses re-solved, atoms slid by Newton's method, neighbours merged."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from wstar.algorithms.nonnegative import nonnegative_masses
from wstar.algorithms.optimum.problem import Atoms, MeasureProblem, ResidualField, unit

# in units of λ; how often a rejected step is tried with eight times more
_LEAST_DAMPING, _ATTEMPTS = 1e-14, 12
# of 2|Ψ|: what float64 leaves unknown
_ROUNDING = 4e-16
_LONGEST_SLIDE = 0.5
_MERGE_CHORD = 0.3
# pairs tried in one pass of merging: where there are many more, they are parts of a spread-out optimum
_MOST_PAIRS = 30


class Slid(NamedTuple):
    """Atoms with their objective, the damping to go on with, and the Newton steps taken."""

    atoms: Atoms
    objective: float
    damping: float
    n_steps: int


def resolve_masses(
    problem: MeasureProblem, atoms: Atoms, signs: Float[np.ndarray, " n"], weight_decay: float
) -> tuple[Atoms, float]:
    """Masses at their optimum for fixed directions and signs; atoms that get none are dropped. Also the objective."""
    gram, correlation = problem.mass_problem(atoms.directions)
    sizes = nonnegative_masses(
        gram * np.outer(signs, signs), signs * correlation - 0.5 * weight_decay, np.abs(atoms.masses)
    )
    keep = sizes > 0.0
    masses = (signs * sizes)[keep]
    loss = problem.energy + masses @ (gram[np.ix_(keep, keep)] @ masses - 2.0 * correlation[keep])
    return Atoms(masses, atoms.directions[keep]), float(loss) + weight_decay * float(sizes.sum())


def slide(
    problem: MeasureProblem,
    atoms: Atoms,
    weight_decay: float,
    *,
    tolerance: float,
    damping: float,
    max_steps: int,
) -> Slid:
    """Newton on directions and masses together, until no atom is below its own summit of |η_λ| by ``tolerance``.

    Levenberg–Marquardt damping keeps the Hessian positive. After each step the masses are solved for again: what
    bends the valley that clusters of atoms lie in is mass that must follow the directions, and with it out of the way
    the steps converge quadratically down to clusters of width 1e-3.
    """
    atoms, objective = resolve_masses(problem, atoms, np.sign(atoms.masses), weight_decay)
    for n_steps in range(max_steps):
        gradient, hessian = problem.derivatives(atoms, weight_decay)
        if _overshoot(problem, atoms, gradient) <= tolerance * weight_decay + _ROUNDING:
            return Slid(atoms, objective, damping, n_steps)
        lower = _damped_step(problem, atoms, objective, gradient, hessian, weight_decay, damping)
        if lower is None:
            return Slid(atoms, objective, 1.0, n_steps)
        atoms, objective, damping = lower
    return Slid(atoms, objective, damping, max_steps)


def _damped_step(
    problem: MeasureProblem,
    atoms: Atoms,
    objective: float,
    gradient: Float[np.ndarray, " nk"],
    hessian: Float[np.ndarray, "nk nk"],
    weight_decay: float,
    damping: float,
) -> tuple[Atoms, float, float] | None:
    """The first damped Newton step that does not raise the objective, with the damping to go on with; None if none."""
    slack = 2e-17 * (1.0 + atoms.total**2)
    for attempt in range(_ATTEMPTS):
        moved = _newton_move(atoms, gradient, hessian, damping * weight_decay)
        if moved is not None:
            trial, value = resolve_masses(problem, moved, np.sign(moved.masses), weight_decay)
            if value <= objective + slack:
                return trial, value, max(damping / (20.0 if attempt == 0 else 3.0), _LEAST_DAMPING)
        damping = max(8.0 * damping, 1e4 * _LEAST_DAMPING)
    return None


def _overshoot(problem: MeasureProblem, atoms: Atoms, gradient: Float[np.ndarray, " nk"]) -> float:
    """How much ``2|Ψ|`` would grow, to second order, from an atom to the summit beside it; the largest."""
    if not atoms.masses.size:
        return 0.0
    _, steps = problem.field(atoms).ascent(atoms.directions)
    slopes = gradient.reshape(steps.shape) / np.sqrt(np.abs(atoms.masses))[:, None]
    return 0.5 * float(np.abs(np.sum(steps * slopes, axis=1)).max())


def _newton_move(
    atoms: Atoms, gradient: Float[np.ndarray, " nk"], hessian: Float[np.ndarray, "nk nk"], damping: float
) -> Atoms | None:
    """The damped Newton step; None where the damped Hessian is not positive or an atom would turn too far."""
    system = hessian.copy()
    system.flat[:: len(gradient) + 1] += damping
    try:
        factor = cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    sizes = np.abs(atoms.masses)
    change = -cho_solve(factor, gradient, check_finite=False).reshape(atoms.directions.shape) * np.sqrt(sizes)[:, None]
    growth = np.sum(change * atoms.directions, axis=1)
    turn = (change - growth[:, None] * atoms.directions) / sizes[:, None]
    keep = sizes + growth > 0.0
    if np.linalg.norm(turn[keep], axis=1).max(initial=0.0) > _LONGEST_SLIDE:
        return None
    return Atoms((np.sign(atoms.masses) * (sizes + growth))[keep], unit(atoms.directions + turn)[keep])


def merge(problem: MeasureProblem, atoms: Atoms, weight_decay: float) -> Atoms:
    """Join nearest neighbours of one sign, closest first, wherever the objective does not rise."""
    while len(atoms.masses) > 1:
        joined = _merge_pass(problem, atoms, weight_decay)
        if len(joined.masses) == len(atoms.masses):
            break
        atoms = joined
    return atoms


def _merge_pass(problem: MeasureProblem, atoms: Atoms, weight_decay: float) -> Atoms:
    masses, directions = atoms.masses.copy(), atoms.directions.copy()
    cosine = directions @ directions.T
    flip = np.where(cosine < 0.0, -1.0, 1.0) if problem.even else np.ones_like(cosine)
    chords = np.sqrt(np.maximum(2.0 - 2.0 * flip * cosine, 0.0))
    chords[np.sign(masses)[:, None] != np.sign(masses)] = np.inf
    np.fill_diagonal(chords, np.inf)
    nearest = chords.argmin(axis=1)
    distance = chords[np.arange(len(masses)), nearest]
    free, present = np.ones(len(masses), dtype=bool), np.ones(len(masses), dtype=bool)
    field = problem.field(atoms)
    for i in np.argsort(distance, kind="stable")[: 2 * _MOST_PAIRS]:
        j = nearest[i]
        if distance[i] > _MERGE_CHORD:
            break
        if not (free[i] and free[j]):
            continue
        sum_ = abs(masses[i]) * directions[i] + flip[i, j] * abs(masses[j]) * directions[j]
        length = float(np.linalg.norm(sum_))
        change = Atoms(
            np.array([np.sign(masses[i]) * length, -masses[i], -masses[j]]),
            np.stack([sum_ / length, directions[i], directions[j]]),
        )
        rise = _rise(problem, field, change) + weight_decay * (length - abs(masses[i]) - abs(masses[j]))
        if rise <= 0.0:
            masses[i], directions[i], present[j] = change.masses[0], change.directions[0], False
            free[[i, j]] = False
            field = problem.field(Atoms(masses[present], directions[present]))
    return Atoms(masses[present], directions[present])


def _rise(problem: MeasureProblem, field: ResidualField, change: Atoms) -> float:
    """``‖R + Δ‖² − ‖R‖²`` from the residual's field: far below the rounding of either square.

    At small λ that matters: a rise of ε can move η by as much as ``2√(ε K(1))/λ``.
    """
    gram, _ = problem.mass_problem(change.directions)
    return float(change.masses @ (2.0 * field.at(change.directions)[0] + gram @ change.masses))
