"""What both regressors share: checks, units, predictions, the learnt features, bands, certificate and words."""

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from wstar.algorithms.optimum.problem import Atoms
from wstar.estimator.bands import Resamples, resample
from wstar.estimator.certificate import Certificate, certify
from wstar.estimator.fitting import ROWS_ON_PATH, Plan, Point
from wstar.estimator.folds import in_order
from wstar.estimator.inputs import Inputs, nine_digits
from wstar.estimator.network import Neurons, TableNetwork, carried, neurons_of
from wstar.estimator.problem import TableProblem
from wstar.estimator.support import supported
from wstar.estimator.words import describe

_LEAK = 1.0 - 1e-9
# rounds of reweighting, and Huber's constant: 95 % efficient where errors are Gaussian
_ROBUST_ROUNDS, _HUBER = 3, 1.345
# columns with a value this many standard deviations out are far from Gaussian
_HEAVY = 8.0


@dataclass(frozen=True, eq=False)
class Kept:
    """What a fit remembers so that bands and certificate can be computed from the rows again."""

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
        self._plan()
        rng = generator(self.random_state)
        X, y, counts = self._rows(X, y, sample_weight)
        pairs = self._given_splits(X, y, counts)
        X, y, counts = positive_counts(X, y, counts)
        if pairs is None and len(X) <= ROWS_ON_PATH:
            X, y, counts = in_order(X, y, counts)
        # blocks of rows are small: a second BLAS thread only waits
        with threadpool_limits(limits=1, user_api="blas"):
            self._fit_rows(X, y, counts, rng, pairs)
            used = counts
            for _ in range(_ROBUST_ROUNDS if self.robust else 0):
                left = np.abs(y - self._predicted(X))
                size = _HUBER * 1.4826 * float(np.median(left))
                if size == 0.0:
                    break
                used = counts * np.minimum(1.0, size / np.maximum(left, size))
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
        labels, centre, scale = self._standardised(y, counts)
        if scale == 0.0:
            self._no_neurons(X, centre)
            return
        self._warn_of_leaks(X, labels, counts)
        point, others, points = self._solve(X, labels, counts, self._plan(), rng, pairs)
        networks = [TableNetwork.of(one.problem, one.atoms, centre, scale) for one in (point, *others)]
        self._take((networks[0],), X, counts)
        self.networks_ = tuple(networks)
        own = next(one for one in points if one.weight_decay == point.weight_decay and not one.refitted)
        problem = point.problem
        self.weight_decay_, self.alpha_, self.refitted_ = point.weight_decay, own.problem.alpha, point.refitted
        self.n_supported_neurons_, self.n_supported_directions_ = supported(points)
        self._kept = Kept(
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

    def certify(self, X: Any, y: Any, sample_weight: Any = None) -> Certificate | None:
        """How far the penalised network at ``weight_decay_`` is from the best of any width, on the training rows.

        None without neurons to penalise. See :class:`Certificate`.
        """
        check_is_fitted(self)
        return self._certified(self._columns(X), np.asarray(y), sample_weight)

    def _certified(self, X: np.ndarray, y: Any, sample_weight: Any) -> Certificate | None:
        if not np.isfinite(self.weight_decay_):
            return None
        problem = self._problem(X, y, sample_weight, penalised=True)
        return certify(problem, self._kept.penalised, self.weight_decay_, np.random.default_rng(0))

    def bootstrap(self, X: Any, y: Any, n_resamples: int = 50, sample_weight: Any = None, seed: int = 0) -> Resamples:
        """The neurons polished on ``n_resamples`` tables drawn from the training rows; see :class:`Resamples`.

        Raises:
            ValueError: a fit without neurons.
        """
        check_is_fitted(self)
        if not len(self.masses_):
            raise ValueError("the fit has no neurons: there is nothing to draw bands for")
        problem, kept = self._problem(self._columns(X), y, sample_weight, penalised=False), self._kept
        point = Point(self.weight_decay_, problem, kept.atoms, kept.refitted)
        with threadpool_limits(limits=1, user_api="blas"):
            rng = np.random.default_rng(seed)
            return resample(point, self._plan(), self._neurons, kept.centre, kept.scale, n_resamples, rng)

    def _problem(self, X: np.ndarray, y: Any, sample_weight: Any, *, penalised: bool) -> TableProblem:
        kept = self._kept
        labels = (np.asarray(y, dtype=float).reshape(len(X)) - kept.centre) / kept.scale
        counts = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        alpha, relu, thresholds = kept.linear_alpha, kept.relu, kept.thresholds
        if penalised:
            alpha, relu, thresholds = kept.alpha, False, True
        return TableProblem(kept.inputs, X, labels, counts / counts.sum(), float(counts.sum()), alpha, relu, thresholds)

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
        return self._predicted(self._columns(X))

    def _predicted(self, X: np.ndarray) -> np.ndarray:
        if not self.networks_:
            return np.full(len(X), self.intercept_)
        return np.mean([network(X) for network in self.networks_], axis=0)

    def transform(self, X: Any) -> np.ndarray:
        """Learnt features ``σ(X directionsᵀ + thresholds)``, (n, number of directions)."""
        check_is_fitted(self)
        X = self._columns(X)
        return self._neurons.features(X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """``ridge0``, ``ridge1``, …; ``input_features`` is there for scikit-learn."""
        check_is_fitted(self)
        return np.array([f"ridge{i}" for i in range(len(self.masses_))], dtype=object)

    def _columns(self, X: Any) -> np.ndarray:
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False))

    def _plan(self) -> Plan:
        for name in ("n_steps", "patience"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name}={value!r} must be a whole number of at least 1")
        for name, low, high in (("ratio", 0.0, 1.0), ("shrinkage", 0.0, np.inf), ("threshold_scale", 0.0, np.inf)):
            value = getattr(self, name)
            inside = isinstance(value, int | float | np.number) and low <= value < high
            if not inside or (name != "shrinkage" and value == 0.0):
                raise ValueError(f"{name}={value!r} must be a finite number from {low:g} to {high:g}")
        if not (isinstance(self.guard, int | float | np.number) and self.guard >= 0.0):
            raise ValueError(f"guard={self.guard!r} must be at least 0: ranges that a column may leave its own by")
        return Plan(
            int(self.n_steps), float(self.ratio), float(self.shrinkage), float(self.threshold_scale), float(self.guard)
        )

    def _rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[np.ndarray, ...]:
        """Checked rows, labels and counts."""
        X, y = (np.asarray(part) for part in validate_data(self, X, y, dtype=np.float64, y_numeric=True))
        y = y.astype(np.float64)
        counts = np.ones(len(y))
        if sample_weight is not None:
            counts = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            if not counts.sum() > 0.0:
                raise ValueError("sample_weight is zero for every row: give at least one row a positive weight")
        return X, y, counts

    def _standardised(self, y: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, float, float]:
        """``(y − centre)/scale``, centre and scale; scale 0 where labels are constant."""
        size = float(np.abs(y).max())
        if size == 0.0:
            return y, 0.0, 0.0
        shares, unit = counts / counts.sum(), y / size
        centre = float(shares @ unit)
        spread = float(np.sqrt(shares @ (unit - centre) ** 2))
        if spread <= 1e-13:
            return y, float(y[0]), 0.0
        return nine_digits((unit - centre) / spread), size * centre, size * spread

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
        spread = _spread(found.features(X[rows]), counts[rows]) * np.abs(found.masses)
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

    def _warn_of_leaks(self, X: np.ndarray, labels: np.ndarray, counts: np.ndarray) -> None:
        """A column that is the target up to scale."""
        if len(labels) < 4:
            return
        shares = counts / counts.sum()
        mean = shares @ X
        size = np.maximum(np.abs(X).max(axis=0), np.finfo(float).tiny)
        centred = X[:: max(1, len(X) // 10_000)] / size - mean / size
        part = shares[:: max(1, len(X) // 10_000)]
        target = labels[:: max(1, len(X) // 10_000)]
        covariance, spread = (part * target) @ centred, np.sqrt(part @ centred**2)
        own = np.sqrt(part @ target**2)
        leaking = np.flatnonzero(np.abs(covariance) > _LEAK * spread * own * (spread > 1e-9))
        if len(leaking) and own > 0.0:
            names = getattr(self, "feature_names_in_", None)
            which = repr(names[leaking[0]]) if names is not None else str(leaking[0])
            warnings.warn(f"column {which} is y up to scale: it gives the answer away, drop it", stacklevel=4)


def positive_counts(X: np.ndarray, y: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Without the rows of weight zero."""
    if counts.all():
        return X, y, counts
    kept = counts > 0.0
    return X[kept], y[kept], counts[kept]


def generator(random_state: Any) -> np.random.Generator:
    """A generator of its own for every kind of ``random_state``.

    Raises:
        ValueError: another kind.
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    if random_state is None or isinstance(random_state, int | np.integer):
        return np.random.default_rng(random_state)
    raise ValueError(f"random_state={random_state!r}: give None, a whole number, a RandomState or a Generator")


def _spread(features: np.ndarray, counts: np.ndarray) -> np.ndarray:
    shares = counts / counts.sum()
    return np.sqrt(np.maximum(shares @ (features - shares @ features) ** 2, 0.0))
