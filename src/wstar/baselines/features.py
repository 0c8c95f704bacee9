"""Ridge on features that are not trained further: random, after one gradient step, or random within a subspace."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from wstar.baselines.inputs import RandomState, check_penalty, check_scale, generator
from wstar.baselines.memory import require_bytes
from wstar.baselines.ridge import BLOCK_ENTRIES, solve_features
from wstar.kernels.activations import ABS, HomogeneousActivation, homogeneous
from wstar.networks.network import check_whole
from wstar.risks.empirical import EmpiricalRisk

# shuffled copies of the labels against which the subspace is tested
_SHUFFLES = 10
# d × d matrices alive while the affine part is fitted and a second moment taken
_AFFINE_SQUARES = 8
# a gradient this small beside the largest is rounding, and no direction
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """``φ_j(x) = σ(w_j·x + b_j)/√m``: directions (m, d), biases (m,)."""

    directions: Float[np.ndarray, "m d"]
    biases: Float[np.ndarray, " m"]
    activation: HomogeneousActivation

    def blocks(self, X: Float[np.ndarray, "n d"]) -> Iterator[tuple[slice, Float[np.ndarray, "rows m"]]]:
        """Row ranges and their features, block by block."""
        step = max(1, BLOCK_ENTRIES // len(self.biases))
        for start in range(0, len(X), step):
            rows = slice(start, min(len(X), start + step))
            yield rows, self.activation(X[rows] @ self.directions.T + self.biases) / np.sqrt(len(self.biases))


class Affine(NamedTuple):
    """What is taken off the labels before the features see them: ``bias + linear·x``."""

    bias: float
    linear: Float[np.ndarray, " d"]


class _FrozenFeatures(RegressorMixin, BaseEstimator, ABC):
    """Ridge on a FeatureMap that a subclass lays down; ``_squares`` matrices of d × d are made for it."""

    _squares: ClassVar[int] = 0

    def __init__(
        self,
        n_features: int = 1000,
        *,
        activation: str | HomogeneousActivation = "relu",
        penalty: float | None = None,
        memory_limit: float | None = None,
        random_state: RandomState = 0,
    ) -> None:
        """See the class."""
        self.n_features = n_features
        self.activation = activation
        self.penalty = penalty
        self.memory_limit = memory_limit
        self.random_state = random_state

    @abstractmethod
    def _lay_down(
        self, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], rng: np.random.Generator
    ) -> tuple[FeatureMap, Affine]:
        """The features, and the affine part of the labels that they need not explain."""

    def fit(self, X: Any, y: Any) -> "_FrozenFeatures":
        """Lay the features down, then solve the ridge problem in their coefficients; see the class."""
        check_whole("n_features", self.n_features)
        check_penalty(self.penalty)
        homogeneous(self.activation)
        self._check_own()
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        y = y.astype(np.float64, copy=False)
        check_scale(X)
        m, d = int(self.n_features), X.shape[1]
        require_bytes(
            # the Gram matrix, its eigenvectors and their workspace; a few blocks of rows; the directions
            8.0 * (5 * m * m + 6 * max(m, BLOCK_ENTRIES) + m * d + self._squares * d * d),
            self.memory_limit,
            f"ridge on {m} features of {d} columns",
            "take fewer features" + (", or fewer columns" if self._squares else ""),
        )
        self.features_, self.affine_ = self._lay_down(X, y, generator(self.random_state))
        left = y - (self.affine_.bias + X @ self.affine_.linear)
        solved = solve_features(lambda: self.features_.blocks(X), left, self.penalty)
        self.coef_, self.intercept_ = solved.coefficients, solved.intercept
        self.penalty_, self.jitter_ = solved.penalty, solved.jitter
        self.leave_one_out_error_ = solved.leave_one_out_error
        return self

    def predict(self, X: Any) -> Float[np.ndarray, " n"]:
        """``intercept_ + coef_·φ(x)`` plus the affine part, in blocks of rows."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        predicted = self.affine_.bias + self.intercept_ + X @ self.affine_.linear
        for rows, block in self.features_.blocks(X):
            predicted[rows] += block @ self.coef_
        return predicted

    def _check_own(self) -> None:
        """Parameters that only one class has."""


class RandomFeatures(_FrozenFeatures):
    """Ridge on ``σ(w_j·x)``, w_j uniform on the sphere: a two-layer network whose first layer stays as drawn.

    As ``n_features`` grows this becomes :class:`KernelRidge` with the "nngp" kernel over the number of columns d, since
    ``E ‖w‖² = d`` there (Rahimi & Recht 2007).

    Args:
        n_features: number m of features.
        activation: "relu", "abs", or another 1-homogeneous one. |·| sees no odd function of x.
        penalty: at least 0, on the squared coefficients of ``σ(w_j·x)/√m``. None: of least leave-one-out error among 45
            values from 1e-10 to 10 times the trace of the features' centred Gram matrix, exactly.
        memory_limit: bytes that a fit may take, about 40 m² + 10⁸. None: what is free.
        random_state: a seed, Generator or RandomState.

    Attributes:
        features_ (directions, biases, activation), coef_ (m,), intercept_, affine_ (bias, linear; here zero): the fit.
        penalty_, jitter_: the penalty, and what was added to it because the problem was singular to rounding (or 0).
        leave_one_out_error_: mean square leave-one-out error at ``penalty_``, of the ridge alone where the features
            depend on the labels; None if the penalty was given.

    Raises:
        ValueError: (by ``fit``) a parameter out of range, NaN or infinite cells, a single row, or not enough memory.

    Warns:
        UserWarning: a jitter was added; says how much.
    """

    def _lay_down(self, X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> tuple[FeatureMap, Affine]:
        d = X.shape[1]
        directions = _on_sphere(rng, int(self.n_features), d)
        return FeatureMap(directions, np.zeros(len(directions)), homogeneous(self.activation)), Affine(0.0, np.zeros(d))

    def __sklearn_tags__(self) -> Tags:
        """Even features can't score on the linear labels of scikit-learn's own score test, and say so."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = self.activation in ("abs", ABS)
        return tags


class OneStepFeatures(_FrozenFeatures):
    """One gradient step on the first layer, then ridge on the second (Damian, Lee & Soltanolkotabi 2022, Algorithm 1).

    The affine part of the labels is fitted by least squares and taken off. From a symmetric start, where the network is
    zero, one step with learning rate times weight decay equal to 1 leaves ``w_j ∝ ±(1/N) Σ_n ỹ_n σ'(w_j·x_n) x_n``.
    These are normalised (only their length against the bias would matter), biases are drawn from N(0, s²), s the root
    mean square of the projections ``w_j·x_n``, and the directions are not touched again.

    Args:
        n_features, activation, penalty, memory_limit, random_state: as for :class:`RandomFeatures`.

    Attributes, Raises, Warns: as for :class:`RandomFeatures`.
    """

    _squares = _AFFINE_SQUARES

    def _lay_down(self, X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> tuple[FeatureMap, Affine]:
        activation, risk = homogeneous(self.activation), EmpiricalRisk(X, y)
        start = FeatureMap(_on_sphere(rng, int(self.n_features), X.shape[1]), np.zeros(self.n_features), activation)
        step = _gradient(start, risk)
        norms = np.linalg.norm(step, axis=1, keepdims=True)
        # a neuron that no label moves stays where it was drawn: so for labels that are affine throughout
        moved = norms > _ROUNDING * max(float(norms.max()), float(np.abs(y).max() * np.abs(X).max()))
        signs = rng.choice([-1.0, 1.0], (len(step), 1))
        directions = np.where(moved, signs * step / np.where(moved, norms, 1.0), start.directions)
        spread = np.sqrt(np.einsum("jd,de,je->j", directions, X.T @ X / len(X), directions))
        biases = rng.standard_normal(len(step)) * spread
        return FeatureMap(directions, biases, activation), Affine(float(risk.label_bias), risk.label_linear)


class SubspaceFeatures(_FrozenFeatures):
    """Learn the subspace, then random features within it: what ZG Section 3 sets its result against.

    The affine part of the labels is fitted by least squares and taken off. ``M = (1/N) Σ ỹ_n x̃_n x̃_nᵀ`` of the centred
    rows estimates ``E ỹ(xxᵀ − I) ∝ Σ a*_i w*_i w*_iᵀ``, whose span is the teacher's (ZG Lemma 3: the first gradient
    step acts through this matrix). The eigenvectors with the largest ``|eigenvalue|`` span the subspace; features
    ``σ(w_j·x)`` have w_j uniform on its sphere. Rows are meant to be isotropic, as whitened ones are.

    Args:
        rank: dimension of the subspace, at most d. None: as many eigenvalues as exceed the largest of ten such matrices
            with shuffled labels, and at least one; labels without second moment pass this with probability 1/11.
        n_features, activation, penalty, memory_limit, random_state: as for :class:`RandomFeatures`.

    Attributes:
        rank_, subspace_ (rank_, d): its dimension and an orthonormal basis in rows; others as :class:`RandomFeatures`.

    Raises, Warns: as for :class:`RandomFeatures`.
    """

    _squares = _AFFINE_SQUARES

    def __init__(
        self,
        n_features: int = 1000,
        *,
        rank: int | None = None,
        activation: str | HomogeneousActivation = "relu",
        penalty: float | None = None,
        memory_limit: float | None = None,
        random_state: RandomState = 0,
    ) -> None:
        """See the class."""
        super().__init__(
            n_features, activation=activation, penalty=penalty, memory_limit=memory_limit, random_state=random_state
        )
        self.rank = rank

    def _check_own(self) -> None:
        if self.rank is not None:
            check_whole("rank", self.rank)

    def _lay_down(self, X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> tuple[FeatureMap, Affine]:
        d, risk = X.shape[1], EmpiricalRisk(X, y)
        if self.rank is not None and self.rank > d:
            raise ValueError(f"rank={self.rank} is above the number of columns, {d}: lower it")
        centred, labels = X - X.mean(axis=0), risk.rows()[1]
        spectrum, vectors = np.linalg.eigh(_second_moment(centred, labels))
        order = np.argsort(-np.abs(spectrum))
        self.rank_ = int(self.rank or max(1, (np.abs(spectrum) > _noise_level(centred, labels, rng)).sum()))
        self.subspace_ = vectors[:, order[: self.rank_]].T
        directions = _on_sphere(rng, int(self.n_features), self.rank_) @ self.subspace_
        features = FeatureMap(directions, np.zeros(len(directions)), homogeneous(self.activation))
        return features, Affine(float(risk.label_bias), risk.label_linear)


def _on_sphere(rng: np.random.Generator, n: int, d: int) -> Float[np.ndarray, "n d"]:
    drawn = rng.standard_normal((n, d))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def _gradient(features: FeatureMap, risk: EmpiricalRisk) -> Float[np.ndarray, "m d"]:
    """``(1/N) Σ_n ỹ_n σ'(w_j·x_n) x_n``."""
    X, y, _ = risk.rows()
    total = np.zeros_like(features.directions)
    step = max(1, BLOCK_ENTRIES // len(total))
    for start in range(0, risk.n_samples, step):
        rows = slice(start, start + step)
        slopes = np.asarray(features.activation.derivative(X[rows] @ features.directions.T))
        total += (slopes * y[rows, None]).T @ X[rows]
    return total / risk.n_samples


def _second_moment(centred: np.ndarray, y: np.ndarray) -> Float[np.ndarray, "d d"]:
    return (centred * y[:, None]).T @ centred / len(y)


def _noise_level(centred: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> float:
    shuffled = (_second_moment(centred, rng.permutation(y)) for _ in range(_SHUFFLES))
    return max(float(np.abs(np.linalg.eigvalsh(moment)).max()) for moment in shuffled)
