"""Kernel sums block by block: the Gram matrix of 20,000 neurons is never held as a whole."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from wstar.kernels.activations import Kernel
from wstar.kernels.cpu import SMALL

# entries of ρ held at once; a few such blocks (ρ, s, t and the weighted slope) are alive together: about 100 MB
BLOCK_ENTRIES = 2**21


def kernel_sums(
    kernel: Kernel,
    points: Float[Array | np.ndarray, "n d"],
    atoms: Float[Array, "m d"],
    masses: Float[Array, " m"],
) -> tuple[Float[Array, " n"], Float[Array, "n d"]]:
    """``A = Σ_q c_q (K−ρK')(ρ_q)`` and ``B = Σ_q c_q K'(ρ_q) u_q`` at every point v, ``ρ_q = v·u_q``.

    From them ``Ψ(v) = Σ_q c_q K(ρ_q) = A + v·B`` and ``∇Ψ(v) = A v + B`` for the 1-homogeneous extension of K.
    Rows of ``points`` and ``atoms`` are unit vectors (a zero row stands for an absent neuron and must have no mass).
    """
    n, m = points.shape[0], atoms.shape[0]
    rows = max(1, BLOCK_ENTRIES // max(m, 1))
    if n * m <= SMALL:
        return _block(kernel, points, atoms, masses)
    if n <= rows:
        # two sums that do not wait for each other: XLA runs parts of them side by side (10 % at 1000 points)
        halves = [_block(kernel, part, atoms, masses) for part in (points[: n // 2], points[n // 2 :])]
        return jnp.concatenate([a for a, _ in halves]), jnp.concatenate([b for _, b in halves])
    n_blocks = -(-n // rows)
    padded = jnp.zeros((n_blocks * rows, points.shape[1]), points.dtype).at[:n].set(points)
    a, b = jax.lax.map(lambda p: _block(kernel, p, atoms, masses), padded.reshape(n_blocks, rows, -1))
    return a.reshape(-1)[:n], b.reshape(n_blocks * rows, -1)[:n]


def _block(
    kernel: Kernel, points: Float[Array | np.ndarray, "n d"], atoms: Float[Array, "m d"], masses: Float[Array, " m"]
) -> tuple[Float[Array, " n"], Float[Array, "n d"]]:
    radial, slope = kernel.radial_and_slope(jnp.asarray(points) @ atoms.T)
    dim = atoms.shape[1]
    # rows of whole vector registers: 15 → 11 µs for this product at 100 points, 130 atoms and d = 30
    weighted = jnp.pad(masses[:, None] * atoms, ((0, 0), (0, -dim % 8)))
    return radial @ masses, (slope @ weighted)[:, :dim]
