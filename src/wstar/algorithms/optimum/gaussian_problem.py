"""The measure problem of a population: features known through a kernel of the angle, targets in a small span."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb, arb_poly
from jaxtyping import Float
from numpy.polynomial.polynomial import polyval

from wstar.algorithms.optimum.problem import Atoms, MeasureProblem, ResidualField
from wstar.risks.precise import centred_abs

Rho = Float[np.ndarray, "..."]

# units in the last place that the functions of ρ in one kernel entry, and rows of unit length to rounding, can cost
_ENTRY_ULPS = 16


class AngleKernel(ABC):
    """A kernel of ρ = u·v with two derivatives, elementwise; ρ may leave [−1, 1] by rounding."""

    even: bool

    @abstractmethod
    def values(self, rho: Rho) -> Rho:
        """``K``."""

    @abstractmethod
    def parts(self, rho: Rho) -> tuple[Rho, Rho, Rho]:
        """``K − ρK'``, ``K'`` and ``K''``."""

    @abstractmethod
    def ball(self, rho: arb) -> arb:
        """``K`` in ball arithmetic."""

    @property
    @abstractmethod
    def steepness(self) -> float:
        """A bound on ``|K|``, ``|K − ρK'|`` and ``|K'|`` together, in which rounding errors are counted."""


@dataclass(frozen=True)
class CenteredAbs(AngleKernel):
    """``K = (2/π)(s + ρt − 1)``, the kernel of |x| less its mean, in NumPy."""

    even: bool = True

    def values(self, rho: Rho) -> Rho:
        """See the class."""
        rho = np.clip(rho, -1.0, 1.0)
        return (2.0 / np.pi) * (np.sqrt((1.0 - rho) * (1.0 + rho)) + rho * np.arcsin(rho) - 1.0)

    def parts(self, rho: Rho) -> tuple[Rho, Rho, Rho]:
        """K'' = (2/π)/s is put to 0 at ρ = ±1: it only ever multiplies ``(v − ρu)(v − ρu)ᵀ = O(s²)``."""
        rho = np.clip(rho, -1.0, 1.0)
        sine = np.sqrt((1.0 - rho) * (1.0 + rho))
        curvature = np.divide(2.0 / np.pi, sine, out=np.zeros_like(sine), where=sine > 0.0)
        return (2.0 / np.pi) * (sine - 1.0), (2.0 / np.pi) * np.arcsin(rho), curvature

    def ball(self, rho: arb) -> arb:
        """See the base class."""
        return centred_abs(rho)

    @property
    def steepness(self) -> float:
        """``|K − ρK'| ≤ 2/π`` and ``|K'| ≤ 1``."""
        return 1.64


@dataclass(frozen=True, eq=False)
class PowerSeries(AngleKernel):
    """``K(ρ) = Σ_k energies[k] ρ^k`` with ``energies[k] = σ̂_k² ≥ 0``."""

    energies: Float[np.ndarray, " k"]

    @property
    def even(self) -> bool:  # type: ignore[override]
        """Whether odd orders are absent."""
        return not self.energies[1::2].any()

    def values(self, rho: Rho) -> Rho:
        """See the class."""
        return polyval(np.clip(rho, -1.0, 1.0), self.energies)

    def parts(self, rho: Rho) -> tuple[Rho, Rho, Rho]:
        """Term by term."""
        rho, orders = np.clip(rho, -1.0, 1.0), np.arange(len(self.energies))
        return (
            polyval(rho, (1.0 - orders) * self.energies),
            polyval(rho, (orders * self.energies)[1:]),
            polyval(rho, (orders * (orders - 1.0) * self.energies)[2:]),
        )

    def ball(self, rho: arb) -> arb:
        """Horner's rule."""
        return arb_poly([arb(float(energy)) for energy in self.energies])(rho)

    @property
    def steepness(self) -> float:
        """``Σ (1 + k) σ̂_k²`` bounds what is summed; each of its terms adds its own rounding."""
        n = len(self.energies)
        return float((1.0 + np.arange(n)) @ self.energies) * (1.0 + 0.1 * n)


@dataclass(frozen=True, eq=False)
class GaussianProblem(MeasureProblem):
    """``⟨φ(u), φ(v)⟩ = K(u·v)`` and ``y = Σ a_j φ(v_j)``: a teacher under x ~ N(0, I), affine part fitted.

    ``targets`` (m*, k) are unit rows in coordinates of a space that holds them all, ``ambient`` ≥ k the dimension of
    the sphere that the measure may live on.
    """

    kernel: AngleKernel
    targets: Float[np.ndarray, "m k"]
    target_masses: Float[np.ndarray, " m"]
    ambient: int

    @property
    def even(self) -> bool:  # type: ignore[override]
        """As the kernel is."""
        return self.kernel.even

    @property
    def dim(self) -> int:
        """Coordinates k."""
        return self.targets.shape[1]

    @cached_property
    def energy(self) -> float:
        """``Σ a_i a_j K(v_i·v_j)``."""
        return max(float(self.target_masses @ self._values(self.targets, self.targets) @ self.target_masses), 0.0)

    def mass_problem(
        self, directions: Float[np.ndarray, "n k"]
    ) -> tuple[Float[np.ndarray, "n n"], Float[np.ndarray, " n"]]:
        """Kernel matrices."""
        values = self._values(directions, np.concatenate([directions, self.targets]))
        n = len(directions)
        return values[:, :n], values[:, n:] @ self.target_masses

    def loss(self, atoms: Atoms) -> float:
        """``Σ ĉ_p ĉ_q K(u_p·u_q)`` over atoms and (negative) targets together."""
        centres, masses = self.residual(atoms)
        return max(float(masses @ self._values(centres, centres) @ masses), 0.0)

    def field(self, atoms: Atoms) -> "GaussianField":
        """See :class:`GaussianField`."""
        return GaussianField(self.kernel, *self.residual(atoms))

    def residual(self, atoms: Atoms) -> tuple[Float[np.ndarray, "q k"], Float[np.ndarray, " q"]]:
        """The residual as a signed measure: atoms, then targets with the opposite mass."""
        return np.concatenate([atoms.directions, self.targets]), np.concatenate([atoms.masses, -self.target_masses])

    def derivatives(
        self, atoms: Atoms, weight_decay: float
    ) -> tuple[Float[np.ndarray, " nk"], Float[np.ndarray, "nk nk"]]:
        """Exact, from the second derivatives of ``‖w‖‖u‖K`` (smooth but for a bounded jump where atoms coincide)."""
        u, (n, k) = atoms.directions, atoms.directions.shape
        sign, root = np.sign(atoms.masses), np.sqrt(np.abs(atoms.masses))
        field = self.field(atoms)
        rho = u @ field.centres.T
        radial, slope, curvature = self.kernel.parts(rho)
        along, across = radial @ field.masses, (slope * field.masses) @ field.centres
        gradient = 2.0 * sign[:, None] * (along[:, None] * u + across) + weight_decay * u
        tangent = np.eye(k) - u[:, :, None] * u[:, None, :]
        bend = tangent @ field.curvature_sums(curvature) @ tangent + along[:, None, None] * tangent
        radial, slope, curvature = radial[:, :n], slope[:, :n], curvature[:, :n]
        scale = 2.0 * np.outer(sign * root, sign * root)
        # ∂_w∂_u ‖w‖‖u‖K = K' I + (K−ρK') v zᵀ + K'' (z − ρv)(v − ρz)ᵀ at unit v = u_i, z = u_j
        away = u[None, :, :] - rho[:, :n, None] * u[:, None, :]
        hessian = (scale * radial)[:, None, :, None] * (u[:, :, None, None] * u[None, None])
        bent = (scale * curvature)[..., None] * away.transpose(1, 0, 2)
        hessian += away.transpose(0, 2, 1)[..., None] * bent[:, None]
        for axis in range(k):
            hessian[:, axis, :, axis] += scale * slope
        diagonal = np.arange(n)
        hessian[diagonal, :, diagonal] += 2.0 * sign[:, None, None] * bend + weight_decay * tangent
        return (gradient * root[:, None]).ravel(), hessian.reshape(n * k, n * k)

    def special_directions(self) -> Float[np.ndarray, "s k"]:
        """The targets."""
        return self.targets

    def extended(self) -> "GaussianProblem | None":
        """One coordinate more, as long as the ambient space has one."""
        if self.dim >= self.ambient:
            return None
        padded = np.pad(self.targets, ((0, 0), (0, 1)))
        return GaussianProblem(self.kernel, padded, self.target_masses, self.ambient)

    def _values(self, left: Float[np.ndarray, "n k"], right: Float[np.ndarray, "m k"]) -> Float[np.ndarray, "n m"]:
        return self.kernel.values(left @ right.T)


class GaussianField(ResidualField):
    """``Ψ(u) = Σ_q ĉ_q K(u·u_q)`` with ``∇Ψ = A u + B``, ``A = Σ ĉ_q (K−ρK')``, ``B = Σ ĉ_q K' u_q``."""

    def __init__(
        self,
        kernel: AngleKernel,
        centres: Float[np.ndarray, "q k"],
        masses: Float[np.ndarray, " q"],
    ) -> None:
        """``centres`` and ``masses`` are the residual as a signed measure."""
        self.kernel, self.centres, self.masses = kernel, centres, masses
        self._outer = (centres[:, :, None] * centres[:, None, :]).reshape(len(centres), -1)

    @property
    def rounding(self) -> float:
        """How far float64 can leave Ψ from its value: inner products of k terms, functions of them, a sum of q."""
        n_rounded = _ENTRY_ULPS + self.centres.shape[1] + len(self.masses)
        return self.kernel.steepness * n_rounded * float(np.finfo(float).eps * np.abs(self.masses).sum())

    def curvature_sums(self, curvature: Float[np.ndarray, "p q"]) -> Float[np.ndarray, "p k k"]:
        """``Σ_q ĉ_q K''(ρ_q) u_q u_qᵀ``."""
        k = self.centres.shape[1]
        return ((curvature * self.masses) @ self._outer).reshape(-1, k, k)

    def at(self, points: Float[np.ndarray, "p k"]) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, "p k"]]:
        """See the base class."""
        radial, slope, _ = self.kernel.parts(points @ self.centres.T)
        along, across = radial @ self.masses, (slope * self.masses) @ self.centres
        return along + np.sum(points * across, axis=1), along[:, None] * points + across

    def expansion(
        self, points: Float[np.ndarray, "p k"]
    ) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, "p k"], Float[np.ndarray, "p k k"]]:
        """``Ψ`` on the sphere to second order: value, tangent gradient, Hessian ``P(Σ ĉ K'' u_q u_qᵀ)P − (u·B)P``."""
        radial, slope, curvature = self.kernel.parts(points @ self.centres.T)
        along, across = radial @ self.masses, (slope * self.masses) @ self.centres
        height = np.sum(points * across, axis=1)
        tangent = np.eye(points.shape[1]) - points[:, :, None] * points[:, None, :]
        hessian = tangent @ self.curvature_sums(curvature) @ tangent - height[:, None, None] * tangent
        return along + height, across - height[:, None] * points, hessian

    def ascent(self, points: Float[np.ndarray, "p k"]) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, "p k"]]:
        """Newton's step for |Ψ| with the eigenvalues of the Hessian taken by their absolute value."""
        values, gradient, hessian = self.expansion(points)
        sign = np.sign(values)
        eigenvalues, vectors = np.linalg.eigh(hessian)
        size = np.abs(eigenvalues)
        size = np.maximum(size, 1e-12 * size.max(axis=1, keepdims=True) + 1e-300)
        inner = np.einsum("pij,pi->pj", vectors, sign[:, None] * gradient) / size
        step = np.einsum("pij,pj->pi", vectors, inner)
        return values, step - np.sum(step * points, axis=1, keepdims=True) * points

    def square_norms(self, points: Float[np.ndarray, "p k"]) -> Float[np.ndarray, " p"]:
        """``K(1)``, the same everywhere."""
        return np.full(len(points), float(self.kernel.values(np.ones(1))[0]))
