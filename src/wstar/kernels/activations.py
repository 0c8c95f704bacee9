"""Activations and the kernels ``K(ρ) = E σ(u·x) σ(v·x)`` that they induce on unit vectors with ``u·v = ρ``.

A kernel is used through two functions of ρ, because gradients of a 1-homogeneous network are made of them
(``∇_w ‖w‖K(w̄·v) = (K−ρK') w̄ + K' v``): ``slope = K'`` and ``radial = K − ρK'``. Both are smooth at ρ = ±1.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from wstar.kernels.angles import arcsine, versine
from wstar.kernels.cpu import on_one_core
from wstar.kernels.hermite import abs_coefficients, function_coefficients, hermite_values

# a JAX array inside a trace, a NumPy array outside: what goes in comes out
AnyArray = TypeVar("AnyArray", Array, np.ndarray)


@runtime_checkable
class Kernel(Protocol):
    """What the rest of wstar asks of a kernel; both functions act elementwise on inner products of unit vectors."""

    def radial_and_slope(self, rho: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """``K − ρK'`` and ``K'``."""
        ...


@dataclass(frozen=True)
class CenteredAbsKernel:
    """``E (|u·x| − √(2/π)) (|v·x| − √(2/π)) = (2/π)(s + ρt − 1)``: the even orders 2, 4, … of |·|.

    Every activation ``p·ReLU(x) + q·ReLU(−x)`` is ``(p+q)/2·|x| + (p−q)/2·x``, so once the affine part is treated
    apart this one kernel serves them all (times ((p+q)/2)²; ReLU: a quarter, ZG's σ_{≥2}).
    """

    def radial_and_slope(self, rho: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """``(2/π)(s − 1)`` and ``(2/π) t``."""
        slope = on_one_core(lambda part: arcsine(part, scale=2.0 / np.pi), rho)
        return versine(slope, unit=0.5 * np.pi, scale=-2.0 / np.pi), slope


@dataclass(frozen=True)
class PowerSeriesKernel:
    """``K(ρ) = Σ_k energies[k] ρ^k``, for instance ``energies[k] = σ̂_k²`` for k ≥ ℓ (a tail K_{≥ℓ})."""

    energies: tuple[float, ...]

    def radial_and_slope(self, rho: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """``Σ (1−k) e_k ρ^k`` and ``Σ k e_k ρ^{k−1}`` by Horner's rule."""
        # rounding may put |ρ| a few ulp above 1; powers amplify that by their order, so it is taken back
        rho = jnp.clip(rho, -1.0, 1.0)
        radial, slope = jnp.zeros_like(rho), jnp.zeros_like(rho)
        for k in range(len(self.energies) - 1, -1, -1):
            radial = radial * rho + (1.0 - k) * self.energies[k]
            if k > 0:
                slope = slope * rho + k * self.energies[k]
        return radial, slope


@runtime_checkable
class Activation(Protocol):
    """A function of one variable with its derivative, its Hermite coefficients and a name to print."""

    name: str

    def __call__(self, x: AnyArray) -> AnyArray:
        """The activation, elementwise."""
        ...

    def derivative(self, x: AnyArray) -> AnyArray:
        """Its derivative, elementwise."""
        ...

    def coefficients(self, n_orders: int) -> Float[np.ndarray, " k"]:
        """``σ̂_0 … σ̂_{n_orders−1}``."""
        ...


@dataclass(frozen=True)
class HomogeneousActivation:
    """``p·ReLU(x) + q·ReLU(−x) = even·|x| + odd·x`` with ``even = (p+q)/2`` and ``odd = (p−q)/2``.

    ReLU is (1, 0), |·| is (1, 1), leaky ReLU with slope s is (1, −s).

    Raises:
        ValueError: ``p + q = 0``, which leaves a linear function and nothing to recover.
    """

    positive: float
    negative: float
    name: str = field(default="homogeneous", compare=False)

    def __post_init__(self) -> None:
        """Refuse the linear function."""
        if not np.isfinite([self.positive, self.negative]).all() or self.positive + self.negative == 0.0:
            raise ValueError(
                f"activation slopes ({self.positive}, {self.negative}) give a linear function: "
                "choose positive + negative different from 0"
            )

    @property
    def even(self) -> float:
        """The factor of |x|."""
        return 0.5 * (self.positive + self.negative)

    @property
    def odd(self) -> float:
        """The factor of x."""
        return 0.5 * (self.positive - self.negative)

    def __call__(self, x: AnyArray) -> AnyArray:
        """``even·|x| + odd·x``."""
        return self.even * abs(x) + self.odd * x

    def derivative(self, x: AnyArray) -> AnyArray:
        """``even·sign(x) + odd``; at the kink the mean of both slopes."""
        return self.even * (jnp if isinstance(x, Array) else np).sign(x) + self.odd

    def coefficients(self, n_orders: int) -> Float[np.ndarray, " k"]:
        """Closed form: odd orders above 1 vanish."""
        coefficients = self.even * abs_coefficients(n_orders)
        if n_orders > 1:
            coefficients[1] = self.odd
        return coefficients


@dataclass(frozen=True)
class HermiteActivation:
    """``σ = Σ_k hermite[k] h_k`` for a finite list of coefficients; used on unit directions only (not homogeneous)."""

    hermite: tuple[float, ...]
    name: str = field(default="hermite", compare=False)
    positive: ClassVar[None] = None

    @classmethod
    def from_function(
        cls, function: Callable[[np.ndarray], np.ndarray], n_orders: int = 60, *, name: str = "function"
    ) -> "HermiteActivation":
        """The first ``n_orders`` orders of any Python function of one array, by Gauss–Hermite quadrature."""
        return cls(tuple(float(c) for c in function_coefficients(function, n_orders)), name=name)

    def __call__(self, x: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """The finite Hermite sum."""
        return np.tensordot(np.array(self.hermite), hermite_values(np.asarray(x), len(self.hermite)), axes=1)

    def derivative(self, x: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """``h_k' = √k h_{k−1}``, summed."""
        weights = np.array(self.hermite)[1:] * np.sqrt(np.arange(1, len(self.hermite)))
        return np.tensordot(weights, hermite_values(np.asarray(x), len(self.hermite) - 1), axes=1)

    def coefficients(self, n_orders: int) -> Float[np.ndarray, " k"]:
        """The given coefficients, cut or filled with zeros."""
        padded = np.zeros(n_orders)
        padded[: min(n_orders, len(self.hermite))] = self.hermite[:n_orders]
        return padded


RELU = HomogeneousActivation(1.0, 0.0, name="relu")
ABS = HomogeneousActivation(1.0, 1.0, name="abs")


def leaky_relu(slope: float = 0.01) -> HomogeneousActivation:
    """``x`` for x ≥ 0 and ``slope·x`` below."""
    return HomogeneousActivation(1.0, -float(slope), name=f"leaky_relu({slope:g})")


_NAMED = {"relu": RELU, "abs": ABS, "leaky_relu": leaky_relu()}


def homogeneous(activation: "str | HomogeneousActivation") -> HomogeneousActivation:
    """The 1-homogeneous activation of that name, or the one given.

    Raises:
        ValueError: an unknown name, or an activation that is not 1-homogeneous.
    """
    if isinstance(activation, HomogeneousActivation):
        return activation
    if isinstance(activation, str) and activation in _NAMED:
        return _NAMED[activation]
    raise ValueError(
        f"activation={activation!r}: choose one of {', '.join(map(repr, _NAMED))} or a HomogeneousActivation"
    )
