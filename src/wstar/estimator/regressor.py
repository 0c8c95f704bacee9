"""``TwoLayerRegressor``: the path on one table, its point chosen by generalised cross-validation or given."""

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from wstar.estimator.fitting import Plan, Point, finished, prepare, sampled, search_path
from wstar.estimator.network import Neurons, TableNetwork, neurons_of
from wstar.estimator.single import at_weight_decay

_LEAK = 1.0 - 1e-9
# neurons that the report takes for one
_JOIN_ANGLE = 0.1


class TwoLayerBase(RegressorMixin, TransformerMixin, BaseEstimator):
    """What both regressors share: checks, predictions, the learnt features and their names."""

    networks_: tuple[TableNetwork, ...]
    points_: list[Point]

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predictions (n,); columns beyond the guard are moved to it."""
        check_is_fitted(self)
        X = self._columns(X)
        if not self.networks_:
            return np.full(len(X), self.intercept_)
        return np.mean([network(X) for network in self.networks_], axis=0)

    def transform(self, X: ArrayLike) -> np.ndarray:
        """Learnt features ``σ(X directionsᵀ + thresholds)``, (n, number of directions)."""
        check_is_fitted(self)
        X = self._columns(X)
        return self._neurons.features(X)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """``ridge0``, ``ridge1``, …; ``input_features`` is there for scikit-learn."""
        check_is_fitted(self)
        return np.array([f"ridge{i}" for i in range(len(self.masses_))], dtype=object)

    def _columns(self, X: ArrayLike) -> np.ndarray:
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

    def _rows(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> tuple[np.ndarray, ...]:
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
            return y, size * centre, 0.0
        return (unit - centre) / spread, size * centre, size * spread

    def _no_neurons(self, X: np.ndarray, value: float) -> Self:
        warnings.warn(
            f"y is {value:g} in all rows: nothing depends on any column, the prediction is that constant", stacklevel=3
        )
        d = X.shape[1]
        self.networks_ = ()
        self._neurons = Neurons(np.zeros(0), np.zeros((0, d)), np.zeros(0), False)
        self.weight_decay_, self.alpha_ = np.inf, np.inf
        self._publish(np.zeros(d), value)
        return self

    def _publish(self, linear: np.ndarray, intercept: float) -> None:
        self.directions_, self.masses_ = self._neurons.directions, self._neurons.masses
        self.thresholds_, self.activation_ = self._neurons.thresholds, "relu" if self._neurons.relu else "abs"
        self.linear_, self.intercept_ = linear, float(intercept)
        self._n_features_out = len(self.masses_)

    def _take(self, networks: tuple[TableNetwork, ...], X: np.ndarray, counts: np.ndarray, angle: float) -> None:
        """Attributes from networks."""
        self.networks_ = networks
        found, linear, intercept = neurons_of(networks, networks[0].inputs, angle)
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
            warnings.warn(f"column {which} is y up to scale: it gives the answer away, drop it", stacklevel=3)


class TwoLayerRegressor(TwoLayerBase):
    """An index model: ``y ≈ intercept + linear·x + Σ mass_k σ(direction_k·x + threshold_k)``, with few directions.

    A path of weight decays from the λ at which the first neuron enters down to small ones, by a sliding Frank–Wolfe
    method on the empirical risk: new neurons where the field ``Ψ(u) = E R σ(u·x)`` exceeds λ/2 in size, found by the
    fixed-point ascent ``u ← ±∇Ψ/‖∇Ψ‖`` from many starts; then all parameters together (ZG Algorithm 1 and eq. 4–6, on
    samples). The linear part has the penalty that ridge regression chooses by leave-one-out; ridge regression is the
    path's first point. The neurons found may then be fitted again without the penalty. Of all these points the one
    with the least generalised cross-validation is taken.

    Args:
        weight_decay: λ for labels of standard deviation 1; None chooses it on the path.
        refit: also try neurons without the penalty, less those that the Bayesian criterion finds useless.
        n_steps: most weight decays on the path.
        ratio: from one weight decay to the next.
        patience: the path ends after so many weight decays without a better one.
        shrinkage: 0 whitens the columns fully, large values only standardise them.
        threshold_scale: size of the constant input: thresholds cost less the larger it is.
        guard: unseen values are moved to within this many ranges of the column's own range.
        random_state: None, a seed, a RandomState or a Generator; NumPy's global state is never used.
        verbose: print a line for each weight decay.

    Attributes:
        directions_: (K, d), in the columns' own units, most important first; ``X @ directions_.T`` has standard
            deviation 1 over the training rows.
        masses_, thresholds_: (K,).
        linear_, intercept_: the linear part, in the columns' own units.
        importances_: (K,), standard deviation of each neuron's part of the prediction.
        activation_: "abs", or "relu" where the data are better told by ReLU neurons without a linear part.
        weight_decay_, alpha_: λ and the linear part's penalty.
        refitted_: whether the penalty was taken off.
        certificate_: of the penalised point at ``weight_decay_``: see :meth:`certify`.
        n_features_in_, feature_names_in_: as in scikit-learn.
    """

    def __init__(
        self,
        weight_decay: float | None = None,
        *,
        refit: bool = True,
        n_steps: int = 16,
        ratio: float = 0.6,
        patience: int = 4,
        shrinkage: float = 30.0,
        threshold_scale: float = 2.0,
        guard: float = 0.25,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        verbose: bool = False,
    ) -> None:
        """See the class."""
        self.weight_decay = weight_decay
        self.refit = refit
        self.n_steps = n_steps
        self.ratio = ratio
        self.patience = patience
        self.shrinkage = shrinkage
        self.threshold_scale = threshold_scale
        self.guard = guard
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows X (n, d) and labels y (n,); a weight k counts as k equal rows.

        Raises:
            ValueError: as scikit-learn; parameters out of range.

        Warns:
            UserWarning: constant labels; a column that is the labels up to scale.
        """
        plan, rng = self._plan(), generator(self.random_state)
        if self.weight_decay is not None and not (np.isfinite(self.weight_decay) and self.weight_decay > 0.0):
            raise ValueError(f"weight_decay={self.weight_decay!r} must be finite and positive, or None")
        X, y, counts = positive_counts(*self._rows(X, y, sample_weight))
        labels, centre, scale = self._standardised(y, counts)
        if scale == 0.0:
            return self._no_neurons(X, centre)
        self._warn_of_leaks(X, labels, counts)
        say = print if self.verbose else _silent
        # blocks of rows are small: a second BLAS thread only waits
        with threadpool_limits(limits=1, user_api="blas"):
            whole = prepare(X, labels, counts, plan)
            problem = sampled(whole, rng)
            if self.weight_decay is None:
                best, self.points_ = search_path(problem, rng, plan, self.patience, self.refit, say)
            else:
                best, self.points_ = at_weight_decay(problem, rng, plan, float(self.weight_decay), self.refit)
            self._finish(finished(best, whole), X, counts, centre, scale)
        return self

    def _finish(self, point: Point, X: np.ndarray, counts: np.ndarray, centre: float, scale: float) -> None:
        self.weight_decay_, self.alpha_, self.refitted_ = point.weight_decay, point.problem.alpha, point.refitted
        self._take((TableNetwork.of(point.problem, point.atoms, centre, scale),), X, counts, 0.0)


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


def _silent(_: str) -> None:
    return None


def _spread(features: np.ndarray, counts: np.ndarray) -> np.ndarray:
    shares = counts / counts.sum()
    return np.sqrt(np.maximum(shares @ (features - shares @ features) ** 2, 0.0))
