"""Double precision as a context, so that importing wstar changes nothing in JAX.

Every public function that computes enters :func:`double_precision`; nothing is ever set globally.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import jax

P = ParamSpec("P")
T = TypeVar("T")


def double_precision(function: Callable[P, T]) -> Callable[P, T]:
    """Run ``function`` with JAX's 64-bit types switched on for this thread, and only while it runs."""

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> T:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return inside
