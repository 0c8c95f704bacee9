"""What every baseline asks of its parameters and rows, before any work."""

import numpy as np
from jaxtyping import Float

RandomState = int | np.integer | np.random.Generator | np.random.RandomState | None

# squares of entries within these neither over- nor underflow
_SMALLEST, _LARGEST = 1e-140, 1e140


def generator(random_state: RandomState) -> np.random.Generator:
    """A Generator from a seed, a Generator, a RandomState (one draw is taken from it) or None (fresh entropy)."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31, size=4))
    return np.random.default_rng(random_state)


def check_penalty(penalty: float | None) -> None:
    """Raise ValueError unless ``penalty`` is None or a finite number that is not negative."""
    if penalty is not None and not (np.isfinite(penalty) and penalty >= 0.0):
        raise ValueError(f"penalty={penalty!r} must be finite and not negative, or None to have it chosen")


def check_scale(X: Float[np.ndarray, "n d"]) -> None:
    """Raise ValueError if squares of the entries would overflow, or vanish altogether."""
    largest = max(float(X.max()), -float(X.min()))
    if largest != 0.0 and not _SMALLEST <= largest <= _LARGEST:
        raise ValueError(f"X: its largest entry is {largest:.1e}, whose square is out of range; rescale the columns")
