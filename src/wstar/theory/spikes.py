"""ZG's test function: a spike of high Hermite orders around one teacher direction (ZG Lemma F.6, Figure 3)."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from wstar.kernels.activations import HermiteActivation, HomogeneousActivation
from wstar.kernels.hermite import hermite_values


@dataclass(frozen=True)
class TestFunction:
    """``g(x) = sign · Σ_{ℓ≤k<2ℓ, σ̂_k≠0} sign(σ̂_k) h_k(axis·x)``.

    ``E g(x) σ(w·x) = sign · Σ |σ̂_k| (axis·w)^k`` and ``‖g‖²`` is the number of orders in the sum.
    """

    axis: Float[np.ndarray, " d"]
    sign: float
    order: int
    coefficients: Float[np.ndarray, " k"]

    def __call__(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """``g`` at the rows of X."""
        return self.sign * np.tensordot(
            np.sign(self.coefficients), hermite_values(X @ self.axis, len(self.coefficients)), axes=1
        )

    def correlation(self, directions: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """``E g(x) σ(w·x)`` at unit rows w."""
        return self.sign * np.polynomial.polynomial.polyval(directions @ self.axis, np.abs(self.coefficients))

    @property
    def squared_norm(self) -> int:
        """``‖g‖²``: orders k in [ℓ, 2ℓ) with ``σ̂_k ≠ 0``."""
        return int(np.count_nonzero(self.coefficients))


def spike(
    axis: Float[np.ndarray, " d"],
    order: int,
    activation: HomogeneousActivation | HermiteActivation,
    sign: float = 1.0,
) -> TestFunction:
    """The test function around ``axis`` with orders ``order`` ≤ k < 2·``order``.

    Raises:
        ValueError: ``order`` below 2, a zero axis, or an activation without a component in these orders.
    """
    norm = float(np.linalg.norm(axis))
    if order < 2:
        raise ValueError(f"order={order} must be at least 2")
    if not (np.isfinite(norm) and norm > 0.0):
        raise ValueError("axis must be a finite vector that is not zero")
    coefficients = activation.coefficients(2 * order)
    coefficients[:order] = 0.0
    if not coefficients.any():
        raise ValueError(f"the activation has no component of orders {order} … {2 * order - 1}")
    return TestFunction(np.asarray(axis) / norm, float(np.sign(sign)), order, coefficients)
