"""How far a network is from the best one of any width: ζ = L_λ(θ) − L_λ(μ*_λ), with its error bar."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from wstar.algorithms.optimum.optimal_measure import optimal_measure
from wstar.algorithms.optimum.result import OptimalMeasure
from wstar.kernels.activations import HomogeneousActivation
from wstar.networks.network import TwoLayer
from wstar.networks.span import span_basis
from wstar.networks.teacher import Teacher
from wstar.risks.base import Risk
from wstar.risks.population import PopulationRisk

# rounding of a sum of kernel terms, as a share of the square of the total mass
_ROUNDING = 1e-15
# the gap asked of an optimum, as a share of λ²: ζ of a run that went well is some hundredths of λ² (ZG Lemma 5)
_GAP_SHARE, _LEAST_GAP = 5e-3, 5e-13
_MAX_ITERATIONS = 40
# up to this rank an optimum takes less than a second
_CHEAP_RANK = 4


@dataclass(frozen=True)
class OptimalityGap:
    """``ζ = L_λ(θ) − min_μ L_λ(μ)`` of one network at one weight decay.

    Attributes:
        weight_decay: λ.
        objective: ``L_λ(θ)``.
        optimum: ``L_λ(μ)`` of the best measure found, the network itself among them.
        lower_bound: a dual value: no measure has a lower objective (as far as the search of
            :func:`~wstar.optimal_measure` saw, or proven there with ``rigorous=True``).
        rounding: what float64 leaves open of the difference.
    """

    weight_decay: float
    objective: float
    optimum: float
    lower_bound: float
    rounding: float

    @property
    def zeta(self) -> float:
        """``L_λ(θ) − L_λ(μ) ≥ 0``; the true ζ is within :attr:`error` of it."""
        return self.objective - self.optimum

    @property
    def error(self) -> float:
        """Half-width of the error bar: the optimum's own duality gap and rounding."""
        return max(self.optimum - self.lower_bound, 0.0) + self.rounding

    @property
    def upper(self) -> float:
        """ζ is at most this."""
        return max(self.objective - self.lower_bound, 0.0) + self.rounding


def optimality_gap(
    problem: Teacher | Risk,
    network: TwoLayer,
    weight_decay: float,
    *,
    optimum: OptimalMeasure | None = None,
    precise: bool = False,
) -> OptimalityGap:
    """How far ``network`` is from the best two-layer network of any width, under the same weight decay (ZG's ζ).

    Args:
        problem: a teacher (its population risk), or a risk.
        network: of the problem's dimension; its own activation decides which networks it is compared with.
        weight_decay: λ > 0.
        optimum: the optimal measure at this λ where it is known; computed otherwise, to a gap of λ²/200.
        precise: take ``L_λ`` of the network and of the optimum from ball arithmetic, so that what rounding leaves
            open is rigorous (population risks only; an ``optimum`` must have been made with ``precise=True``).

    Raises:
        ValueError: λ not positive and finite, a network of another dimension, an ``optimum`` at another λ or without
            balls, ``precise`` on a sample.

    Source: ZG eq. 4–6 and Lemma 5.
    """
    risk = PopulationRisk(problem) if isinstance(problem, Teacher) else problem
    if optimum is None:
        optimum = _optimum(risk, weight_decay, network.activation, network, precise)
    elif optimum.weight_decay != weight_decay:
        raise ValueError(f"optimum is that at weight_decay={optimum.weight_decay:g}, not at {weight_decay:g}")
    if not precise:
        return gap_above(optimum, risk.value(network, weight_decay))
    if optimum.primal is None:
        raise ValueError("optimum has no primal ball: make it with optimal_measure(..., precise=True)")
    own = risk.value(network, weight_decay, precise=True)
    return gap_above(optimum, own.value, own.radius + optimum.primal.radius)


def gap_above(optimum: OptimalMeasure, objective: float, rounding: float | None = None) -> OptimalityGap:
    """The gap of a network whose objective is known (to ``rounding``; None: to float64), at the optimum's λ."""
    if rounding is None:
        rounding = _ROUNDING * max(float(np.abs(optimum.masses).sum()), 1.0) ** 2
    lower_bound = optimum.objective - optimum.duality_gap
    best = min(optimum.objective, objective)
    return OptimalityGap(optimum.weight_decay, objective, best, lower_bound, rounding)


def _optimum(
    risk: Risk,
    weight_decay: float,
    activation: HomogeneousActivation,
    start: OptimalMeasure | TwoLayer | None,
    precise: bool = False,
) -> OptimalMeasure:
    # the error bar says how near it came: no warning needed
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="duality gap", category=UserWarning)
        return optimal_measure(
            risk,
            weight_decay,
            tolerance=max(_GAP_SHARE * weight_decay**2, _LEAST_GAP) if isinstance(risk, PopulationRisk) else None,
            warm_start=start,
            max_iterations=_MAX_ITERATIONS,
            activation=activation,
            precise=precise,
        )


@dataclass
class Optima:
    """The optima along a falling schedule of weight decays, each started from the one before."""

    risk: Risk
    activation: HomogeneousActivation
    known: list[OptimalMeasure] = field(default_factory=list)

    def along(self, weight_decays: Sequence[float]) -> list[OptimalMeasure]:
        """One for each; those computed before are not computed again. The chain starts the same however it is cut."""
        for weight_decay in weight_decays[len(self.known) :]:
            last = self.known[-1] if self.known else None
            self.known.append(_optimum(self.risk, weight_decay, self.activation, last))
        return self.known[: len(weight_decays)]


def optimum_is_cheap(risk: Risk) -> bool:
    """Whether the optimum of a population takes well under a second: a teacher whose span has few dimensions."""
    return isinstance(risk, PopulationRisk) and len(span_basis(risk.directions)) <= _CHEAP_RANK
