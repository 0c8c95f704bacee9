"""Tensor losses: how far student and teacher are apart order by order (LMZ eq. 2.2)."""

from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import Float

from wstar.kernels.activations import HomogeneousActivation

_ROWS = 2048


def tensor_losses(
    masses: Float[np.ndarray, " m"],
    directions: Float[np.ndarray, "m d"],
    teacher_masses: Float[np.ndarray, " k"],
    teacher_directions: Float[np.ndarray, "k d"],
    orders: Iterable[int],
) -> dict[int, float]:
    """``T_k = Σ ĉ_pĉ_q (u_p·u_q)^k = ‖Σ c_i u_i^{⊗k} − Σ a*_j w*_j^{⊗k}‖²_F ≥ 0`` for every k in ``orders``.

    The Gram matrix is formed in blocks of rows.

    Raises:
        ValueError: an order that is negative or not whole.
    """
    orders = _whole(orders)
    atoms = np.concatenate([directions, teacher_directions])
    signed = np.concatenate([masses, -teacher_masses])
    totals = dict.fromkeys(orders, 0.0)
    for start in range(0, len(atoms), _ROWS):
        rows = slice(start, start + _ROWS)
        gram = np.clip(atoms[rows] @ atoms.T, -1.0, 1.0)
        # from order to order by products: numpy's float power takes 20 ns an entry, a product less than one
        power, reached = np.ones_like(gram), 0
        for k in sorted(totals):
            for factor in _factors(gram, k - reached):
                power = power * factor
            reached = k
            totals[k] += float(signed[rows] @ (power @ signed))
    return {k: max(total, 0.0) for k, total in totals.items()}


def _factors(gram: Float[np.ndarray, "n m"], exponent: int) -> Iterator[Float[np.ndarray, "n m"]]:
    """Factors of ``gram**exponent`` by repeated squaring."""
    while exponent:
        if exponent % 2:
            yield gram
        exponent //= 2
        if exponent:
            gram = gram * gram


def sample_tensor_losses(
    X: Float[np.ndarray, "n d"],
    residual: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, " n"],
    activation: HomogeneousActivation,
    orders: Iterable[int],
) -> dict[int, float]:
    """``‖E R He_k(x)‖²_F / σ̂_k²`` from a sample with x ~ N(0, I), without bias: the weighted mean over pairs of rows.

    ``⟨He_k(x), He_k(x')⟩`` is the coefficient of ``r^k`` in Mehler's kernel
    ``S(r) = (1−r²)^{−d/2} exp((2r p − r² q)/(2(1−r²)))``, ``p = x·x'``, ``q = ‖x‖²+‖x'‖²``, from the recurrence that
    ``(1−r²)² S' = [d r(1−r²) + p(1+r²) − r q] S`` gives. NaN where ``σ̂_k = 0``.

    Raises:
        ValueError: an order that is negative or not whole.
    """
    orders = _whole(orders)
    n, dim = X.shape
    p, squares = X @ X.T, np.sum(X * X, axis=1)
    q = squares[:, None] + squares[None, :]
    weights = weights / weights.sum()
    share, other_pairs = weights * residual, 1.0 - weights @ weights
    top = max(orders, default=0)
    coefficients = activation.coefficients(top + 1)
    zero = np.zeros_like(p)
    series = [np.ones_like(p)]
    for k in range(top):
        at = lambda j: series[j] if j >= 0 else zero  # noqa: E731
        rhs = p * at(k) + (dim - q) * at(k - 1) + p * at(k - 2) - dim * at(k - 3)
        series.append((rhs + 2.0 * max(k - 1, 0) * at(k - 1) - max(k - 3, 0) * at(k - 3)) / (k + 1))
    result = {}
    for k in orders:
        if n < 2 or coefficients[k] == 0.0:
            result[k] = float("nan")
            continue
        pairs = share @ series[k] @ share - np.sum(share**2 * np.diag(series[k]))
        result[k] = float(pairs / other_pairs / coefficients[k] ** 2)
    return result


def _whole(orders: Iterable[int]) -> tuple[int, ...]:
    orders = tuple(orders)
    for k in orders:
        if int(k) != k or k < 0:
            raise ValueError(f"order {k!r} must be a whole number ≥ 0")
    return tuple(int(k) for k in orders)
