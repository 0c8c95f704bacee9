"""What resampling says about a fit: how far directions turn and curves move (Efron's bootstrap)."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment

from wstar.estimator.fitting import Plan, Point
from wstar.estimator.inputs import Inputs
from wstar.estimator.network import Neurons, TableNetwork, carried, neurons_of
from wstar.estimator.polish import polish

_STEPS = 100


@dataclass(frozen=True, eq=False)
class Resamples:
    """Neurons of B fits to rows drawn with replacement, matched one to one to those of the fit (mass 0: none is left).

    Attributes:
        cosines: (B, K), size of the correlation of projections on each direction and the nearest one of the resample.
        masses, thresholds: (B, K), turned as the fit's neurons are and for projections on their directions.
        relu: the fit's activation.
    """

    cosines: Float[np.ndarray, "B K"]
    masses: Float[np.ndarray, "B K"]
    thresholds: Float[np.ndarray, "B K"]
    relu: bool

    def band(
        self, neuron: int, projection: Float[np.ndarray, " t"], level: float = 0.9
    ) -> tuple[Float[np.ndarray, " t"], Float[np.ndarray, " t"]]:
        """Pointwise lower and upper limits of ``mass σ(t + threshold)`` of one neuron: percentiles over resamples."""
        pre = projection[None, :] + self.thresholds[:, neuron, None]
        curves = self.masses[:, neuron, None] * (np.maximum(pre, 0.0) if self.relu else np.abs(pre))
        low, high = np.quantile(curves, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
        return low, high


def resample(
    point: Point,
    plan: Plan,
    ours: Neurons,
    centre: float,
    scale: float,
    n_resamples: int,
    rng: np.random.Generator,
) -> Resamples:
    """Polish the point's neurons on resampled rows, ``n_resamples`` times."""
    problem, reference = point.problem, point.problem.inputs
    found = []
    for _ in range(n_resamples):
        counts = rng.multinomial(len(problem.labels), problem.weights)
        drawn = counts > 0
        weights, X = counts[drawn] / counts.sum(), problem.columns[drawn]
        inputs = Inputs.fit(X, weights, plan.shrinkage, plan.threshold_scale, plan.guard, plan.ladder)
        other = replace(problem, inputs=inputs, columns=X, labels=problem.labels[drawn], weights=weights)
        start = carried(point.atoms, reference, inputs)
        atoms = polish(other, start, 1e-9 if point.refitted else point.weight_decay, max_steps=_STEPS)
        network = TableNetwork.of(other, atoms, centre, scale)
        found.append(_matched(neurons_of((network,), reference, 0.0)[0], ours, reference))
    cosines, masses, thresholds = (np.array(part) for part in zip(*found, strict=True))
    return Resamples(cosines, masses, thresholds, ours.relu)


def _matched(theirs: Neurons, ours: Neurons, reference: Inputs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    k = len(ours.masses)
    masses, thresholds = np.zeros(k), np.zeros(k)
    if not len(theirs.masses):
        return np.zeros(k), masses, thresholds
    cosines = reference.whitened(ours.directions) @ reference.whitened(theirs.directions).T
    opposed = np.sign(ours.masses)[:, None] != np.sign(theirs.masses)
    likeness = np.where(opposed, 0.0, cosines if ours.relu else np.abs(cosines))
    # one to one: two neurons of ours that share one of theirs would count its mass twice
    own, other = linear_sum_assignment(likeness, maximize=True)
    found = likeness[own, other] > 0.0
    own, other = own[found], other[found]
    masses[own] = theirs.masses[other]
    # about the mean: along ours, a threshold must not hold what theirs differ by in the columns' means
    centred = theirs.thresholds[other] + theirs.directions[other] @ reference.mean
    thresholds[own] = np.sign(cosines[own, other]) * centred - ours.directions[own] @ reference.mean
    return np.abs(likeness).max(axis=1), masses, thresholds
