"""The fewest atoms that are as good: a sparse measure beside the crowded one that certifies it.

The dual point of a measure is feasible only where its field is flat to the gap asked for, which takes many atoms
where the optimum is spread out; its objective is right long before. Primal and dual point need not be the same
measure, so the answer is the sparsest measure at hand whose objective stays within the room that is left.
"""

from collections.abc import Iterable

import numpy as np

from wstar.algorithms.optimum.problem import Atoms, MeasureProblem
from wstar.algorithms.optimum.slide import merge, resolve_masses, slide

# light atoms are tried without: those below these shares of the heaviest
_LIGHT = (0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5)
# a trial further off than this many times the room is not worth a descent
_HOPEFUL = 1e3
_STEPS = 40
# trials of one number of atoms
_MOST_TRIALS = 3


def fewest_atoms(
    problem: MeasureProblem, atoms: Atoms, weight_decay: float, room: float, history: Iterable[Atoms]
) -> Atoms:
    """The sparsest of ``history`` and of ``atoms`` without light ones, slid, with objective at most ``room`` higher."""
    least = problem.objective(atoms, weight_decay)
    sizes = np.abs(atoms.masses)
    lightened = [_kept(atoms, sizes > share * sizes.max(initial=0.0)) for share in _LIGHT]
    tried: dict[int, int] = {}
    # among equal counts the later ones first: they come from better measures
    trials = [*lightened, *list(history)[::-1]]
    for trial in sorted(trials, key=lambda t: len(t.masses)):
        n = len(trial.masses)
        if n >= len(atoms.masses):
            break
        if n == 0 or tried.get(n, 0) >= _MOST_TRIALS:
            continue
        found, objective = _settled(problem, trial.padded(problem.dim), weight_decay, least, room)
        if objective - least <= room:
            return found
        tried[n] = tried.get(n, 0) + 1
    return atoms


def _settled(
    problem: MeasureProblem, trial: Atoms, weight_decay: float, least: float, room: float
) -> tuple[Atoms, float]:
    trial, objective = resolve_masses(problem, trial, np.sign(trial.masses), weight_decay)
    if objective - least > _HOPEFUL * room:
        return trial, objective
    slid = slide(problem, trial, weight_decay, tolerance=1e-9, damping=1e-6, max_steps=_STEPS)
    best = merge(problem, slid.atoms, weight_decay)
    return best, problem.objective(best, weight_decay)


def _kept(atoms: Atoms, keep: np.ndarray) -> Atoms:
    return Atoms(atoms.masses[keep], atoms.directions[keep])
