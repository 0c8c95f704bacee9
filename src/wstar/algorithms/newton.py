"""Newton's method for Stage 3 and the repair of local optima: both act on a network as a measure."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment

from wstar.algorithms.optimum.candidates import climb, distinct, search
from wstar.algorithms.optimum.problem import Atoms
from wstar.algorithms.optimum.setting import Setting, read_setting
from wstar.algorithms.optimum.slide import merge, resolve_masses, slide
from wstar.kernels.activations import HomogeneousActivation
from wstar.kernels.angles import angles
from wstar.networks.network import Measure
from wstar.networks.parametrisation import Free, widened
from wstar.networks.student import Student
from wstar.risks.base import Risk

# of λ: how far below the summit of |η_λ| beside it an atom may be left
_FIRST_ACCURACY, _ACCURACY = 1e-3, 1e-13
_SLIDE_STEPS, _ROUNDS = 25, 40
# Newton's optimum is within about this of the one it leads to
_GAP = 1e-12
# summits of |η_λ| above 1 by less are not worth a neuron; most that enter at once
_LEAST_EXCESS, _MOST_NEW = 1e-3, 40


@dataclass(frozen=True, eq=False)
class MeasureMoves:
    """Moves on trained parameters that are made on their measure and come back balanced, affine part fitted."""

    risk: Risk
    activation: HomogeneousActivation

    @cached_property
    def _setting(self) -> Setting:
        return read_setting(self.risk, self.activation)

    def settle(self, state: Free, weight_decay: float) -> tuple[Free, int]:
        """The local optimum of ``L_λ`` that the neurons of ``state`` lead to, and the Newton steps that it took.

        Masses are solved for, directions slid by Newton's method, neurons between which ``L_λ`` does not tell merged.
        What got no mass comes back wherever climbing ``|η_λ|`` from where it stood leads above 1; in the end it does
        so nowhere, which proves the rest dead (ZG eq. 5), or the width is used up. The dead stay as zero rows, so that
        rows keep their identity.
        """
        problem, scaled = self._setting.problem, weight_decay / abs(self._setting.scale)
        atoms, n_steps, damping = self._atoms(state), 0, 1e-3
        places, signs = atoms.directions, np.sign(atoms.masses)
        accuracy, value = _FIRST_ACCURACY, np.inf
        for _ in range(_ROUNDS):
            atoms, _ = resolve_masses(problem, atoms, signs, scaled)
            atoms = merge(problem, atoms, scaled)
            slid = slide(problem, atoms, scaled, tolerance=accuracy, damping=damping, max_steps=_SLIDE_STEPS)
            atoms, damping, n_steps = slid.atoms, max(slid.damping, 1e-6), n_steps + max(slid.n_steps, 1)
            summits, values = climb(problem.field(atoms), places, resolution=problem.resolution)
            excess = 2.0 * float(np.abs(values).max()) / scaled - 1.0
            least = max(_GAP / (scaled * max(atoms.total, 1.0)), 1e-12)
            room = len(state.outputs) - len(atoms.masses)
            if excess <= least or slid.objective > value - _GAP or not room:
                break
            accuracy, value = float(np.clip(0.03 * excess, _ACCURACY, _FIRST_ACCURACY)), slid.objective
            atoms, signs, _ = _joined(atoms, summits, values, scaled, least, room, problem.even)
        last = slide(problem, atoms, scaled, tolerance=_ACCURACY, damping=damping, max_steps=_SLIDE_STEPS)
        atoms, n_steps = last.atoms, n_steps + last.n_steps
        return self._parameters(atoms, state), n_steps

    def grown(self, state: Free, weight_decay: float, rng: np.random.Generator) -> tuple[Free, int]:
        """``state`` with neurons at the maximisers of ``|η_λ|`` above 1 and all masses solved for anew; how many."""
        problem, scaled = self._setting.problem, weight_decay / abs(self._setting.scale)
        atoms = self._atoms(state)
        found = search(problem, atoms, rng, problem.n_starts)
        joined, signs, n_new = _joined(
            atoms, found.points, found.values, scaled, _LEAST_EXCESS, _MOST_NEW, problem.even
        )
        solved, _ = resolve_masses(problem, joined, signs, scaled)
        return self._parameters(solved, widened(state, len(state.outputs) + n_new)), n_new

    def _atoms(self, state: Free) -> Atoms:
        return self._setting.to_atoms(Student.from_parameters(state, self.activation))

    def _parameters(self, atoms: Atoms, state: Free) -> Free:
        """Balanced neurons of these atoms in the rows of ``state`` that they came from, zero elsewhere."""
        masses, directions = self._setting.from_atoms(atoms)
        measure = self.risk.fit_affine(
            self.activation, Measure(masses, directions, np.zeros(()), np.zeros(directions.shape[1]))
        )
        state = widened(state, len(masses))
        rows, root = _rows(Student.from_parameters(state, self.activation), masses, directions), np.sqrt(np.abs(masses))
        outputs, weights = np.zeros(np.shape(state.outputs)), np.zeros(np.shape(state.weights))
        outputs[rows], weights[rows] = np.sign(masses) * root, directions * root[:, None]
        return Free(outputs, weights, np.asarray(measure.bias), np.asarray(measure.linear))


def _joined(
    atoms: Atoms,
    summits: Float[np.ndarray, "p k"],
    values: Float[np.ndarray, " p"],
    weight_decay: float,
    least: float,
    most: int,
    even: bool,
) -> tuple[Atoms, Float[np.ndarray, " n"], int]:
    """``atoms`` and, without mass yet, the highest summits with ``|η_λ| > 1 + least``; all signs; how many summits."""
    order = np.argsort(-np.abs(values), kind="stable")
    order = order[2.0 * np.abs(values[order]) / weight_decay > 1.0 + least]
    order = order[distinct(summits[order], even)][:most]
    both = Atoms(
        np.concatenate([atoms.masses, np.zeros(len(order))]), np.concatenate([atoms.directions, summits[order]])
    )
    return both, np.concatenate([np.sign(atoms.masses), -np.sign(values[order])]), len(order)


def _rows(student: Student, masses: Float[np.ndarray, " n"], directions: Float[np.ndarray, "n d"]) -> np.ndarray:
    """For each atom a row of its own: the nearest neuron of its sign where there is one, else an empty row."""
    living = np.flatnonzero(student.masses)
    cost = np.full((len(masses), student.width), np.pi)
    away = angles(directions, student.directions[living], modulo_sign=True)
    foreign = np.sign(student.masses[living])[None, :] != np.sign(masses)[:, None]
    cost[:, living] = np.where(foreign, 2.0 * np.pi, away)
    return np.asarray(linear_sum_assignment(cost)[1])
