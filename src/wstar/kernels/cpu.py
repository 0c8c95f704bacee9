"""What XLA's CPU compiler does to small elementwise loops, and how to keep it from doing it."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

# entries up to which one core is faster than waking a second one
SMALL = 2**15


def on_one_core(function: Callable[[Array], Array], x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """``function(x)`` for an elementwise ``function``; where ``x`` is small, not handed out to XLA's thread pool.

    XLA divides every elementwise loop of more than about 2·10⁵ estimated cycles among its threads; waking one costs
    20 µs and more, longer than the loop itself takes, and the estimate can't be set from inside a process. A loop that
    ends in an in-place update is left whole, so the two halves of ``x`` are written into one buffer one after the
    other. Measured on two cores: 85 → 65 µs for a step of 100 neurons against 130 atoms.
    """
    if x.ndim == 0 or x.shape[0] < 2 or x.size > SMALL:
        return function(x)
    half, result = x.shape[0] // 2, jnp.zeros_like(x)
    for start, part in ((0, x[:half]), (half, x[half:])):
        # behind the barrier the position is unknown to the compiler, which would otherwise turn the update into a pad
        first = jax.lax.optimization_barrier(jnp.asarray(start))
        result = jax.lax.dynamic_update_slice_in_dim(result, function(part), first, axis=0)
    return result
