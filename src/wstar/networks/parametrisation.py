"""How trained parameters become a measure, and how the residual field becomes their gradient.

ZG's free parametrisation has masses ``a_i‖w_i‖``, LMZ's mean-field one ``‖w_i‖²/m``. Both are JAX pytrees with two
methods: ``measure()`` and ``pullback(field, affine)``; an algorithm needs nothing else.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from wstar.networks.network import Measure


class Field(NamedTuple):
    """The residual field at directions u (rows): ``Ψ(u) = E R σ(u·x)`` and ``∇Ψ(u) = E R σ'(u·x) x``."""

    values: Float[Array | np.ndarray, " n"]
    gradients: Float[Array | np.ndarray, "n d"]


class AffineResidual(NamedTuple):
    """Half the gradient of the risk in the affine part: ``E R`` and ``E R x``."""

    bias: Float[Array | np.ndarray, ""]
    linear: Float[Array | np.ndarray, " d"]


def _split(weights: Float[Array | np.ndarray, "m d"]) -> tuple[Float[Array, " m"], Float[Array, "m d"]]:
    norms = jnp.sqrt(jnp.sum(weights * weights, axis=1))
    # a zero neuron keeps the zero direction: Ψ and ∇Ψ of the even part vanish there and it stays where it is
    return norms, jnp.asarray(weights) / jnp.where(norms > 0.0, norms, 1.0)[:, None]


class Free(NamedTuple):
    """ZG: all of a, W, α, β are trained. Shapes: outputs (m,), weights (m, d), bias (), linear (d,)."""

    outputs: Float[Array | np.ndarray, " m"]
    weights: Float[Array | np.ndarray, "m d"]
    bias: Float[Array | np.ndarray, ""]
    linear: Float[Array | np.ndarray, " d"]

    def measure(self) -> Measure:
        """``c_i = a_i‖w_i‖``."""
        norms, directions = _split(self.weights)
        return Measure(self.outputs * norms, directions, self.bias, self.linear)

    def pullback(self, field: Field, affine: AffineResidual) -> "Free":
        """``∂_a = 2‖w‖Ψ(w̄)``, ``∂_w = 2a∇Ψ(w̄)``, ``∂_α = 2 E R``, ``∂_β = 2 E R x``."""
        norms = jnp.sqrt(jnp.sum(self.weights * self.weights, axis=1))
        return Free(
            2.0 * norms * field.values,
            2.0 * self.outputs[:, None] * field.gradients,
            2.0 * affine.bias,
            2.0 * affine.linear,
        )


def widened(parameters: Free, width: int) -> Free:
    """The same network with neurons of zero weight and output added, up to ``width`` in all."""
    missing = max(width - len(parameters.outputs), 0)
    return parameters._replace(
        outputs=np.pad(parameters.outputs, (0, missing)), weights=np.pad(parameters.weights, ((0, missing), (0, 0)))
    )


class MeanField(NamedTuple):
    """LMZ: ``f(x) = (1/m) Σ ‖w_i‖σ(w_i·x)``; only W (m, d) is trained. Gradients are per particle (m times ∂L)."""

    weights: Float[Array | np.ndarray, "m d"]

    def measure(self) -> Measure:
        """``c_i = ‖w_i‖²/m``, no affine part."""
        norms, directions = _split(self.weights)
        m, d = self.weights.shape
        zero = jnp.zeros((), self.weights.dtype)
        return Measure(norms * norms / m, directions, zero, jnp.zeros(d, self.weights.dtype))

    def pullback(self, field: Field, affine: AffineResidual) -> "MeanField":
        """``m ∂_w L = 2[Ψ(w) w̄ + ‖w‖∇Ψ(w̄)]`` with ``Ψ(w) = ‖w‖Ψ(w̄)``: LMZ's step, m times the plain gradient."""
        norms, directions = _split(self.weights)
        return MeanField(2.0 * norms[:, None] * (field.values[:, None] * directions + field.gradients))
