"""Settings of truncated gradient descent, and the lengths and thresholds that LMZ give as orders of magnitude."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from wstar.kernels.activations import ABS, HomogeneousActivation, homogeneous

FORMULA, DETECT = "formula", "detect"

# LMZ state orders only; these constants are ours. With a_i = 1/d on the population, d = 5 … 60 and widths 50 to 200,
# Stage 1 is then long enough for the tickets to have won (the tensor loss of order 4 has halved), and Stage 2 for every
# tensor loss to fall below 1 % of the target's
STAGE_ONE_CONSTANT = 2.0
STAGE_TWO_CONSTANT = 20.0
Q = 0.01


def thresholds(dim: int) -> tuple[float, float]:
    """``λ₀ = 1/(2d²)`` and ``λ₁ = 1/(2d⁴)``: neurons stop at ``‖w‖² = d²`` in Stage 1 and ``d⁴`` in Stage 2.

    LMZ ask for λ₀ = 1/poly(d) and λ₁ ≤ λ₀/poly(d). Dimensions below 3 count as 3: the start has ‖w‖² ≈ 1.
    """
    d = max(dim, 3)
    return 0.5 / d**2, 0.5 / d**4


def settling_steps(dim: int, learning_rate: float) -> int:
    """``⌈d log d/η⌉``: Stage 1.1, orders 0 and 2 (LMZ Lemma A.2 with the constant 1)."""
    return math.ceil(dim * _log(dim) / learning_rate)


def stage_one_steps(dim: int, learning_rate: float) -> int:
    """``⌈2 d²/(η log d)⌉``: Stage 1 with its plateau (LMZ Lemma A.3)."""
    return math.ceil(STAGE_ONE_CONSTANT * dim**2 / (learning_rate * _log(dim)))


def stage_two_steps(dim: int, learning_rate: float) -> int:
    """``⌈20 d^{1+10Q}/η⌉`` with Q = 1/100: Stage 2 (LMZ Lemma A.6)."""
    return math.ceil(STAGE_TWO_CONSTANT * dim ** (1.0 + 10.0 * Q) / learning_rate)


def _log(dim: int) -> float:
    return math.log(max(dim, 2))


@dataclass(frozen=True)
class Truncation:
    """Settings of LMZ's Algorithm 1; :func:`wstar.truncated_descent` says what each does.

    Raises:
        ValueError: a value out of its range (named, with the range).
    """

    n_steps: int | None = 100_000
    learning_rate: float = 0.1
    activation: HomogeneousActivation = ABS
    lambda_0: float | None = None
    lambda_1: float | None = None
    stage_one: int | str = FORMULA
    remove_linear: bool = False
    normalise: bool = False
    tolerance: float = 0.0
    orders: tuple[int, ...] = (0, 2, 4, 6, 8)
    record_steps: tuple[int, ...] | None = None
    record_weights: bool = False

    def __post_init__(self) -> None:
        """Check every range."""
        if self.n_steps is not None:
            whole_number("n_steps", self.n_steps, 0)
        if not (np.isfinite(self.learning_rate) and self.learning_rate > 0.0):
            raise ValueError(f"learning_rate={self.learning_rate} must be finite and positive")
        if not (np.isfinite(self.tolerance) and self.tolerance >= 0.0):
            raise ValueError(f"tolerance={self.tolerance} must be finite and not negative")
        for name in ("lambda_0", "lambda_1"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0.0):
                raise ValueError(f"{name}={value} must be positive, or None for the formula")
        if isinstance(self.stage_one, str):
            if self.stage_one not in (FORMULA, DETECT):
                raise ValueError(f"stage_one={self.stage_one!r}: choose {FORMULA!r}, {DETECT!r} or a number of steps")
        else:
            whole_number("stage_one", self.stage_one, 0)
        for name in ("remove_linear", "normalise", "record_weights"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name}={getattr(self, name)!r} must be True or False")
        for name in ("orders", "record_steps"):
            for value in getattr(self, name) or ():
                whole_number(name, value, 0)

    def levels(self, dim: int) -> tuple[float, float]:
        """``λ₀`` and ``λ₁``, given or by formula; one given alone takes the other's ratio from the formula.

        Raises:
            ValueError: λ₁ above λ₀.
        """
        first, second = thresholds(dim)
        ratio = second / first
        if self.lambda_0 is not None:
            first, second = self.lambda_0, self.lambda_0 * ratio
        if self.lambda_1 is not None:
            first, second = (self.lambda_1 / ratio if self.lambda_0 is None else first), self.lambda_1
        if second > first:
            raise ValueError(f"lambda_1={second:g} is above lambda_0={first:g}: Stage 2 lets neurons grow, lower it")
        return first, second

    def total_steps(self, dim: int) -> int:
        """``n_steps``, or both stages by formula."""
        if self.n_steps is not None:
            return int(self.n_steps)
        return stage_one_steps(dim, self.learning_rate) + stage_two_steps(dim, self.learning_rate)

    def stage_one_end(self, dim: int) -> int | None:
        """The last step of Stage 1, or None where it is to be detected."""
        if self.stage_one == DETECT:
            return None
        chosen = stage_one_steps(dim, self.learning_rate) if self.stage_one == FORMULA else int(self.stage_one)
        return min(chosen, self.total_steps(dim))


def settings_from(
    n_steps: int | None, learning_rate: float, activation: HomogeneousActivation | str, others: Mapping[str, Any]
) -> Truncation:
    """Settings as they are passed to the public functions.

    Raises:
        ValueError: a name that :class:`Truncation` has not, or a value out of range.
    """
    named = ("n_steps", "learning_rate", "activation")
    known = [f.name for f in fields(Truncation) if f.name not in named]
    for name in others:
        if name not in known:
            raise ValueError(f"truncated descent has no setting {name!r}; it has {', '.join(known)}")
    lists = {name: tuple(others[name]) for name in ("orders", "record_steps") if others.get(name) is not None}
    return Truncation(n_steps, learning_rate, homogeneous(activation), **{**others, **lists})


def whole_number(name: str, value: object, least: int) -> None:
    """Raise ValueError unless ``value`` is a whole number of at least ``least``."""
    whole = isinstance(value, int | np.integer | float) and not isinstance(value, bool) and float(value).is_integer()
    if not whole or float(value) < least:  # type: ignore[arg-type]
        raise ValueError(f"{name}={value!r} must be a whole number of at least {least}")
