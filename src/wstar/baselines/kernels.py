"""Positive semidefinite kernels between rows of two tables: infinitely wide networks, Gaussian, polynomial.

NumPy rather than JAX: a fit has shapes of its own, and compiling for them would take longer than most fits.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from wstar.kernels.activations import HomogeneousActivation

# where 1 − |ρ| is below this, rounding of ρ would cost asin more than three of its digits
_NEAR = 1e-6
# entries of difference vectors held at once
_DIFFERENCES = 2**20


@runtime_checkable
class RowKernel(Protocol):
    """A kernel on rows, with everything that it takes from the training rows already fixed."""

    def __call__(self, X: Float[np.ndarray, "n d"], Z: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "n m"]:
        """``k(x_i, z_j)``."""
        ...

    def diagonal(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """``k(x_i, x_i)``."""
        ...


@dataclass(frozen=True)
class NetworkKernel:
    """A two-layer network ``m^{-1/2} Σ a_i σ(w_i·x)`` with a_i, w_i standard normal, as m → ∞.

    With the angle θ between x and z, ``e = activation.even``, ``o = activation.odd``:

    * ``values``: ``E σ(w·x)σ(w·z) = ‖x‖‖z‖ [e² (2/π)(sin θ + (π/2 − θ) cos θ) + o² cos θ]``, what the outer weights
      span: the arc-cosine kernel of order 1 (Cho & Saul 2009, eq. 3), for ReLU
      ``‖x‖‖z‖ (sin θ + (π − θ) cos θ)/2π``;
    * ``slopes``: ``x·z E σ'(w·x)σ'(w·z) = x·z [e² (2/π)(π/2 − θ) + o²]``, what the inner weights span, for ReLU
      ``x·z (π − θ)/2π`` (order 0).

    Their sum is the neural tangent kernel of both layers (Jacot, Gabriel & Hongler 2018, Theorem 1). Mixed terms of |·|
    and x vanish, since one is even in w and the other odd. A zero row has kernel 0 with every row.
    """

    activation: HomogeneousActivation
    values: bool
    slopes: bool

    def __call__(self, X: Float[np.ndarray, "n d"], Z: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "n m"]:
        """See the class; right to 1e-13 of ``‖x‖‖z‖``, also for rows that are almost parallel."""
        (left, lengths), (right, others) = _unit_rows(X), _unit_rows(Z)
        rho = left @ right.T
        complement = _arcsine(rho, left, right)
        even, odd = self.activation.even**2 * (2.0 / np.pi), self.activation.odd**2
        kernel = np.zeros_like(rho)
        if self.values:
            kernel += even * (np.cos(complement) + rho * complement) + odd * rho
        if self.slopes:
            kernel += rho * (even * complement + odd)
        kernel *= lengths[:, None] * others[None, :]
        return kernel

    def diagonal(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """``(e² + o²)‖x‖²`` for each of the two parts."""
        return (self.values + self.slopes) * (self.activation.even**2 + self.activation.odd**2) * _squares(X)


@dataclass(frozen=True, eq=False)
class GaussianKernel:
    """``exp(−‖x − z‖²/2h²)``; ``centre`` is taken off both first, so that a common offset costs no digits."""

    bandwidth: float
    centre: Float[np.ndarray, " d"]

    def __call__(self, X: Float[np.ndarray, "n d"], Z: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "n m"]:
        """See the class."""
        left, right = (X - self.centre) / self.bandwidth, (Z - self.centre) / self.bandwidth
        exponent = left @ right.T
        exponent -= 0.5 * _squares(left)[:, None]
        exponent -= 0.5 * _squares(right)[None, :]
        # a squared distance is not negative, whatever rounding says
        return np.exp(np.minimum(exponent, 0.0, out=exponent), out=exponent)

    def diagonal(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Ones."""
        return np.ones(len(X))


@dataclass(frozen=True)
class PolynomialKernel:
    """``(offset + x·z/h²)^degree``: polynomials up to that degree (all of them if offset > 0)."""

    degree: int
    offset: float
    bandwidth: float

    def __call__(self, X: Float[np.ndarray, "n d"], Z: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "n m"]:
        """See the class."""
        base = (X / self.bandwidth) @ (Z / self.bandwidth).T
        base += self.offset
        kernel = base.copy()
        # a few products take less than half the time of NumPy's power
        for _ in range(self.degree - 1):
            kernel *= base
        return kernel

    def diagonal(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """``(offset + ‖x‖²/h²)^degree``."""
        return (self.offset + _squares(X / self.bandwidth)) ** self.degree


def median_distance(X: Float[np.ndarray, "n d"]) -> float:
    """Median distance between two different rows, the usual bandwidth; 1 if all rows are equal."""
    centred = X - X.mean(axis=0)
    squares = _squares(centred)
    distances = squares[:, None] + squares[None, :] - 2.0 * (centred @ centred.T)
    pairs = distances[np.triu_indices(len(X), 1)]
    # equal rows come out at rounding, and say nothing about the scale on which labels change
    apart = pairs[pairs > 1e-13 * squares.max()]
    return float(np.sqrt(np.median(apart))) if apart.size else 1.0


def root_mean_square_norm(X: Float[np.ndarray, "n d"]) -> float:
    """``√(mean ‖x‖²)``; 1 if all rows are zero."""
    return float(np.sqrt(_squares(X).mean())) or 1.0


def _squares(X: np.ndarray) -> np.ndarray:
    return np.einsum("nd,nd->n", X, X)


def _unit_rows(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    norms = np.linalg.norm(X, axis=1)
    return X / np.where(norms == 0.0, 1.0, norms)[:, None], norms


def _arcsine(rho: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """``asin ρ = π/2 − θ``; near ±1 from chords, where ρ alone holds half the digits and K would turn indefinite."""
    complement = np.arcsin(np.clip(rho, -1.0, 1.0))
    rows, columns = np.nonzero(np.abs(rho) > 1.0 - _NEAR)
    step = max(1, _DIFFERENCES // left.shape[1])
    for start in range(0, len(rows), step):
        i, j = rows[start : start + step], columns[start : start + step]
        sign = np.sign(rho[i, j])
        chord = np.linalg.norm(left[i] - sign[:, None] * right[j], axis=1)
        complement[i, j] = sign * (0.5 * np.pi - 2.0 * np.arcsin(0.5 * chord))
    return complement
