"""What both regressors share: checks, units, predictions, the learnt features, bands, certificate and words."""

import warnings
from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from wstar.estimator.bands import Resamples, resample
from wstar.estimator.certificate import Certificate, certify
from wstar.estimator.checks import (
    checked_columns,
    checked_plan,
    checked_rows,
    generator,
    positive_counts,
    standardised_labels,
    warn_of_leaks,
)
from wstar.estimator.fitting import Plan, Point, rows_on_path
from wstar.estimator.folds import in_order
from wstar.estimator.kept import Kept
from wstar.estimator.ladder import Ladder
from wstar.estimator.network import Neurons, TableNetwork, neurons_of
from wstar.estimator.powers import chosen_powers
from wstar.estimator.robust import ROUNDS, spread_of
from wstar.estimator.support import supported
from wstar.estimator.words import describe

# columns with a value this many standard deviations out are far from Gaussian
_HEAVY = 8.0


class TwoLayerBase(RegressorMixin, TransformerMixin, BaseEstimator):
    """What both regressors share: checks, predictions, the learnt features and their names."""

    networks_: tuple[TableNetwork, ...]
    robust: bool
    certify_fit: bool

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "TwoLayerBase":
        """Fit to rows X (n, d) and labels y (n,); a weight k counts as k equal rows.

        Raises:
            ValueError: as scikit-learn; parameters out of range.

        Warns:
            UserWarning: constant labels; a column that is the labels up to scale.
        """
        checked_plan(self, Ladder.none(0))
        rng = generator(self.random_state)
        X, y, counts = checked_rows(self, X, y, sample_weight)
        pairs = self._given_splits(X, y, counts)
        X, y, counts = positive_counts(X, y, counts)
        if pairs is None and len(X) <= rows_on_path(X.shape[1]):
            X, y, counts = in_order(X, y, counts)
        labels, _, scale = standardised_labels(y, counts)
        bare = self.powers is None or scale == 0.0
        self._ladder = Ladder.none(X.shape[1]) if bare else chosen_powers(X, labels, counts)
        self.powers_ = self._ladder.powers
        # blocks of rows are small: a second BLAS thread only waits
        with threadpool_limits(limits=1, user_api="blas"):
            self._fit_rows(X, y, counts, rng, pairs)
            used = counts
            for weigh in ROUNDS if self.robust else ():
                left = np.abs(y - self._predicted(X))
                size = spread_of(left)
                if size == 0.0:
                    break
                used = counts * weigh(left / size)
                self._fit_rows(X, y, used, rng, pairs)
            if self.certify_fit:
                self.certificate_ = self._certified(X, y, used)
        return self

    def _given_splits(self, X: np.ndarray, y: np.ndarray, counts: np.ndarray) -> Any:
        return None

    @abstractmethod
    def _solve(
        self, X: np.ndarray, labels: np.ndarray, counts: np.ndarray, plan: Plan, rng: np.random.Generator, pairs: Any
    ) -> tuple[Point, list[Point], list[Point]]:
        """The chosen point, the points to average it with, and all points on these rows."""

    def _fit_rows(self, X: np.ndarray, y: np.ndarray, counts: np.ndarray, rng: np.random.Generator, pairs: Any) -> None:
        labels, centre, scale = standardised_labels(y, counts)
        if scale == 0.0:
            self._no_neurons(X, centre)
            return
        warn_of_leaks(X, labels, counts, getattr(self, "feature_names_in_", None))
        point, others, points = self._solve(X, labels, counts, checked_plan(self, self._ladder), rng, pairs)
        networks = [TableNetwork.of(one.problem, one.atoms, centre, scale) for one in (point, *others)]
        self._take((networks[0],), X, counts)
        self.networks_ = tuple(networks)
        own = next(one for one in points if one.weight_decay == point.weight_decay and not one.refitted)
        self.weight_decay_, self.alpha_, self.refitted_ = point.weight_decay, own.problem.alpha, point.refitted
        self.n_supported_neurons_, self.n_supported_directions_ = supported(points)
        self._kept = Kept.of(point, own, centre, scale)

    def certify(self, X: Any, y: Any, sample_weight: Any = None) -> Certificate | None:
        """How far the penalised network at ``weight_decay_`` is from the best of any width, on the training rows.

        None without neurons to penalise. See :class:`Certificate`.
        """
        check_is_fitted(self)
        return self._certified(checked_columns(self, X), np.asarray(y), sample_weight)

    def _certified(self, X: np.ndarray, y: Any, sample_weight: Any) -> Certificate | None:
        if not np.isfinite(self.weight_decay_):
            return None
        problem = self._kept.problem(X, y, sample_weight, penalised=True)
        return certify(problem, self._kept.penalised, self.weight_decay_, np.random.default_rng(0))

    def bootstrap(self, X: Any, y: Any, n_resamples: int = 50, sample_weight: Any = None, seed: int = 0) -> Resamples:
        """The neurons polished on ``n_resamples`` tables drawn from the training rows; see :class:`Resamples`.

        Raises:
            ValueError: a fit without neurons.
        """
        check_is_fitted(self)
        if not len(self.masses_):
            raise ValueError("the fit has no neurons: there is nothing to draw bands for")
        kept = self._kept
        problem = kept.problem(checked_columns(self, X), y, sample_weight, penalised=False)
        point = Point(self.weight_decay_, problem, kept.atoms, kept.refitted)
        with threadpool_limits(limits=1, user_api="blas"):
            rng = np.random.default_rng(seed)
            return resample(
                point, checked_plan(self, self._ladder), self._neurons, kept.centre, kept.scale, n_resamples, rng
            )

    def summary(self) -> str:
        """The fit in words: linear part, each neuron with its most weighty columns, and what to beware of."""
        check_is_fitted(self)
        names = list(getattr(self, "feature_names_in_", [f"x{i}" for i in range(len(self.linear_))]))
        if not self.networks_:
            return f"y is constant: {self.intercept_:g}."
        remarks = [
            f"The data support {self.n_supported_neurons_} neurons in {self.n_supported_directions_} directions (least "
            "Bayesian information criterion among refits)."
        ]
        inputs = self.networks_[0].inputs
        names = [self._ladder.name(i, name) for i, name in enumerate(names)]
        room = 1.0 + 2.0 * self.guard
        reach = np.maximum(-inputs.low, inputs.high) / max(room, 1.0)
        heavy = [names[i] for i in np.flatnonzero(reach > _HEAVY)]
        if heavy:
            remarks.append(
                f"Beware: {', '.join(heavy[:5])} have values more than {_HEAVY:g} standard deviations out; the theory "
                "of Gaussian inputs does not apply, and a transformation (log) may serve better."
            )
        return describe(
            self._neurons, self.importances_, self.linear_, inputs.mean, inputs.scale, names, remarks, self._stability()
        )

    def predict(self, X: Any) -> np.ndarray:
        """Predictions (n,); columns beyond the guard are moved to it."""
        check_is_fitted(self)
        return self._predicted(checked_columns(self, X))

    def _predicted(self, X: np.ndarray) -> np.ndarray:
        if not self.networks_:
            return np.full(len(X), self.intercept_)
        total = self.networks_[0](X)
        for network in self.networks_[1:]:
            total += network(X)
        return total / len(self.networks_)

    def transform(self, X: Any) -> np.ndarray:
        """Learnt features ``σ(columns(X) directionsᵀ + thresholds)``, (n, number of directions)."""
        return self._neurons.features(self.columns(X))

    def columns(self, X: Any) -> np.ndarray:
        """What directions act on: the columns, each by its power (see ``powers_``), (n, d)."""
        check_is_fitted(self)
        return self._ladder(checked_columns(self, X))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """``ridge0``, ``ridge1``, …; ``input_features`` is there for scikit-learn."""
        check_is_fitted(self)
        return np.array([f"ridge{i}" for i in range(len(self.masses_))], dtype=object)

    def _no_neurons(self, X: np.ndarray, value: float) -> None:
        warnings.warn(
            f"y is {value:g} in all rows: nothing depends on any column, the prediction is that constant", stacklevel=4
        )
        d = X.shape[1]
        self.networks_ = ()
        self._neurons = Neurons(np.zeros(0), np.zeros((0, d)), np.zeros(0), False)
        self.weight_decay_, self.alpha_ = np.inf, np.inf
        self.importances_, self.refitted_ = np.zeros(0), False
        self.n_supported_neurons_ = self.n_supported_directions_ = 0
        self._publish(np.zeros(d), value)

    def _publish(self, linear: np.ndarray, intercept: float) -> None:
        self.directions_, self.masses_ = self._neurons.directions, self._neurons.masses
        self.thresholds_, self.activation_ = self._neurons.thresholds, "relu" if self._neurons.relu else "abs"
        self.linear_, self.intercept_ = linear, float(intercept)
        self._n_features_out = len(self.masses_)

    def _take(self, networks: tuple[TableNetwork, ...], X: np.ndarray, counts: np.ndarray) -> None:
        """Attributes from networks."""
        self.networks_ = networks
        found, linear, intercept = neurons_of(networks, networks[0].inputs, 0.0)
        rows = slice(None, None, max(1, len(X) // 5000))
        spread = _spread(found.features(self._ladder(X[rows])), counts[rows]) * np.abs(found.masses)
        order = np.argsort(-spread, kind="stable")
        self._neurons = Neurons(found.masses[order], found.directions[order], found.thresholds[order], found.relu)
        self.importances_ = spread[order]
        self._publish(linear, intercept)

    def _stability(self) -> np.ndarray:
        """Median over the other networks of the largest |cos| of their directions with each of ours."""
        if len(self.networks_) < 2 or not len(self.masses_):
            return np.full(len(self.masses_), np.nan)
        reference = self.networks_[0].inputs
        own = reference.whitened(self.directions_)
        best = []
        for network in self.networks_[1:]:
            rows = reference.whitened(network.inputs.to_columns(network.atoms.directions)[0])
            best.append(np.abs(own @ rows.T).max(axis=1, initial=0.0))
        return np.median(best, axis=0)


def _spread(features: np.ndarray, counts: np.ndarray) -> np.ndarray:
    shares = counts / counts.sum()
    return np.sqrt(np.maximum(shares @ (features - shares @ features) ** 2, 0.0))
