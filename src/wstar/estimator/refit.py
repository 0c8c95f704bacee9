"""What the penalty takes away is given back: the few neurons found are fitted again without it."""

from itertools import product

import numpy as np
from jaxtyping import Float

from wstar.algorithms.optimum.problem import Atoms
from wstar.estimator.polish import joined, polish
from wstar.estimator.problem import TableProblem

# neurons of one sign within this angle are one to begin with
_JOIN = 0.2
_MOST_NEURONS = 60
# of the rows: more parameters than that are not refitted
_MOST_PARAMETERS = 0.5
# only there so that a neuron without use cannot grow for ever
_PENALTY = 1e-9
_STEPS, _TOLERANCE = 150, 1e-10
_PRUNING_STEPS, _PRUNING_TOLERANCE = 40, 1e-8
# of the labels' variance: a fit below it is exact, and fewer neurons are then better
_EXACT = 1e-8


def joined_count(atoms: Atoms) -> int:
    """Neurons that a refit starts from."""
    return len(joined(atoms, _JOIN).masses) if len(atoms.masses) else 0


def refit(problem: TableProblem, atoms: Atoms) -> tuple[TableProblem, Atoms] | None:
    """The neurons joined and fitted without penalty, less what the Bayesian information criterion finds useless.

    In turn: neurons that add least, while the criterion falls; then thresholds and linear part, where ReLU neurons
    may take |·| ones' place. None where parameters are too many for the rows.

    Source: Schwarz, Estimating the dimension of a model (1978); Denoyelle, Duval, Peyré and Soubies, The sliding
    Frank–Wolfe algorithm (2019) for the joint fit.
    """
    problem = problem.restricted(linear=True, thresholds=True, relu=False)
    found = joined(atoms, _JOIN) if len(atoms.masses) else atoms
    room = _MOST_PARAMETERS * problem.count - problem.linear_freedom
    if not 0 < len(found.masses) <= min(_MOST_NEURONS, room / problem.n_free):
        return None
    found = _fitted(problem, _prune(problem, _nearly_fitted(problem, found)))
    if not len(found.masses):
        return problem, found
    rivals = [(problem, found)]
    for linear, thresholds in product((True, False), repeat=2):
        for relu in (False,) if linear else (False, True):
            if linear and thresholds:
                continue
            other = problem.restricted(linear=linear, thresholds=thresholds, relu=relu)
            rivals.append((other, _fitted(other, _carried(problem, found, other))))
    return min(rivals, key=lambda rival: information_criterion(*rival))


def information_criterion(problem: TableProblem, atoms: Atoms) -> float:
    """``n log(loss) + (free parameters) log n``."""
    loss = max(problem.loss(atoms), _EXACT * float((problem.weights * problem.target) @ problem.target))
    parameters = len(atoms.masses) * problem.n_free + problem.linear_freedom
    return problem.count * float(np.log(max(loss, np.finfo(float).tiny))) + parameters * float(np.log(problem.count))


def _fitted(problem: TableProblem, atoms: Atoms) -> Atoms:
    return polish(problem, atoms, _PENALTY, max_steps=_STEPS, tolerance=_TOLERANCE)


def _nearly_fitted(problem: TableProblem, atoms: Atoms) -> Atoms:
    return polish(problem, atoms, _PENALTY, max_steps=_PRUNING_STEPS, tolerance=_PRUNING_TOLERANCE)


def _prune(problem: TableProblem, atoms: Atoms) -> Atoms:
    value = information_criterion(problem, atoms)
    while len(atoms.masses):
        rise = _rise_without(problem, atoms)
        # many at once where each is clearly noise, else the least
        price = problem.n_free * np.log(problem.count) / problem.count * max(problem.loss(atoms), 1e-300)
        gone = rise < 0.3 * price
        if np.count_nonzero(gone) < 2 or gone.all():
            gone = np.arange(len(rise)) == rise.argmin()
        fewer = _nearly_fitted(problem, Atoms(atoms.masses[~gone], atoms.directions[~gone]))
        new_value = information_criterion(problem, fewer)
        if new_value > value:
            break
        atoms, value = fewer, new_value
    return atoms


def _rise_without(problem: TableProblem, atoms: Atoms) -> Float[np.ndarray, " m"]:
    """How much the loss rises without each neuron, the other masses solved for again."""
    gram, _ = problem.mass_problem(atoms.directions)
    inverse = np.diag(np.linalg.pinv(gram, rcond=1e-12, hermitian=True))
    return atoms.masses**2 / np.maximum(inverse, np.finfo(float).tiny)


def _carried(problem: TableProblem, atoms: Atoms, other: TableProblem) -> Atoms:
    """Atoms of ``problem`` (|·|, linear part) as a start for ``other``."""
    masses, directions = atoms.masses, atoms.directions
    if other.relu:
        slope = -problem.linear_fit(problem.residual(atoms))
        directions = _turned(masses, directions, slope)
        masses = 2.0 * masses
    if not other.thresholds:
        directions = np.column_stack([directions[:, :-1], np.zeros(len(directions))])
        length = np.linalg.norm(directions, axis=1)
        masses, directions = masses * length, directions / np.where(length > 0.0, length, 1.0)[:, None]
    kept = masses != 0.0
    return Atoms(masses[kept], directions[kept])


def _turned(
    masses: Float[np.ndarray, " m"], directions: Float[np.ndarray, "m d1"], slope: Float[np.ndarray, " d"]
) -> Float[np.ndarray, "m d1"]:
    """Signs of the directions with which ``m|t| = 2m ReLU(±t) ∓ m t`` leaves the least linear part."""
    directions = directions.copy()
    left = slope - masses @ directions[:, :-1]
    for _ in range(10 * len(masses)):
        gains = left + 2.0 * masses[:, None] * directions[:, :-1]
        sizes = np.linalg.norm(gains, axis=1)
        best = int(sizes.argmin())
        if sizes[best] >= (1.0 - 1e-9) * np.linalg.norm(left):
            break
        left, directions[best] = gains[best], -directions[best]
    return directions
