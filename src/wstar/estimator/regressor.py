"""``TwoLayerRegressor``: the path on one table, its point chosen by generalised cross-validation or given."""

from typing import Any

import numpy as np

from wstar.estimator.base import TwoLayerBase
from wstar.estimator.fitting import Plan, Point, finished, prepare, sampled, search_path
from wstar.estimator.single import at_weight_decay


class TwoLayerRegressor(TwoLayerBase):
    """An index model: ``y ≈ intercept + linear·x + Σ mass_k σ(direction_k·x + threshold_k)``, with few directions.

    ``x`` are the columns, or what their powers make of them: ``columns(X)``, which is X where ``powers_`` are all 1.

    A path of weight decays from the λ at which the first neuron enters down to small ones, by a sliding Frank–Wolfe
    method on the empirical risk: new neurons where the field ``Ψ(u) = E R σ(u·x)`` exceeds λ/2 in size, found by the
    fixed-point ascent ``u ← ±∇Ψ/‖∇Ψ‖`` from many starts; then all parameters together (ZG Algorithm 1 and eq. 4–6, on
    samples). The linear part has the penalty that ridge regression chooses by leave-one-out; ridge regression is the
    path's first point. The neurons found may then be fitted again without the penalty. Of all these points the one
    with the least generalised cross-validation is taken.

    Memory, beside X, which is never copied where it is float64 or float32 (other types become float64): at most 200
    bytes a row and 24 bytes for each number in the path's rows, of which there are 50,000, fewer of more than 334
    columns (2²⁴ numbers, but 10,000 rows at least); d × d matrices. Longer tables are read in blocks.

    Args:
        weight_decay: λ for labels of standard deviation 1; None chooses it on the path.
        refit: also try neurons without the penalty, less those that the Bayesian criterion finds useless.
        n_steps: most weight decays on the path.
        ratio: from one weight decay to the next.
        patience: the path ends after so many weight decays without a better one.
        shrinkage: 0 whitens the columns fully, large values only standardise them.
        threshold_scale: size of the constant input: thresholds cost less the larger it is.
        guard: unseen values are moved to within this many ranges of the column's own range; so are predictions, with
            the range of the labels.
        powers: "auto" lets columns of skewness above 1 without negative values enter by a power (logarithm, root,
            square, inverse), all of them or, where plain ridge regression then predicts no better (leave-one-out),
            none; None leaves all as they are.
        random_state: None, a seed, a RandomState or a Generator; NumPy's global state is never used.
        robust: weigh rows with large residuals down (two rounds of Huber's weights, two of Tukey's).
        certify_fit: compute ``certificate_``.
        verbose: print a line for each weight decay.

    Attributes:
        directions_: (K, d), in the columns' own units, most important first; ``X @ directions_.T`` has standard
            deviation 1 over the training rows.
        masses_, thresholds_: (K,).
        linear_, intercept_: the linear part, in the columns' own units.
        importances_: (K,), standard deviation of each neuron's part of the prediction.
        powers_: (d,), the power by which each column enters, 0 for its logarithm; 1 for most.
        activation_: "abs", or "relu" where the data are better told by ReLU neurons without a linear part.
        weight_decay_, alpha_: λ and the linear part's penalty.
        refitted_: whether the penalty was taken off.
        certificate_: with ``certify_fit``, of the penalised network at ``weight_decay_``: see :meth:`certify`.
        n_supported_neurons_, n_supported_directions_: of the refitted network with the least Bayesian criterion, and
            the dimension its directions span.
        weight_decays_, criteria_, n_neurons_, refits_: the path, point by point, and the refits after it.
        n_features_in_, feature_names_in_: as in scikit-learn.
    """

    def __init__(
        self,
        weight_decay: Any = None,
        *,
        refit: Any = True,
        n_steps: Any = 16,
        ratio: Any = 0.6,
        patience: Any = 4,
        shrinkage: Any = 30.0,
        threshold_scale: Any = 2.0,
        guard: Any = 0.25,
        powers: Any = "auto",
        robust: Any = False,
        certify_fit: Any = False,
        random_state: Any = None,
        verbose: Any = False,
    ) -> None:
        """See the class. Nothing is checked here: scikit-learn sets parameters at any time, ``fit`` looks at them."""
        self.weight_decay = weight_decay
        self.refit = refit
        self.n_steps = n_steps
        self.ratio = ratio
        self.patience = patience
        self.shrinkage = shrinkage
        self.threshold_scale = threshold_scale
        self.guard = guard
        self.powers = powers
        self.robust = robust
        self.certify_fit = certify_fit
        self.random_state = random_state
        self.verbose = verbose

    def _solve(
        self, X: np.ndarray, labels: np.ndarray, counts: np.ndarray, plan: Plan, rng: np.random.Generator, pairs: Any
    ) -> tuple[Point, list[Point], list[Point]]:
        decay = self.weight_decay
        if decay is not None and not (np.isfinite(decay) and decay > 0.0):
            raise ValueError(f"weight_decay={decay!r} must be finite and positive, or None")
        rows = sampled(X, rng)
        problem = prepare(X[rows], labels[rows], counts[rows], plan)
        if decay is None:
            say = print if self.verbose else _silent
            best, points = search_path(problem, rng, plan, self.patience, self.refit, say)
        else:
            best, points = at_weight_decay(problem, rng, plan, float(decay), self.refit)
        self.weight_decays_ = np.array([one.weight_decay for one in points])
        self.criteria_ = np.array([one.criterion for one in points])
        self.n_neurons_ = np.array([len(one.atoms.masses) for one in points])
        self.refits_ = np.array([one.refitted for one in points])
        whole = problem if len(X) == len(problem.labels) else prepare(X, labels, counts, plan)
        return finished(best, whole), [], points


def _silent(_: str) -> None:
    return None
