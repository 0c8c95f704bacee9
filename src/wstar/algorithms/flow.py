"""Gradient flow ``θ' = −∇L_λ(θ)``, the limit of small steps, integrated to a tolerance."""

from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from wstar.algorithms.descent import Slope, tree_norm
from wstar.algorithms.run import Update
from wstar.networks.parametrisation import Free

_RELATIVE, _ABSOLUTE = 1e-8, 1e-11
_MOST_SUBSTEPS = 100_000


class GradientFlow(Update[Free]):
    """The flow over a time ``duration`` as one step; NaN where the integrator gives up.

    Tsitouras' explicit method of order 5 with steps chosen from its error estimate: the flow is followed to about
    1e-8, however stiff it is; what stiffness costs is steps.
    """

    slope: Slope
    duration: Float[Array | np.ndarray, ""]
    first: Float[Array | np.ndarray, ""]
    """The integrator's first try of a step."""

    def __call__(self, state: Free) -> tuple[Free, Float[Array, ""]]:
        """The state ``duration`` later, and ``‖∇L_λ‖`` there."""
        path = diffrax.diffeqsolve(
            diffrax.ODETerm(self._velocity),
            diffrax.Tsit5(),
            t0=0.0,
            t1=self.duration,
            dt0=jnp.minimum(self.first, self.duration),
            y0=self.slope(state)[0],
            stepsize_controller=diffrax.PIDController(rtol=_RELATIVE, atol=_ABSOLUTE),
            saveat=diffrax.SaveAt(t1=True),
            max_steps=_MOST_SUBSTEPS,
            throw=False,
        )
        arrived, gradient = self.slope(jax.tree.map(lambda leaf: leaf[0], path.ys))
        sound = path.result == diffrax.RESULTS.successful
        return arrived, jnp.where(sound, tree_norm(gradient), jnp.nan)

    def _velocity(self, time: Any, state: Any, _: Any) -> Free:
        return jax.tree.map(jnp.negative, self.slope(state)[1])
