"""A run of ``recover`` in a few numbers."""

from collections.abc import Sequence
from typing import Any

from wstar.experiments.config import RecoverConfig
from wstar.experiments.recover import prepare, run_recover
from wstar.theory.alignment import MASS_TOLERANCE


def measure(configs: Sequence[RecoverConfig]) -> list[dict[str, float]]:
    """What became of each run, as :func:`flat` says."""
    return [flat(run_recover(config, prepare(config), None)) for config in configs]


def alike(config: RecoverConfig) -> None:
    """Always None: the neurons that are alive differ from run to run, so none share a shape."""


def flat(result: dict[str, Any]) -> dict[str, float]:
    """The numbers of a recovery.

    ``recovered`` 1 or 0, ``share_found`` of the teacher neurons, ``loss``, ``largest_heavy_angle``, ``far_mass`` of no
    teacher's, ``epochs``, ``steps``, ``living`` neurons, and where they are known ``zeta`` at the last λ and
    ``test_error`` over variance.
    """
    recovery, epochs, samples = result["recovery"], result["epochs"], result["samples"]
    last = epochs[-1] if epochs else {}
    return {
        "recovered": float(recovery["recovered"]),
        "share_found": sum(n["mass_error"] < MASS_TOLERANCE for n in recovery["neurons"]) / len(recovery["neurons"]),
        "loss": result["loss"],
        "largest_heavy_angle": recovery["largest_heavy_angle"],
        "far_mass": recovery["leftover_mass"],
        "epochs": float(len(epochs)),
        "steps": float(sum(epoch["n_steps"] for epoch in epochs)),
        "living": _known(last.get("living")),
        "zeta": _known(last.get("zeta")),
        "test_error": _known(samples and samples["test_error_over_variance"]),
    }


def _known(value: float | None) -> float:
    return float("nan") if value is None else float(value)
