"""How many neurons and directions the data support."""

import numpy as np
from jaxtyping import Float

from wstar.estimator.fitting import Point
from wstar.estimator.network import TableNetwork, neurons_of
from wstar.estimator.refit import information_criterion

# singular values below this share of the largest are directions that neurons share up to their own errors
_RANK_SHARE = 0.15


def supported(points: list[Point]) -> tuple[int, int]:
    """Neurons, and dimension of their directions' span, of the unpenalised network that BIC prefers.

    Among ridge regression and the refitted networks the one with the least Bayesian information criterion is taken;
    the dimension is the number of singular values of its directions (each projection at standard deviation 1) above
    0.15 of the largest. Even links count as any other: nothing here needs a first Hermite coefficient.
    """
    rivals = [one for one in points if one.refitted or not len(one.atoms.masses)]
    best = min(rivals, key=lambda one: information_criterion(one.problem, one.atoms))
    if not len(best.atoms.masses):
        return 0, 0
    inputs = best.problem.inputs
    network = TableNetwork.of(best.problem, best.atoms)
    neurons, _, _ = neurons_of((network,), inputs, 0.0)
    return len(neurons.masses), _rank(inputs.whitened(neurons.directions))


def _rank(rows: Float[np.ndarray, "m d"]) -> int:
    if not len(rows):
        return 0
    singular = np.linalg.svd(rows, compute_uv=False)
    return int(np.count_nonzero(singular > _RANK_SHARE * singular[0]))
