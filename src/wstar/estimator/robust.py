"""Weights that hold outliers down, round by round."""

import numpy as np
from jaxtyping import Float

# 95 % efficient where errors are Gaussian
_HUBER, _BISQUARE = 1.345, 4.685
# no row leaves altogether
_LEAST = 1e-6


def spread_of(sizes: Float[np.ndarray, " n"]) -> float:
    """Standard deviation of Gaussian errors with the median size of these."""
    return 1.4826 * float(np.median(sizes))


def huber(sizes: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """``min(1, c/r)``: an outlier pulls no harder than an error of c; convex, so any start will do.

    Source: Huber, Robust estimation of a location parameter (1964).
    """
    return np.minimum(1.0, _HUBER / np.maximum(sizes, _HUBER))


def bisquare(sizes: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """``(1 − (r/c)²)²``, and next to nothing beyond c: needs a start that already lies among the many.

    Under Huber's weights far outliers still look like noise, in which the path loses weak neurons.

    Source: Beaton and Tukey, The fitting of power series (1974); Yohai (1987) for one after the other.
    """
    return np.maximum(np.maximum(1.0 - (sizes / _BISQUARE) ** 2, 0.0) ** 2, _LEAST)


ROUNDS = (huber, huber, bisquare, bisquare)
