"""Whether skewed columns enter by a power: where plain ridge regression predicts better with them so."""

import numpy as np
from jaxtyping import Float

from wstar.estimator.inputs import Inputs
from wstar.estimator.ladder import Ladder
from wstar.estimator.problem import leave_one_out

# rows that the comparison looks at; a few rows say nothing about shapes
_MOST_ROWS, _LEAST_ROWS = 5_000, 20


def chosen_powers(
    X: Float[np.ndarray, "n d"], labels: Float[np.ndarray, " n"], counts: Float[np.ndarray, " n"]
) -> Ladder:
    """The powers of :meth:`Ladder.least_skewed` if they lower ridge's leave-one-out error, else none.

    Skewness alone would also bend columns that act linearly. All columns or none: to choose one by one fits the noise
    as often as the shape.
    """
    full, none = Ladder.least_skewed(X, counts), Ladder.none(X.shape[1])
    if len(X) < _LEAST_ROWS or not full.moved.any():
        return none
    rows = slice(None, None, -(-len(X) // _MOST_ROWS))
    part, weights = np.asarray(X[rows], dtype=float), counts[rows]

    def error(ladder: Ladder) -> float:
        inputs = Inputs.fit(part, weights / weights.sum(), 0.0, 1.0, 0.0, ladder)
        return leave_one_out(inputs, part, labels[rows], weights)[1]

    # the share that one more parameter costs
    return full if error(full) < (1.0 - 2.0 / counts.sum()) * error(none) else none
