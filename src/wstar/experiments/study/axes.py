"""What one field of a study runs through: values in order for a grid, draws for a random study."""

import math
import zlib
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from pydantic import Field

from wstar.experiments.config import Config


class Range(Config):
    """Evenly spaced values, both ends among them; of a field of whole numbers they are rounded."""

    start: float = Field(description="first value")
    stop: float = Field(description="last value")
    num: int = Field(ge=1, description="how many")
    spacing: Literal["linear", "log"] = Field("linear", description="equal differences, or equal ratios")
    whole: bool = Field(False, description="round to whole numbers")

    def __len__(self) -> int:
        """How many values there are."""
        return self.num

    def __getitem__(self, k: int) -> float | int:
        """Value ``k``; nothing is listed, so that a range may be longer than memory."""
        share = k / max(self.num - 1, 1)
        if k == self.num - 1 and self.num > 1:
            value = self.stop
        elif self.spacing == "log":
            value = self.start * (self.stop / self.start) ** share
        else:
            value = self.start + (self.stop - self.start) * share
        return math.floor(value + 0.5) if self.whole else value

    def refuse_impossible(self, where: str) -> None:
        """Raise ValueError for a logarithm of what is not positive, and for values that coincide."""
        _refuse_no_logarithm(self.spacing, {"start": self.start, "stop": self.stop}, where)
        if self.num > 1 and self.start == self.stop:
            raise ValueError(f"{where}: num={self.num} values from {self.start:g} to {self.stop:g} are all the same")
        if self.whole and any(a == b for a, b in self._close_pairs()):
            raise ValueError(
                f"{where}: num={self.num} values from {self.start:g} to {self.stop:g} are not different as whole "
                "numbers: lower num"
            )

    def _close_pairs(self) -> Iterator[tuple[float, float]]:
        """Neighbours that rounding might make equal: they are nearest where the values are smallest in size."""
        rising = abs(self.start) <= abs(self.stop)
        exact = self.model_copy(update={"whole": False})
        for k in range(self.num - 1) if rising else range(self.num - 2, -1, -1):
            if abs(exact[k + 1] - exact[k]) >= 2.0:
                return
            yield self[k], self[k + 1]


class Draw(Config):
    """Independent draws between two bounds; of a field of whole numbers they are whole, both bounds among them."""

    low: float = Field(description="smallest value")
    high: float = Field(description="largest value")
    spacing: Literal["linear", "log"] = Field("linear", description="uniform, or uniform in the logarithm")
    integer: bool = Field(False, description="whole numbers only")

    def refuse_impossible(self, where: str) -> None:
        """Raise ValueError for bounds in the wrong order, not whole, or without a logarithm."""
        _refuse_no_logarithm(self.spacing, {"low": self.low, "high": self.high}, where)
        if self.low > self.high:
            raise ValueError(f"{where}: low={self.low:g} is above high={self.high:g}: exchange them")
        if self.integer and not (self.low.is_integer() and self.high.is_integer()):
            raise ValueError(f"{where}: low={self.low:g} and high={self.high:g} must be whole numbers here")

    def value(self, rng: np.random.Generator) -> float | int:
        """One draw."""
        low, high = (self.low - 0.5, self.high + 0.5) if self.integer else (self.low, self.high)
        value = (
            math.exp(rng.uniform(math.log(low), math.log(high))) if self.spacing == "log" else rng.uniform(low, high)
        )
        return min(max(math.floor(value + 0.5), int(self.low)), int(self.high)) if self.integer else value


def drawn(axis: "list[Any] | Draw", seed: int, point: int, field: str) -> Any:
    """The value of ``field`` at ``point``: from a generator of their own, so that other fields may come and go."""
    rng = np.random.default_rng([seed, point, zlib.crc32(field.encode())])
    return axis.value(rng) if isinstance(axis, Draw) else axis[int(rng.integers(len(axis)))]


def _refuse_no_logarithm(spacing: str, ends: dict[str, float], where: str) -> None:
    for name, value in ends.items():
        if spacing == "log" and value <= 0.0:
            raise ValueError(f'{where}: {name}={value:g} must be above 0 with spacing = "log"')
