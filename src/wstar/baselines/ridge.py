"""Ridge regression with a free intercept, in the rows for a kernel or in the columns for features."""

import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh
from scipy.linalg.lapack import dpocon, dpotrf, dpotrs

from wstar.baselines.kernels import RowKernel

# entries of one block of kernel values; a few such arrays are alive together
BLOCK_ENTRIES = 2**21
# penalties tried, as shares of the trace, largest first: among equals the largest wins
GRID = np.geomspace(10.0, 1e-12, 53)
# below this reciprocal condition number a solution has next to no right digits; the jitter, a share of the trace,
# lifts it to 1e-13 at least
_SINGULAR, _JITTER = 1e-14, 1e-13

Blocks = Callable[[], Iterator[tuple[slice, Float[np.ndarray, "rows m"]]]]


class KernelFit(NamedTuple):
    """``f(x) = intercept + Σ_n dual[n] k(x, x_n)``, and what was added to the penalty to get there."""

    dual: Float[np.ndarray, " n"]
    intercept: float
    jitter: float


class FeatureFit(NamedTuple):
    """``f(x) = intercept + coefficients·φ(x)``, with the penalty and, if it was chosen, its leave-one-out error."""

    coefficients: Float[np.ndarray, " m"]
    intercept: float
    penalty: float
    jitter: float
    leave_one_out_error: float | None


def kernel_leave_one_out(
    gram: Float[np.ndarray, "n n"], y: Float[np.ndarray, " n"], penalties: Float[np.ndarray, " p"]
) -> Float[np.ndarray, "n p"]:
    """Residuals ``y_i − f^{(−i)}(x_i)`` of the fits without row i, for every penalty from one eigendecomposition.

    The intercept is not penalised, so the dual vector α lives on 1^⊥ and solves ``(HKH + λ)α = Hy`` there. With C that
    inverse on 1^⊥, the residual is ``α_i / C_ii``, exactly (Cawley & Talbot 2004 for the bordered system).
    """
    n = len(y)
    # the reflection I − vvᵀ, ‖v‖² = 2, takes e_1 to 1/√n: its other columns span 1^⊥, and nothing cancels in C
    v = np.full(n, -1.0 / np.sqrt(n))
    v[0] += 1.0
    v *= np.sqrt(2.0) / np.linalg.norm(v)
    product = gram @ v
    product -= 0.5 * (product @ v) * v
    inside = (gram - np.outer(product, v) - np.outer(v, product))[1:, 1:]
    spectrum, vectors = eigh(inside, driver="evd", overwrite_a=True)
    # below this an eigenvalue is rounding of K, and must not be what makes one penalty better than another
    spectrum[spectrum < n * np.finfo(float).eps * np.trace(gram)] = 0.0
    inverse = 1.0 / (spectrum[:, None] + penalties[None, :])
    basis = np.vstack([np.zeros(n - 1), vectors]) - np.outer(v, v[1:] @ vectors)
    return (basis @ ((basis.T @ y)[:, None] * inverse)) / (basis**2 @ inverse)


def solve_kernel(
    kernel: RowKernel, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], penalty: float
) -> KernelFit:
    """Ridge with a free intercept: ``(K + λ)α + b1 = y``, ``1·α = 0``, by Cholesky in the kernel matrix's own memory.

    A matrix that is singular to rounding (equal or zero rows and no penalty) is repaired: ``1e-13 trace K``, then ten
    times more at each try, is added to the penalty.

    Warns:
        UserWarning: a jitter was added, with its size.

    Raises:
        ValueError: 1e-10 of the trace was not enough: the kernel is not positive semidefinite on these rows.
    """
    trace, jitter = float(kernel.diagonal(X).sum()) or 1.0, 0.0
    mean = float(y.mean())
    for power in range(5):
        factor, row_means, condition = _cholesky(kernel, X, penalty + jitter, trace / len(y) ** 2)
        if condition >= _SINGULAR:
            _tell(jitter)
            dual, _ = dpotrs(factor, y - mean)
            return KernelFit(dual, mean - float(row_means @ dual), jitter)
        # before the next one is made: each is as large as the memory check allows
        del factor
        jitter = _JITTER * trace * 10.0**power
    raise ValueError(
        f"the kernel matrix of {len(y)} rows is not positive definite even with {jitter / 10.0:.1e} on its "
        "diagonal: give a larger penalty"
    )


def _cholesky(kernel: RowKernel, X: np.ndarray, penalty: float, common: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Factor of ``HKH + λ + common·11ᵀ`` (upper, by columns), row means of K, reciprocal condition number (0: none).

    K counts on 1^⊥ only. Centred, it leaves the intercept its digits where the rows share a large part of the kernel;
    ``common`` fills the direction of 1, which centring empties.
    """
    n = len(X)
    # only the lower half is written, and so only half of the pages are ever touched
    gram, means = np.empty((n, n)), np.zeros(n)
    step = max(1, BLOCK_ENTRIES // n)
    ranges = [(start, min(n, start + step)) for start in range(0, n, step)]
    for start, stop in ranges:
        gram[start:stop, :stop] = block = kernel(X[start:stop], X[:stop])
        means[start:stop] += block.sum(axis=1) / n
        means[:start] += block[:, :start].sum(axis=0) / n
    sums = np.zeros(n)
    for start, stop in ranges:
        block = gram[start:stop, :stop]
        block -= means[start:stop, None]
        block -= (means - (means.mean() + common))[None, :stop]
        block[np.arange(stop - start), np.arange(start, stop)] += penalty
        size = np.abs(block)
        sums[start:stop] += size.sum(axis=1)
        sums[:start] += size[:, :start].sum(axis=0)
    # the transpose of rows is LAPACK's columns: its upper half, nothing copied
    factor, failed = dpotrf(gram.T, lower=0, clean=0, overwrite_a=1)
    return factor, means, 0.0 if failed else float(dpocon(factor, sums.max())[0])


def least(errors: Float[np.ndarray, " p"]) -> int:
    """Position of the least error, and of those equal to it up to rounding the first: the largest penalty."""
    return int(np.flatnonzero(errors <= errors.min() * (1.0 + 1e-9))[0])


def solve_features(blocks: Blocks, y: Float[np.ndarray, " n"], penalty: float | None) -> FeatureFit:
    """Ridge on features that come in blocks of rows, with a free intercept; memory grows with their number squared.

    ``penalty=None`` takes the penalty of least leave-one-out error: with leverage ``h_i`` the residual of row i
    in the fit without it is ``(y_i − f(x_i))/(1 − h_i)``, for every penalty from one eigendecomposition.

    Warns:
        UserWarning: a jitter was added to a given penalty that leaves the problem singular to rounding.
    """
    label_mean = float(y.mean())
    mean, inner, cross = _moments(blocks, y - label_mean)
    trace, common = float(np.trace(inner)), float(len(y) * (mean @ mean))
    if trace <= len(y) * np.finfo(float).eps * common:
        # the same features in every row: what centring left is rounding, and no feature
        inner, cross, trace = np.zeros_like(inner), np.zeros_like(cross), common
    trace = trace or 1.0
    spectrum, vectors = eigh(inner, driver="evd", overwrite_a=True)
    spectrum, cross = np.maximum(spectrum, 0.0), vectors.T @ cross
    jitter, error = 0.0, None
    if penalty is None:
        # 1 − h_i is a difference of numbers near 1 where the features interpolate: a floor that leaves it digits
        penalties = trace * GRID[GRID >= 1e-10]
        errors = _feature_errors(blocks, y - label_mean, mean, vectors, cross, spectrum, penalties)
        best = least(errors)
        penalty, error = float(penalties[best]), float(errors[best])
    elif spectrum[0] + penalty <= _SINGULAR * (spectrum[-1] + penalty):
        jitter = _JITTER * trace
        _tell(jitter)
    coefficients = vectors @ (cross / (spectrum + penalty + jitter))
    return FeatureFit(coefficients, label_mean - float(mean @ coefficients), penalty, jitter, error)


def _moments(blocks: Blocks, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Column means; inner products of the centred columns with each other and with the centred labels."""
    mean = sum(block.sum(axis=0) for _, block in blocks()) / len(y)
    inner, cross = np.zeros((len(mean), len(mean))), np.zeros(len(mean))
    for rows, block in blocks():
        block = block - mean
        inner += block.T @ block
        cross += block.T @ y[rows]
    return mean, inner, cross


def _feature_errors(
    blocks: Blocks,
    y: np.ndarray,
    mean: np.ndarray,
    vectors: np.ndarray,
    cross: np.ndarray,
    spectrum: np.ndarray,
    penalties: np.ndarray,
) -> Float[np.ndarray, " p"]:
    inverse = 1.0 / (spectrum[:, None] + penalties[None, :])
    errors = np.zeros(len(penalties))
    for rows, block in blocks():
        rotated = (block - mean) @ vectors
        left = y[rows, None] - rotated @ (cross[:, None] * inverse)
        free = 1.0 - 1.0 / len(y) - rotated**2 @ inverse
        errors += np.sum((left / free) ** 2, axis=0) / len(y)
    return errors


def _tell(jitter: float) -> None:
    if jitter > 0.0:
        warnings.warn(
            "the problem is singular to rounding (equal rows, zero rows, or a penalty too small for these features): "
            f"{jitter:.1e} was added to the penalty",
            stacklevel=4,
        )
