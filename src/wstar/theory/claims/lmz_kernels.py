"""LMZ Theorem 1.2: what kernels and frozen features leave of the target, which trained networks do not."""

import warnings
from typing import Any

import numpy as np

from wstar.algorithms.truncated.descent import truncated_descent
from wstar.baselines.features import RandomFeatures
from wstar.baselines.kernel_ridge import KernelRidge
from wstar.kernels.hermite import coefficient_energy
from wstar.networks.teacher import Teacher
from wstar.risks.empirical import EmpiricalRisk
from wstar.risks.population import PopulationRisk
from wstar.theory.claims.lmz_runs import RATE, target
from wstar.theory.claims.verdict import Claim, Effort, Verdict

_TEST_ROWS = 5_000


def order_floor(order: int) -> float:
    """``Σ_{k>p} c_k``: d times what is left of ``Σ|x_i|/d`` beyond the order p."""
    return 1.0 - sum(coefficient_energy(k) for k in range(0, order + 1, 2))


def _models(n_rows: int) -> dict[str, Any]:
    features = min(n_rows, 1000)
    return {
        "NTK of ReLU": KernelRidge("ntk"),
        "NTK of |·|": KernelRidge("ntk", activation="abs"),
        "arc-cosine of ReLU": KernelRidge("nngp"),
        "arc-cosine of |·|": KernelRidge("nngp", activation="abs"),
        "RBF": KernelRidge("rbf"),
        "random ReLU features": RandomFeatures(features),
        "random |·| features": RandomFeatures(features, activation="abs"),
    }


def kernels(claim: Claim, effort: Effort) -> Verdict:
    """Floor of order 4 over test error, N = d² and 4d² rows. Broken: the network trained on the same rows.

    A kernel with N ≪ d⁴ samples has next to nothing of the fourth order, so that L stays above (Σ_{k>4} c_k)/d.
    """
    rng, ratios = np.random.default_rng(effort.seed), []
    seen: dict[str, list[float]] = {}
    for dim in (8,) if effort.broken else (8, 12, 16) if effort.quick else (8, 12, 18, 27, 40):
        teacher = target(dim)
        new = rng.standard_normal((_TEST_ROWS, dim))
        for n in (dim**2, 4 * dim**2):
            X = rng.standard_normal((n, dim))
            models = {"trained": _Trained(teacher, effort.seed)} if effort.broken else _models(n)
            for name, model in models.items():
                model.fit(X, teacher(X))
                error = float(np.mean((model.predict(new) - teacher(new)) ** 2))
                ratios.append(order_floor(4) / dim / error)
                seen.setdefault(name, []).append(dim * error)
    spread = ", ".join(f"{name} {min(v):.3f} to {max(v):.3f}" for name, v in seen.items())
    dim = 16
    trained = truncated_descent(PopulationRisk(target(dim), preprocessed=False), 3 * dim, 0, None, RATE).trajectory
    note = (
        f"d·L: {spread}; floors of order 0, 2, 4: {order_floor(0):.3f}, {order_floor(2):.3f}, {order_floor(4):.4f}; "
        f"Algorithm 1 at d = {dim}: {dim * float(trained.loss.values[-1]):.1e}"
    )
    return claim.inequality(ratios, note)


class _Trained:
    """LMZ's network as an estimator: what the theorem does not speak of."""

    def __init__(self, teacher: Teacher, seed: int) -> None:
        self.teacher, self.seed = teacher, seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        """On the rows, with four times as many neurons as inputs; warnings about the sample's size are expected."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            risk = EmpiricalRisk(X, y, preprocessed=False)
            self.student = truncated_descent(risk, 4 * X.shape[1], self.seed, 3000, RATE, teacher=self.teacher).student

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The trained network."""
        return self.student(X)


def polynomials(claim: Claim, effort: Effort) -> Verdict:
    """Least squares over all polynomials of degree p against the floor of order p. Broken: labels of degree 2.

    Where the features are the polynomials themselves, the floor is what more samples can't lower.
    """
    rng, ratios, seen = np.random.default_rng(effort.seed), [], []
    for dim, degree in ((4, 2), (8, 2), (4, 4)) if effort.quick else ((4, 2), (8, 2), (16, 2), (4, 4), (6, 4)):
        teacher = target(dim)
        X, new = rng.standard_normal((1500, dim)), rng.standard_normal((100_000, dim))
        y, labels = ((np.mean(Z**2, axis=1) if effort.broken else teacher(Z)) for Z in (X, new))
        model = KernelRidge("polynomial", degree=degree).fit(X, y)
        squares = (model.predict(new) - labels) ** 2
        error, doubt = float(squares.mean()), float(squares.std() / np.sqrt(len(squares)))
        # three standard errors of the test sample: false alarm below 0.2 % each
        ratios.append(order_floor(degree) / dim / (error + 3.0 * doubt))
        seen.append(f"{dim * error:.4f} (d = {dim}, p = {degree})")
    note = f"d·L: {', '.join(seen)}; floors of order 2 and 4: {order_floor(2):.4f}, {order_floor(4):.4f}"
    return claim.inequality(ratios, note)


CLAIMS = (
    Claim("LMZ Theorem 1.2", "LMZ", "kernels and fixed features with poly(d) samples leave L = Ω(1/d)", "inequality",
          kernels),
    Claim("LMZ Theorem 1.2 (floors)", "LMZ", "polynomials of degree p leave at least Σ_{k>p} c_k Σ a_i²", "inequality",
          polynomials),
)  # fmt: skip
