"""What a fit remembers, so that bands and certificate can be computed from the training rows again."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from wstar.algorithms.optimum.problem import Atoms
from wstar.estimator.fitting import Point
from wstar.estimator.inputs import Inputs
from wstar.estimator.network import carried
from wstar.estimator.problem import TableProblem


@dataclass(frozen=True, eq=False)
class Kept:
    """The chosen network and the penalised one that it came from, without any rows.

    Attributes:
        inputs: of all rows.
        atoms, penalised: with and without the refit, in the coordinates of ``inputs``.
        alpha, linear_alpha: penalties of the linear part, of the penalised and of the chosen network.
        relu, thresholds, refitted: of the chosen network.
        centre, scale: labels were ``(y − centre)/scale``.
    """

    inputs: Inputs
    atoms: Atoms
    penalised: Atoms
    alpha: float
    linear_alpha: float
    relu: bool
    thresholds: bool
    refitted: bool
    centre: float
    scale: float

    @classmethod
    def of(cls, point: Point, own: Point, centre: float, scale: float) -> "Kept":
        """From the chosen point and the penalised point at the same weight decay."""
        problem = point.problem
        return cls(
            problem.inputs,
            point.atoms,
            carried(own.atoms, own.problem.inputs, problem.inputs) if point.refitted else point.atoms,
            own.problem.alpha,
            problem.alpha,
            problem.relu,
            problem.thresholds,
            point.refitted,
            centre,
            scale,
        )

    def problem(self, X: Float[np.ndarray, "n d"], y: Any, sample_weight: Any, *, penalised: bool) -> TableProblem:
        """The chosen network's problem on these rows, or the penalised one's."""
        labels = (np.asarray(y, dtype=float).reshape(len(X)) - self.centre) / self.scale
        counts = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        alpha, relu, thresholds = self.linear_alpha, self.relu, self.thresholds
        if penalised:
            alpha, relu, thresholds = self.alpha, False, True
        return TableProblem(self.inputs, X, labels, counts / counts.sum(), float(counts.sum()), alpha, relu, thresholds)
