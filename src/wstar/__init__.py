"""Recover the hidden directions behind data that a small two-layer network generated, and say how sure it is.

Public names are imported on first use, so that ``import wstar`` is quick and changes nothing anywhere.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "Teacher": "networks.teacher",
    "random_teacher": "networks.teacher",
    "Student": "networks.student",
    "symmetric_start": "networks.student",
    "gaussian_start": "networks.student",
    "PopulationRisk": "risks.population",
    "EmpiricalRisk": "risks.empirical",
    "three_stage": "algorithms.three_stage",
    "truncated_descent": "algorithms.truncated.descent",
    "truncated_descent_many": "algorithms.truncated.descent",
    "infinite_width_descent": "algorithms.truncated.infinite_width",
    "align": "theory.alignment",
    "optimal_measure": "algorithms.optimum.optimal_measure",
    "optimal_measure_path": "algorithms.optimum.optimal_measure",
    "optimality_gap": "algorithms.optimality",
    "residual_decomposition": "theory.residual",
    "descent_direction": "theory.descent_direction",
    "dual_certificate": "theory.certificate",
    "check_claims": "theory.claims",
    "TwoLayerRegressor": "estimator.regressor",
    "TwoLayerRegressorCV": "estimator.cross_validation",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name in _PUBLIC:
        return getattr(import_module(f"wstar.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'wstar' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
