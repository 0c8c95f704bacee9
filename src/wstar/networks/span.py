"""Exact shortcuts: population quantities see Gram matrices only, so a run may live in the span of its directions."""

import numpy as np
from jaxtyping import Float


def span_basis(*rows: Float[np.ndarray, "... d"], tolerance: float = 1e-13) -> Float[np.ndarray, "k d"]:
    """Orthonormal rows spanning all given rows (zero rows are allowed); k ≤ min(d, number of rows).

    A direction whose singular value is below ``tolerance`` times the largest is rounding and is left out. Rows are
    scaled to unit length first, so that a light neuron's direction counts as much as a heavy one's.
    """
    stacked = np.concatenate([np.atleast_2d(r) for r in rows])
    norms = np.linalg.norm(stacked, axis=1)
    if not (norms > 0.0).any():
        return np.zeros((0, stacked.shape[1]))
    stacked = stacked[norms > 0.0] / norms[norms > 0.0][:, None]
    # eigenvectors of the small Gram matrix would square the condition number; QR of the tall transpose does not
    q, r = np.linalg.qr(stacked.T)
    left, singular, _ = np.linalg.svd(r)
    keep = singular > tolerance * singular[0]
    return (q @ left[:, : len(singular)][:, keep]).T
