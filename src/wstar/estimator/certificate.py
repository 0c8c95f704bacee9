"""How far a penalised network is from the best of any width: the measure solver's own bound, on the same rows."""

from dataclasses import dataclass

import numpy as np

from wstar.algorithms.optimum.candidates import search
from wstar.algorithms.optimum.frank_wolfe import certified_gap, neuron_gain
from wstar.algorithms.optimum.problem import Atoms
from wstar.estimator.problem import TableProblem


@dataclass(frozen=True)
class Certificate:
    """For labels of variance 1.

    Attributes:
        weight_decay: λ.
        objective: loss, penalty of the linear part and λ times the masses.
        gap: no network of any width has an objective lower by more than this, as far as the search saw.
        sup: ``sup |η_λ|``, 1 at the optimum.
        neuron_gain: no single further neuron, at a direction that the search saw, lowers the objective by more.
    """

    weight_decay: float
    objective: float
    gap: float
    sup: float
    neuron_gain: float


def certify(problem: TableProblem, atoms: Atoms, weight_decay: float, rng: np.random.Generator) -> Certificate:
    """The certificate of :func:`wstar.optimal_measure`, for features ``M^{1/2}|x·u|`` (see :class:`TableProblem`)."""
    sample = problem.certifiable()
    found = search(sample, atoms, rng, sample.n_starts)
    sup, gap = certified_gap(sample, atoms, weight_decay, 2.0 * found.top / weight_decay)
    gain = neuron_gain(sample, atoms, found, weight_decay)
    return Certificate(weight_decay, sample.objective(atoms, weight_decay), gap, sup, gain)
