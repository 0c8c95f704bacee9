"""Teachers of hard geometry and of other activations: recovered or not, beside what the optimum at that λ allows."""

from collections.abc import Callable
from typing import Any

import numpy as np

from wstar.experiments.config import ZgConfig
from wstar.experiments.papers.parts import Part, Within
from wstar.experiments.papers.zg_recovery import best, decays, first_layer, judged, settled
from wstar.experiments.papers.zg_teachers import (
    activation_pairs,
    geometries,
    kappa_teacher,
    pair_teacher,
    with_activation,
)
from wstar.kernels.activations import RELU
from wstar.kernels.activations import HomogeneousActivation as Activation
from wstar.networks.teacher import Teacher
from wstar.risks.population import PopulationRisk

# a teacher, and the one that its labels allow to be found
Draw = Callable[[np.random.Generator], tuple[Teacher, Teacher]]


def parallel(config: ZgConfig, signs: str, within: Within) -> Part:
    """A pair of neurons at smaller and smaller angles, of equal or opposite signs."""
    return _curve(config, sorted(config.hard_angles), lambda v, rng: pair_teacher(config, v, signs, rng), within)


def degenerate(config: ZgConfig, within: Within) -> Part:
    """κ = |λ_r(H)| smaller and smaller: the first step sees one axis of the span less and less."""
    return _curve(config, sorted(config.hard_kappas), lambda v, rng: kappa_teacher(config, v, rng), within)


def _curve(
    config: ZgConfig,
    values: list[float],
    draw: Callable[[float, np.random.Generator], Teacher],
    within: Within,
) -> Part:
    rows = []
    for k, value in enumerate(values):
        within(k / len(values))
        rows.append({"value": value} | _runs(config, lambda rng, v=value: (draw(v, rng),) * 2))  # type: ignore[misc]
    return {"rows": rows}


def geometry(config: ZgConfig, within: Within) -> Part:
    """One row for each hard geometry."""
    rows, drawn = [], geometries(config)
    for k, (name, draw) in enumerate(drawn.items()):
        within(k / len(drawn))
        rows.append({"name": name} | _runs(config, draw))
    return {"rows": rows}


def activations(config: ZgConfig, within: Within) -> Part:
    """One row for each pair of activations."""
    rows, pairs = [], activation_pairs()
    for k, (name, (theirs, ours)) in enumerate(pairs.items()):
        within(k / len(pairs))

        def draw(rng: np.random.Generator, theirs: Activation = theirs) -> tuple[Teacher, Teacher]:
            teacher = with_activation(config, theirs, rng)
            return teacher, teacher

        rows.append({"name": name} | _runs(config, draw, ours))
    return {"rows": rows}


def _runs(config: ZgConfig, draw: Draw, activation: Activation = RELU) -> dict[str, Any]:
    """Runs from ``config.width`` neurons; ``optimum`` is whether the best network of any width is a recovery."""
    schedule = decays(config.phase_decay, config.last_decay)
    found: dict[str, Any] = {"recovered": [], "angle": [], "loss": [], "optimum": []}
    for k in range(config.hard_draws):
        teacher, hidden = draw(np.random.default_rng([k, 5]))
        risk = PopulationRisk(teacher)
        stepped = first_layer(risk, config.width, np.random.default_rng([k, 6]), activation)
        student = settled(risk, stepped, schedule)
        ending = judged(student, hidden)
        found["recovered"].append(ending.recovered)
        found["angle"].append(ending.angle)
        found["loss"].append(max(risk.value(student), 0.0) if student is not None else None)
        found["optimum"].append(best(hidden, config.last_decay, activation).recovered)
    return found
