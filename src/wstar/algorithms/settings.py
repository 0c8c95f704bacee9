"""What a run of ZG's Algorithm 1 can be told, checked before any work starts."""

from dataclasses import dataclass

import numpy as np

from wstar.kernels.activations import RELU, HomogeneousActivation
from wstar.risks.base import check_weight_decay

_CHOICES = {
    "stage2": ("lars", "subgradient"),
    "affine": ("fitted", "trained"),
    "solver": ("descent", "newton", "flow"),
}


@dataclass(frozen=True)
class ThreeStage:
    """Settings of Algorithm 1; :func:`wstar.three_stage` says what each does.

    Raises:
        ValueError: a value out of its range (named, with the range).
    """

    width: int = 400
    seed: int = 0
    weight_decay: float = 0.02
    n_epochs: int = 12
    activation: HomogeneousActivation = RELU
    stage2: str = "lars"
    affine: str = "fitted"
    solver: str = "descent"
    learning_rate: float | None = None
    tolerance: float = 0.1
    max_steps: int = 100_000
    reduce: bool = True
    orders: tuple[int, ...] = (0, 1, 2, 4, 6, 8)
    records_per_decade: int = 2
    record_steps: tuple[int, ...] = ()
    certify: bool | None = None
    repair: bool = False
    repair_above: float = 1.0

    def __post_init__(self) -> None:
        """Check every range."""
        check_weight_decay(self.weight_decay)
        if self.weight_decay == 0.0:
            raise ValueError("weight_decay=0 must be positive: the three stages shrink it towards 0 by themselves")
        for name, least in (("width", 1), ("n_epochs", 0), ("max_steps", 1), ("records_per_decade", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or int(value) != value or value < least:
                raise ValueError(f"{name}={value!r} must be a whole number of at least {least}")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name}={getattr(self, name)!r}: choose one of {', '.join(map(repr, choices))}")
        if self.learning_rate is not None and not (np.isfinite(self.learning_rate) and self.learning_rate > 0.0):
            raise ValueError(f"learning_rate={self.learning_rate} must be positive, or None to have it chosen")
        if not (np.isfinite(self.tolerance) and self.tolerance > 0.0):
            raise ValueError(f"tolerance={self.tolerance} must be finite and positive")
        if not (np.isfinite(self.repair_above) and self.repair_above > 0.0):
            raise ValueError(f"repair_above={self.repair_above} must be finite and positive, in units of λ²")
        if self.solver == "newton" and self.affine == "trained":
            raise ValueError("solver='newton' keeps bias and linear part at their optimum: leave affine at 'fitted'")
