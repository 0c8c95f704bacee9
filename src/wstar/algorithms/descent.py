"""Gradient descent in any parametrisation, and the step size a problem allows."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from wstar.algorithms.run import Update
from wstar.kernels.activations import HomogeneousActivation
from wstar.networks.parametrisation import Free, MeanField
from wstar.risks.base import Parameters, Risk, parameter_gradient


class Slope(eqx.Module):
    """``∇L_λ`` of a risk, with α and β trained like the rest (ZG Algorithm 1 as printed) or kept at their optimum.

    With ``affine_fitted`` the point is first moved to ``(α̂, β̂)``, as ZG do in Stage 2, and the gradient there has no
    affine part: the same minimisers, and a Hessian whose largest eigenvalue is 3 to 5 times smaller.
    """

    risk: Risk
    weight_decay: Float[Array | np.ndarray, ""]
    activation: HomogeneousActivation = eqx.field(static=True)
    affine_fitted: bool = eqx.field(static=True)

    def __call__(self, parameters: Free) -> tuple[Free, Free]:
        """The point at which the gradient is taken, and the gradient."""
        if self.affine_fitted:
            affine = self.risk.affine_residual(self.activation, parameters.measure())
            change = self.risk.affine_correction(affine)
            parameters = parameters._replace(
                bias=parameters.bias + change.bias, linear=parameters.linear + change.linear
            )
        gradient = parameter_gradient(self.risk, self.activation, parameters, self.weight_decay)
        if self.affine_fitted:
            gradient = gradient._replace(bias=jnp.zeros_like(gradient.bias), linear=jnp.zeros_like(gradient.linear))
        return parameters, gradient


class GradientDescent(Update[Free]):
    """``θ ← θ − η∇L_λ(θ)``; the stopping norm is ``‖∇L_λ‖`` before the step."""

    slope: Slope
    learning_rate: Float[Array | np.ndarray, ""]

    def __call__(self, state: Free) -> tuple[Free, Float[Array, ""]]:
        """One step."""
        point, gradient = self.slope(state)
        return jax.tree.map(lambda p, g: p - self.learning_rate * g, point, gradient), tree_norm(gradient)


def tree_norm(tree: Free | MeanField) -> Float[Array, ""]:
    """Euclidean norm of all entries of a pytree of arrays."""
    return jnp.sqrt(sum(jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(tree)))


@eqx.filter_jit
def largest_curvature(
    slope: Callable[[Parameters], tuple[Parameters, Parameters]], parameters: Parameters, n_iterations: int = 40
) -> Float[Array, ""]:
    """Largest |eigenvalue| of the Hessian of L_λ at ``parameters``, by power iteration on gradient differences.

    Differences, because the second derivative of the kernel is singular where two neurons coincide while the gradient
    is not. The iteration approaches the value from below (it is usually within 1 % after 40 products).
    """
    parameters = jax.tree.map(jnp.asarray, parameters)
    step = 1e-6 * (tree_norm(parameters) + 1e-30)
    _, here = slope(parameters)
    start = _spread(parameters)
    start = jax.tree.map(lambda leaf: leaf / tree_norm(start), start)

    def product(_: Array, carry: tuple[Parameters, Array]) -> tuple[Parameters, Array]:
        there = slope(jax.tree.map(lambda p, v: p + step * v, parameters, carry[0]))[1]
        image = jax.tree.map(lambda a, b: (a - b) / step, there, here)
        norm = tree_norm(image)
        return jax.tree.map(lambda leaf: leaf / jnp.where(norm > 0.0, norm, 1.0), image), norm

    return jax.lax.fori_loop(0, n_iterations, product, (start, jnp.zeros(())))[1]


def _spread(parameters: Parameters) -> Parameters:
    # a fixed start with weight on every coordinate: the curvature asked for must not depend on a random draw
    leaves, structure = jax.tree.flatten(parameters)
    filled = [
        jnp.cos(1.0 + 0.7 * i + jnp.arange(leaf.size, dtype=leaf.dtype)).reshape(leaf.shape)
        for i, leaf in enumerate(leaves)
    ]
    return jax.tree.unflatten(structure, filled)


def stable_learning_rate(curvature: float, safety: float = 0.7) -> float:
    """``safety · 2/curvature``: gradient descent is stable below 2/curvature; 0.5 where there is no curvature."""
    return float(safety * 2.0 / curvature) if np.isfinite(curvature) and curvature > 0.0 else 0.5
