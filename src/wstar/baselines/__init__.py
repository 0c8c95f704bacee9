"""What a two-layer network is measured against: kernel ridge and frozen features, as scikit-learn estimators.

None of them trains its features on the labels beyond one step, which is what LMZ Theorem 1.2 and ZG compare with.
Public names are imported on first use.
"""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "KernelRidge": "kernel_ridge",
    "RandomFeatures": "features",
    "OneStepFeatures": "features",
    "SubspaceFeatures": "features",
}

__all__ = ["KernelRidge", "OneStepFeatures", "RandomFeatures", "SubspaceFeatures"]


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name in _PUBLIC:
        return getattr(import_module(f"wstar.baselines.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'wstar.baselines' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
