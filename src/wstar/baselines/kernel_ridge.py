"""Kernel ridge regression with the kernels of infinitely wide networks, as a scikit-learn estimator."""

from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from wstar.baselines.inputs import RandomState, check_penalty, check_scale, generator
from wstar.baselines.kernels import (
    GaussianKernel,
    NetworkKernel,
    PolynomialKernel,
    RowKernel,
    median_distance,
    root_mean_square_norm,
)
from wstar.baselines.memory import require_bytes
from wstar.baselines.ridge import BLOCK_ENTRIES, GRID, kernel_leave_one_out, least, solve_kernel
from wstar.kernels.activations import ABS, HomogeneousActivation, homogeneous
from wstar.networks.network import check_whole

# rows on which the penalty is chosen: their eigendecomposition takes seconds, one of 10⁴ rows minutes
_CHOOSING_ROWS = 2000
# that the penalty may be moved from what these rows choose
_MOST_DECADES = 3
_KERNELS = ("ntk", "nngp", "rbf", "polynomial")
# arrays alive together beside the matrix: ρ, asin ρ, the kernel, temporaries; matrix, eigenvectors, workspace
_BLOCKS = 6


class KernelRidge(RegressorMixin, BaseEstimator):
    """``min Σ_n (f(x_n) + b − y_n)² + penalty ‖f‖²`` over functions f of a kernel's space and a free intercept b.

    LMZ Theorem 1.2: for targets ``Σ a_i |w*_i·x|`` the loss of any kernel method with poly(d) samples is Ω(1/d).

    Args:
        kernel: "ntk", the neural tangent kernel of a two-layer network (Jacot et al. 2018); "nngp", the arc-cosine
            kernel of order 1 (Cho & Saul 2009), its second layer alone; "rbf", ``exp(−‖x−z‖²/2h²)``; "polynomial",
            ``(offset + x·z/h²)^degree``.
        activation: "relu", "abs", or another 1-homogeneous one (ntk and nngp). |·| sees no odd function of x.
        layers: "both", or "first" for the tangent features of the inner weights alone (ntk).
        bandwidth: h > 0. None: the median distance of two rows (rbf), the root mean square norm (polynomial).
        degree: a whole number of at least 1 (polynomial).
        offset: at least 0 (polynomial).
        penalty: at least 0. None: of least leave-one-out error among 53 values from 1e-12 to 10 times the trace of the
            kernel matrix, exactly where there are at most 2,000 rows; else on 2,000 rows drawn by ``random_state``, and
            then by powers of ten from there, as long as the error on a tenth of the rows that is held out falls.
        memory_limit: bytes that a fit may take, about 8 N² + 3·10⁸ for many rows N. None: what is free.
        random_state: a seed, Generator or RandomState, for these rows, from which the median distance is taken too.

    Attributes:
        dual_coef_ (N,), intercept_: ``f(x) + b = intercept_ + Σ dual_coef_[n] k(x, X_fit_[n])``.
        penalty_, jitter_: the penalty, and what was added to it because the matrix was singular to rounding (or 0).
        leave_one_out_error_: mean square leave-one-out error at ``penalty_`` on the rows that chose it; None if given.
        kernel_: the kernel with its bandwidth. X_fit_: a copy of the rows.

    Raises:
        ValueError: (by ``fit``) a parameter out of range, NaN or infinite cells, a single row, a kernel value that
            overflows, or a kernel matrix that does not fit into memory, refused before it is allocated.

    Warns:
        UserWarning: a jitter was added; says how much.
    """

    def __init__(
        self,
        kernel: str = "ntk",
        *,
        activation: str | HomogeneousActivation = "relu",
        layers: str = "both",
        bandwidth: float | None = None,
        degree: int = 2,
        offset: float = 1.0,
        penalty: float | None = None,
        memory_limit: float | None = None,
        random_state: RandomState = 0,
    ) -> None:
        """See the class."""
        self.kernel = kernel
        self.activation = activation
        self.layers = layers
        self.bandwidth = bandwidth
        self.degree = degree
        self.offset = offset
        self.penalty = penalty
        self.memory_limit = memory_limit
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "KernelRidge":
        """Choose the penalty if it is to be chosen, and solve by one Cholesky decomposition; see the class."""
        self._check_parameters()
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        y = y.astype(np.float64, copy=False)
        n = len(X)
        require_bytes(
            8.0 * (n * n + _BLOCKS * (max(n, BLOCK_ENTRIES) + min(n, _CHOOSING_ROWS) ** 2)),
            self.memory_limit,
            f"the kernel matrix of {n} rows",
            "fit on fewer rows, or use RandomFeatures, whose memory does not grow with their number",
        )
        check_scale(X)
        rng = generator(self.random_state)
        chosen = rng.choice(n, _CHOOSING_ROWS, replace=False) if n > _CHOOSING_ROWS else np.arange(n)
        self.kernel_ = self._kernel(X, X[chosen])
        with np.errstate(over="ignore"):
            diagonal = self.kernel_.diagonal(X)
        if not np.isfinite(diagonal.sum()):
            raise ValueError(
                "X: kernel values overflow; rescale the columns, or lower the degree or raise the bandwidth"
            )
        penalty, self.leave_one_out_error_ = self.penalty, None
        if penalty is None:
            penalties = (float(diagonal.sum()) or 1.0) * GRID
            residuals = kernel_leave_one_out(self.kernel_(X[chosen], X[chosen]), y[chosen], penalties)
            errors = np.mean(residuals**2, axis=0)
            best = least(errors)
            penalty, self.leave_one_out_error_ = float(penalties[best]), float(errors[best])
            if n > _CHOOSING_ROWS:
                penalty = self._refined(X, y, penalty, rng)
        self.penalty_ = float(penalty)
        self.dual_coef_, self.intercept_, self.jitter_ = solve_kernel(self.kernel_, X, y, self.penalty_)
        self.X_fit_ = X.copy()
        return self

    def predict(self, X: Any) -> Float[np.ndarray, " n"]:
        """``intercept_ + Σ dual_coef_[n] k(x, X_fit_[n])`` for each row, in blocks of rows."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self._predicted(X, self.X_fit_, self.dual_coef_, self.intercept_)

    def _predicted(
        self, X: np.ndarray, rows: np.ndarray, dual: Float[np.ndarray, " n"], intercept: float
    ) -> Float[np.ndarray, " m"]:
        predicted = np.full(len(X), intercept)
        step = max(1, BLOCK_ENTRIES // len(rows))
        for start in range(0, len(X), step):
            predicted[start : start + step] += self.kernel_(X[start : start + step], rows) @ dual
        return predicted

    def _refined(self, X: np.ndarray, y: np.ndarray, penalty: float, rng: np.random.Generator) -> float:
        """What 2,000 rows choose is not what many more would: follow the error on held-out rows, a decade at a time."""
        order = rng.permutation(len(X))
        held, kept = order[: len(X) // 10], np.sort(order[len(X) // 10 :])

        def error(candidate: float) -> float:
            dual, intercept, _ = solve_kernel(self.kernel_, X[kept], y[kept], candidate)
            return float(np.mean((self._predicted(X[held], X[kept], dual, intercept) - y[held]) ** 2))

        best, least_error = penalty, error(penalty)
        beside = {factor: error(penalty * factor) for factor in (0.1, 10.0)}
        factor = min(beside, key=lambda f: beside[f])
        trial = beside[factor]
        for _ in range(_MOST_DECADES):
            if trial >= least_error:
                break
            best, least_error = best * factor, trial
            trial = error(best * factor)
        return best

    def _check_parameters(self) -> None:
        if self.kernel not in _KERNELS:
            raise ValueError(f"kernel={self.kernel!r}: choose one of {', '.join(map(repr, _KERNELS))}")
        if self.layers not in ("first", "both"):
            raise ValueError(f"layers={self.layers!r}: choose 'first' or 'both'")
        if self.bandwidth is not None and not (np.isfinite(self.bandwidth) and self.bandwidth > 0.0):
            raise ValueError(f"bandwidth={self.bandwidth!r} must be finite and positive, or None to take it from X")
        if not (np.isfinite(self.offset) and self.offset >= 0.0):
            raise ValueError(
                f"offset={self.offset!r} must be finite and not negative: the kernel is indefinite below 0"
            )
        check_whole("degree", self.degree)
        check_penalty(self.penalty)
        homogeneous(self.activation)

    def _kernel(self, X: np.ndarray, some: np.ndarray) -> RowKernel:
        if self.kernel == "rbf":
            return GaussianKernel(float(self.bandwidth or median_distance(some)), X.mean(axis=0))
        if self.kernel == "polynomial":
            bandwidth = float(self.bandwidth or root_mean_square_norm(X))
            return PolynomialKernel(int(self.degree), float(self.offset), bandwidth)
        values = self.kernel == "nngp" or self.layers == "both"
        return NetworkKernel(homogeneous(self.activation), values=values, slopes=self.kernel == "ntk")

    def __sklearn_tags__(self) -> Tags:
        """An even kernel can't score on the linear labels of scikit-learn's own score test, and says so."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = self.kernel in ("ntk", "nngp") and self.activation in ("abs", ABS)
        return tags
