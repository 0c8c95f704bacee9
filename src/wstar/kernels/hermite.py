"""Normalised Hermite polynomials and the coefficients ``σ̂_k = E σ(x) h_k(x)``, x ~ N(0, 1) (ZG App. A, LMZ §2)."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigvalsh_tridiagonal
from scipy.special import gammaln


def hermite_values(x: Float[np.ndarray, "..."], n_orders: int) -> Float[np.ndarray, "k ..."]:
    """Normalised probabilists' Hermite polynomials ``h_0 … h_{n_orders−1}`` at ``x``: ``E h_j(x) h_k(x) = δ_jk``.

    By the three-term recurrence ``√(k+1) h_{k+1} = x h_k − √k h_{k−1}``, which does not overflow with the order.
    """
    x = np.asarray(x, dtype=float)
    return _recur(np.ones_like(x), x, n_orders)


def abs_coefficients(n_orders: int) -> Float[np.ndarray, " k"]:
    """``σ̂_0 … σ̂_{n_orders−1}`` of ``|x|``: zero at odd orders, ``|σ̂_k| = Θ(k^{−5/4})`` at even ones (ZG Lemma A.1).

    Even k ≥ 2: ``(−1)^{k/2−1} √(2/π) (k−2)! / (√(k!) 2^{k/2−1} (k/2−1)!)``; k = 10⁵ neither over- nor underflows.
    """
    coefficients = np.zeros(n_orders)
    if n_orders > 0:
        coefficients[0] = np.sqrt(2.0 / np.pi)
    k = np.arange(2, n_orders, 2)
    # σ̂_{k+2}/σ̂_k = −(k−1)/√((k+1)(k+2)): a product carries fewer rounding errors than differences of log-gammas
    half = k // 2
    if half.size:
        ratios = (k[:-1] - 1.0) / np.sqrt((k[:-1] + 1.0) * (k[:-1] + 2.0))
        magnitude = np.cumprod(np.concatenate([[1.0 / np.sqrt(np.pi)], ratios]))
        coefficients[2::2] = magnitude * np.where(half % 2 == 1, 1.0, -1.0)
    return coefficients


def relu_coefficients(n_orders: int) -> Float[np.ndarray, " k"]:
    """``σ̂_0 … σ̂_{n_orders−1}`` of ReLU = |x|/2 + x/2."""
    coefficients = 0.5 * abs_coefficients(n_orders)
    if n_orders > 1:
        coefficients[1] = 0.5
    return coefficients


def function_coefficients(
    function: Callable[[np.ndarray], np.ndarray], n_orders: int, *, n_nodes: int = 400
) -> Float[np.ndarray, " k"]:
    """``σ̂_0 … σ̂_{n_orders−1}`` of a smooth ``function`` of one variable by Gauss–Hermite quadrature.

    ``n_nodes`` nodes are exact for polynomials of degree ``2 n_nodes − 1``; a kink costs accuracy (ReLU: 4e-4 at 400
    nodes), so piecewise-linear activations have their own closed forms here.

    Raises:
        ValueError: ``n_orders`` exceeds ``n_nodes`` (the quadrature cannot tell those orders apart) or the function
            gives a value that is not finite at a node.
    """
    if not 1 <= n_orders <= n_nodes:
        raise ValueError(f"n_orders={n_orders} must lie in 1 … n_nodes={n_nodes}: use more nodes or fewer orders")
    nodes, _ = gauss_hermite(n_nodes)
    values = np.asarray(function(nodes), dtype=float)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        at = f"the activation gives {values[bad[0]]} at x={nodes[bad[0]]:.3g}"
        raise ValueError(f"{at}: it must be finite everywhere")
    # weight times polynomial in one: far out, the weight is 1e-300 where the polynomial is 1e160
    damped = _hermite_functions(nodes, n_nodes)
    return damped[:n_orders] @ (damped[0] / np.sum(damped**2, axis=0) * values)


def gauss_hermite(n_nodes: int) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Nodes and weights of the quadrature of ``E g(x)``, x ~ N(0, 1): weights sum to one, any number of nodes.

    Weights are Christoffel numbers ``1/Σ_{k<n} h_k(x)²``, each right to rounding however small it is (from the
    eigenvectors of the Jacobi matrix they would be noise below 1e-32, which polynomials of high order amplify).
    """
    nodes = eigvalsh_tridiagonal(np.zeros(n_nodes), np.sqrt(np.arange(1.0, n_nodes)))
    nodes = 0.5 * (nodes - nodes[::-1])
    damped = _hermite_functions(nodes, n_nodes)
    return nodes, damped[0] ** 2 / np.sum(damped**2, axis=0)


def _hermite_functions(x: np.ndarray, n_orders: int) -> np.ndarray:
    # h_k(x) exp(−x²/4) is bounded where h_k(x) alone overflows
    return _recur(np.exp(-0.25 * x * x), x, n_orders)


def _recur(first: np.ndarray, x: np.ndarray, n_orders: int) -> np.ndarray:
    values = np.empty((n_orders, *x.shape))
    for k in range(n_orders):
        if k == 0:
            values[0] = first
        elif k == 1:
            values[1] = x * first
        else:
            values[k] = (x * values[k - 1] - np.sqrt(k - 1) * values[k - 2]) / np.sqrt(k)
    return values


def coefficient_energy(order: int) -> float:
    """``c_k = σ̂_k²`` of ``|x|`` at one even order, ``2[(k−3)!!]²/(π k!)`` (LMZ eq. 2.2); k up to 10⁵ and beyond."""
    if order == 0:
        return 2.0 / np.pi
    if order % 2:
        return 0.0
    k, half = float(order), order // 2
    log_size = gammaln(k - 1.0) - 0.5 * gammaln(k + 1.0) - (half - 1.0) * np.log(2.0) - gammaln(half)
    return float(2.0 / np.pi * np.exp(2.0 * log_size))
