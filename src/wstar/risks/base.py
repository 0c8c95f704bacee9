"""A risk is its value and its residual field; gradients, certificates and candidate searches are read off these."""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Literal, TypeVar, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from wstar.kernels.activations import HomogeneousActivation
from wstar.networks.network import Atoms, Measure, TwoLayer
from wstar.networks.parametrisation import AffineResidual, Field, Free, MeanField
from wstar.networks.student import Student
from wstar.precision import double_precision
from wstar.risks.precise import Ball

Parameters = TypeVar("Parameters", Free, MeanField)


class Risk(eqx.Module):
    """Mean square error ``L = E (f(x) − y)²`` of a network, over a population or over a sample.

    The abstract methods are the traced ones: pure functions of a :class:`Measure` for use inside ``jax.jit``. The
    public ones (:meth:`value`, :meth:`gradient`, :meth:`field`, :meth:`tensor_losses`) take networks and give NumPy.
    """

    preprocessed: eqx.AbstractVar[bool]
    mesh: eqx.AbstractVar[Mesh | None]

    @property
    @abstractmethod
    def dim(self) -> int:
        """Input dimension d."""

    @abstractmethod
    def loss(self, activation: HomogeneousActivation, measure: Measure) -> Float[Array, ""]:
        """``L(μ)``, traced."""

    @abstractmethod
    def residual_field(
        self, activation: HomogeneousActivation, measure: Measure, directions: Float[Array | np.ndarray, "n d"]
    ) -> Field:
        """``Ψ`` and ``∇Ψ`` of the residual ``R = f_μ − y`` at unit ``directions``, traced."""

    @abstractmethod
    def affine_residual(self, activation: HomogeneousActivation, measure: Measure) -> AffineResidual:
        """``E R`` and ``E R x``, traced."""

    @abstractmethod
    def affine_correction(self, affine: AffineResidual) -> AffineResidual:
        """What to add to bias and linear part so that their residual ``affine`` becomes zero, traced."""

    @abstractmethod
    def fit_affine(self, activation: HomogeneousActivation, measure: Measure) -> Measure:
        """The same measure with bias and linear part at their minimiser (ZG: (α̂, β̂))."""

    @abstractmethod
    def mass_problem(
        self, activation: HomogeneousActivation, directions: Float[np.ndarray, "m d"]
    ) -> tuple[Float[np.ndarray, "m m"], Float[np.ndarray, " m"], float]:
        """``G, b, y²`` with ``min over the affine part of L = cᵀGc − 2bᵀc + y²`` for masses c at ``directions``."""

    @abstractmethod
    def tensor_losses(self, network: TwoLayer, orders: Iterable[int] = (0, 1, 2, 4, 6, 8)) -> dict[int, float]:
        """``T_k = ‖Σ c_i u_i^{⊗k} − Σ a*_j w*_j^{⊗k}‖²_F`` by order (LMZ eq. 2.2), without the factor ``σ̂_k²``."""

    @abstractmethod
    def relabelled(self, linear: Float[np.ndarray, " d"], scale: float) -> "Risk":
        """The same risk with labels ``(y − linear·x)/scale``."""

    def reduced(self, directions: Float[np.ndarray, "m d"]) -> "tuple[Risk, Float[np.ndarray, 'k d'] | None]":
        """An equal risk in fewer coordinates for networks that start at ``directions``, with the basis it uses.

        ``None`` where there is no such reduction, and the risk itself.
        """
        return self, None

    def precise_value(self, network: TwoLayer, weight_decay: float = 0.0) -> Ball:
        """``L_λ`` in ball arithmetic, where a closed form allows it.

        Raises:
            ValueError: this risk has none.
        """
        raise ValueError("precise=True needs a closed form: it is offered by PopulationRisk")

    def target(self, activation: HomogeneousActivation) -> Atoms | None:
        """What a student with ``activation`` is to find, where the risk knows it."""
        return None

    # ------------------------------------------------------------------ public surface

    @overload
    def value(self, network: TwoLayer, weight_decay: float = 0.0, *, precise: Literal[False] = False) -> float: ...

    @overload
    def value(self, network: TwoLayer, weight_decay: float = 0.0, *, precise: Literal[True]) -> Ball: ...

    @double_precision
    def value(self, network: TwoLayer, weight_decay: float = 0.0, *, precise: bool = False) -> float | Ball:
        """``L_λ = L + (λ/2)(‖a‖² + ‖W‖²)`` with λ = ``weight_decay`` (ZG eq. 2); never negative.

        ``precise=True`` computes in ball arithmetic and returns the pair (value, radius): the radius holds every
        rounding error and is at most 1e-6 of the value, down to losses of 1e-700.

        Raises:
            ValueError: the network lives in another dimension, λ is negative or NaN, or ``precise`` on a sample.
        """
        self._check(network)
        check_weight_decay(weight_decay)
        if precise:
            return self.precise_value(network, weight_decay)
        loss = float(_loss(self, network.activation, network.measure))
        penalty = float(np.sum(network.outputs**2) + np.sum(network.weights**2))
        # a square that rounds below zero is zero to working precision
        return max(loss, 0.0) + 0.5 * weight_decay * penalty

    @double_precision
    def gradient(self, network: TwoLayer, weight_decay: float = 0.0) -> Student:
        """``∇L_λ`` in the free parametrisation, as a network-shaped record: outputs, weights, bias, linear.

        Raises:
            ValueError: as :meth:`value`.
        """
        self._check(network)
        check_weight_decay(weight_decay)
        free = Free(network.outputs, network.weights, np.asarray(network.bias), network.linear)
        # as an array: a Python number would be compiled in, once per value
        gradient = _gradient(self, network.activation, free, np.asarray(weight_decay, dtype=float))
        return Student.from_parameters(gradient, network.activation)

    @double_precision
    def field(
        self, network: TwoLayer, directions: ArrayLike
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n d"]]:
        """``Ψ(w) = E R σ(w·x)`` and ``∇Ψ(w)`` at any rows w, R the residual of ``network`` (math: ∂_{a_i}L = 2Ψ(w_i)).

        Raises:
            ValueError: ``directions`` has other columns than the risk has inputs, or values that are not finite.
        """
        self._check(network)
        directions = np.atleast_2d(np.asarray(directions, dtype=float))
        if directions.shape[1] != self.dim or not np.isfinite(directions).all():
            raise ValueError(f"directions has shape {directions.shape}: finite rows of length {self.dim} are expected")
        norms = np.linalg.norm(directions, axis=1)
        unit = directions / np.where(norms > 0.0, norms, 1.0)[:, None]
        field = _field(self, network.activation, network.measure, unit)
        return norms * np.asarray(field.values), np.asarray(field.gradients)

    def _check(self, network: TwoLayer) -> None:
        if network.dim != self.dim:
            raise ValueError(f"the network has {network.dim} inputs, the risk {self.dim}: they must live in one space")


def check_weight_decay(weight_decay: float) -> None:
    """Raise ValueError unless λ is a finite number ≥ 0."""
    if not (np.isfinite(weight_decay) and weight_decay >= 0.0):
        raise ValueError(f"weight_decay={weight_decay} must be finite and not negative")


def parameter_gradient(
    risk: Risk,
    activation: HomogeneousActivation,
    parameters: Parameters,
    weight_decay: float | Float[Array | np.ndarray, ""] = 0.0,
) -> Parameters:
    """``∇L_λ`` in the parametrisation of ``parameters``, traced; α and β are not decayed (ZG eq. 2)."""
    measure = parameters.measure()
    field = risk.residual_field(activation, measure, measure.directions)
    gradient = parameters.pullback(field, risk.affine_residual(activation, measure))
    gradient = gradient._replace(weights=gradient.weights + weight_decay * parameters.weights)
    if isinstance(parameters, Free):
        gradient = gradient._replace(outputs=gradient.outputs + weight_decay * parameters.outputs)
    return gradient


def objective(
    risk: Risk, activation: HomogeneousActivation, parameters: Free, weight_decay: float | Float[Array | np.ndarray, ""]
) -> Float[Array, ""]:
    """``L_λ(θ)``, traced."""
    penalty = jnp.sum(parameters.outputs**2) + jnp.sum(parameters.weights**2)
    return risk.loss(activation, parameters.measure()) + 0.5 * weight_decay * penalty


@eqx.filter_jit
def _loss(risk: Risk, activation: HomogeneousActivation, measure: Measure) -> Array:
    return risk.loss(activation, measure)


@eqx.filter_jit
def _field(risk: Risk, activation: HomogeneousActivation, measure: Measure, directions: Array | np.ndarray) -> Field:
    return risk.residual_field(activation, measure, directions)


@eqx.filter_jit
def _gradient(
    risk: Risk, activation: HomogeneousActivation, parameters: Free, weight_decay: Array | np.ndarray
) -> Free:
    return parameter_gradient(risk, activation, jax.tree.map(jnp.asarray, parameters), weight_decay)
