"""The peers of the regressor, tuned as its benchmarks ask: an inner three-fold over at most twelve settings each.

``peer(name)`` gives a fresh estimator. ridge, mlp, krr, hgb and gpr are scikit-learn's; skpp wants ``pip install
projection-pursuit``, xrfm ``pip install xrfm``, and ppr an Rscript on the path (Debian: apt-get install r-base-core).
Predictors are standardised on the training rows.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

_PPR = """
options(warn = -1)
argument <- commandArgs(trailingOnly = TRUE)
train <- as.matrix(read.csv(argument[1], header = FALSE))
test <- as.matrix(read.csv(argument[2], header = FALSE))
terms <- as.integer(argument[3])
p <- ncol(train) - 1
fit <- ppr(train[, 1:p, drop = FALSE], train[, p + 1], nterms = terms, max.terms = max(terms, 10), optlevel = 3)
write.table(predict(fit, test), argument[4], row.names = FALSE, col.names = FALSE)
write.table(t(fit$alpha), argument[5], row.names = FALSE, col.names = FALSE)
"""


class PPR(RegressorMixin, BaseEstimator):
    """R's ``stats::ppr`` with optlevel 3; ``alpha_`` are its directions. It is fitted anew to predict."""

    def __init__(self, terms: int = 3) -> None:
        """Number of ridge functions."""
        self.terms = terms

    def fit(self, X: np.ndarray, y: np.ndarray) -> "PPR":
        """Keep the rows; read the directions off a fit."""
        self.rows_ = np.column_stack([X, y])
        self.predict(X[:1])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Run R."""
        with tempfile.TemporaryDirectory() as folder:
            files = [str(Path(folder) / name) for name in ("train", "test", "predicted", "alpha", "ppr.R")]
            np.savetxt(files[0], self.rows_, delimiter=",")
            np.savetxt(files[1], X, delimiter=",")
            Path(files[4]).write_text(_PPR)
            command = ["Rscript", files[4], *files[:2], str(self.terms), *files[2:4]]
            subprocess.run(command, check=True, capture_output=True)
            self.alpha_ = np.loadtxt(files[3], ndmin=2)
            return np.loadtxt(files[2], ndmin=1)


class XRFM(RegressorMixin, BaseEstimator):
    """xRFM on the processor; the fifth of the rows that it wants for validation is taken from those it is given."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "XRFM":
        """Fit with its own defaults."""
        import torch
        from xrfm import xRFM

        order = np.random.default_rng(0).permutation(len(y))
        kept, held = order[len(y) // 5 :], order[: len(y) // 5]
        arrays = [torch.tensor(a, dtype=torch.float32) for a in (X[kept], y[kept, None], X[held], y[held, None])]
        self.model_ = xRFM(device=torch.device("cpu"), tuning_metric="mse", verbose=False, random_state=0)
        self.model_.fit(*arrays)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predictions."""
        import torch

        return np.ravel(self.model_.predict(torch.tensor(X, dtype=torch.float32)))


def _ridge() -> Any:
    return RidgeCV(np.logspace(-3, 4, 29))


def _mlp() -> Any:
    network = MLPRegressor(hidden_layer_sizes=(100,), solver="lbfgs", max_iter=1000, random_state=0)
    return _tuned(network, {"alpha": np.logspace(-2, 2, 9)})


def _krr() -> Any:
    return _tuned(KernelRidge(kernel="rbf"), {"alpha": [1e-3, 1e-2, 1e-1, 1.0], "gamma": [0.003, 0.03, 0.3]})


def _hgb() -> Any:
    trees = HistGradientBoostingRegressor(random_state=0, max_iter=300)
    return _tuned(trees, {"learning_rate": [0.03, 0.1], "max_leaf_nodes": [6, 15, 31], "min_samples_leaf": [5, 20]})


def _gpr() -> Any:
    kernel = ConstantKernel() * RBF(3.0) + WhiteKernel(0.1)
    return GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=1, random_state=0)


def _ppr() -> Any:
    if shutil.which("Rscript") is None:
        raise ValueError("peer ppr wants R: there is no Rscript on the path (Debian: apt-get install r-base-core)")
    return _tuned(PPR(), {"terms": [1, 2, 3, 4, 5]})


def _skpp() -> Any:
    from skpp import ProjectionPursuitRegressor

    return _tuned(ProjectionPursuitRegressor(random_state=0), {"r": [1, 2, 3, 5]})


_PEERS: dict[str, Callable[[], Any]] = {
    "ridge": _ridge,
    "mlp": _mlp,
    "krr": _krr,
    "hgb": _hgb,
    "gpr": _gpr,
    "ppr": _ppr,
    "skpp": _skpp,
    "xrfm": XRFM,
}
NAMES = tuple(_PEERS)


def peer(name: str) -> TransformedTargetRegressor:
    """A fresh peer, on standardised predictors and labels."""
    return TransformedTargetRegressor(make_pipeline(StandardScaler(), _PEERS[name]()), transformer=StandardScaler())


def _tuned(model: Any, grid: dict[str, Any]) -> GridSearchCV:
    return GridSearchCV(model, grid, cv=KFold(3, shuffle=True, random_state=0), scoring="neg_mean_squared_error")
