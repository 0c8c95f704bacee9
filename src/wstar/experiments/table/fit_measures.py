"""A run of ``fit`` in a few numbers."""

import math
from collections.abc import Sequence
from typing import Any

from wstar.experiments.config import FitConfig
from wstar.experiments.table.fit import fit_table, prepare


def measure(configs: Sequence[FitConfig]) -> list[dict[str, float]]:
    """What became of each run, as :func:`flat` says."""
    return [flat(fit_table(config, prepare(config))) for config in configs]


def alike(config: FitConfig) -> None:
    """Always None: rows are held back anew for every seed."""


def flat(result: dict[str, Any]) -> dict[str, float]:
    """The numbers of a fit: R² on unseen and on training rows, of ridge regression too, and what it takes for them."""
    scores = result["scores"]
    return {
        "r2_test": _r2(scores["model"]["test"]),
        "r2_train": _r2(scores["model"]["train"]),
        "r2_ridge_test": _r2(scores["ridge"]["test"]),
        "r2_cross_validated": scores["cross_validated_r2"],
        "n_directions": float(len(result["directions"])),
        "n_train": float(result["n_train"]),
    }


def _r2(score: dict[str, float | None] | None) -> float:
    value = score["r2"] if score else None
    return math.nan if value is None else value
