"""One risk on several devices: rows of a sample or points of a field are dealt out, everything else is on each.

What a device holds and sends is in ``docs/scale.md``: sums over rows meet once a pass, neurons never.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from wstar.precision import double_precision

AXIS = "devices"
_DEALT, _EVERYWHERE = PartitionSpec(AXIS), PartitionSpec()

Devices = Sequence[jax.Device] | int | None

# what a pass over the rows adds up: any pytree of arrays
Sums = TypeVar("Sums")


def device_mesh(devices: Devices) -> Mesh | None:
    """A line of devices: those given, or the first so many that JAX has; None where the default device is meant.

    Raises:
        ValueError: no device, one that is named twice, or more than there are.
    """
    if devices is None:
        return None
    if isinstance(devices, int):
        there = jax.devices()
        if not 1 <= devices <= len(there):
            raise ValueError(f"devices={devices}: JAX has {len(there)} here, ask for 1 to {len(there)} or give a list")
        devices = there[:devices]
    if not devices or len(set(devices)) < len(devices):
        raise ValueError(f"devices={list(devices)}: at least one, each of them once, is expected")
    return Mesh(np.array(list(devices)), (AXIS,))


@double_precision
def deal(mesh: Mesh, rows: np.ndarray) -> Array:
    """``rows`` cut into equal runs, one a device; zero rows fill the last one up."""
    filled = np.pad(rows, ((0, -len(rows) % mesh.size),) + ((0, 0),) * (rows.ndim - 1))
    return jax.device_put(filled, NamedSharding(mesh, _DEALT))


def total_over_rows(mesh: Mesh, part: Callable[..., Sums], *rows: Array) -> Sums:
    """``part`` of each device's ``rows``, summed over the devices, traced."""

    def total(*mine: Array) -> Any:
        return jax.tree.map(lambda leaf: jax.lax.psum(leaf, AXIS), part(*mine))

    spread = jax.shard_map(total, mesh=mesh, in_specs=_DEALT, out_specs=_EVERYWHERE)
    found: Sums = spread(*rows)
    return found


def at_points(
    mesh: Mesh,
    sums: Callable[[Array, Array, Array], tuple[Array, Array]],
    points: Float[Array | np.ndarray, "n d"],
    atoms: Float[Array, "m d"],
    masses: Float[Array, " m"],
) -> tuple[Float[Array, " n"], Float[Array, "n d"]]:
    """``sums(points, atoms, masses)``, one row a point, each device at its own share of the ``points``; traced."""
    n = points.shape[0]
    filled = jnp.pad(jnp.asarray(points), ((0, -n % mesh.size), (0, 0)))
    spread = jax.shard_map(sums, mesh=mesh, in_specs=(_DEALT, _EVERYWHERE, _EVERYWHERE), out_specs=_DEALT)
    first, second = spread(filled, atoms, masses)
    return first[:n], second[:n]
