"""Runs of ZG's Algorithm 1 whose end is the subject, not the way there: widths, phase diagrams, hard geometry."""

import itertools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from wstar.algorithms.newton import MeasureMoves
from wstar.algorithms.optimum.optimal_measure import optimal_measure
from wstar.algorithms.stages import adjust_norms, first_step
from wstar.experiments.config import ZgConfig
from wstar.experiments.papers.parts import Part, Within
from wstar.experiments.papers.zg_teachers import pair_teacher
from wstar.kernels.activations import RELU
from wstar.kernels.activations import HomogeneousActivation as Activation
from wstar.networks.student import Student, symmetric_start
from wstar.networks.teacher import Teacher, random_teacher
from wstar.precision import double_precision
from wstar.risks.population import PopulationRisk
from wstar.theory.alignment import recovery_report
from wstar.theory.claims.training import frozen_loss

# a direction counts as found with its mass, to 5 %, within this angle; of two near neurons, within a third of theirs
_WITHIN, _SHARE = 0.01, 1.0 / 3.0


def decays(first: float, last: float) -> list[float]:
    """λ from ``first`` down to ``last``, both exactly: halved each time, but for a first step that may be shorter."""
    halvings = max(0, int(np.ceil(np.log2(first / last) - 1e-9)))
    return [first, *(last * 2.0**k for k in reversed(range(halvings)))]


def settled(risk: PopulationRisk, stepped: Student, schedule: Sequence[float]) -> Student | None:
    """Stages 2 and 3 from a network after Stage 1, each epoch by Newton's method; None where Stage 2 leaves nothing.

    The same network as ``three_stage(..., solver="newton")``, without a record and so without compiling one.
    """
    ends = ends_of_epochs(risk, stepped, schedule)
    return ends[-1] if ends else None


@double_precision
def ends_of_epochs(risk: PopulationRisk, stepped: Student, schedule: Sequence[float]) -> list[Student]:
    """The network at the end of each epoch of :func:`settled`; none where Stage 2 leaves nothing."""
    _, correlation, _ = risk.mass_problem(stepped.activation, stepped.directions)
    if schedule[0] >= 2.0 * float(np.abs(correlation).max()):
        return []
    moves, ends = MeasureMoves(risk, stepped.activation), []
    state = adjust_norms(risk, stepped, schedule[0]).student.parameters
    for decay in schedule:
        state, _ = moves.settle(state, decay)
        # without the dead, so that few shapes occur: each is compiled anew
        living = np.flatnonzero(state.outputs)
        alive = state._replace(outputs=state.outputs[living], weights=state.weights[living])
        ends.append(Student.from_parameters(alive, stepped.activation))
    return ends


def first_layer(risk: PopulationRisk, width: int, rng: np.random.Generator, activation: Activation = RELU) -> Student:
    """Stage 1 from the symmetric start of ``width`` neurons; one of each mirrored pair, which differ by a sign."""
    stepped = first_step(risk, symmetric_start(width, risk.dim, rng, activation))
    return Student(stepped.outputs[: width // 2], stepped.weights[: width // 2], activation=activation)


def first_neurons(stepped: Student, n: int) -> Student:
    """The first ``n`` neurons: Stage 1 moves each by itself, so this is a narrower start after its step."""
    return Student(stepped.outputs[:n], stepped.weights[:n], activation=stepped.activation)


@dataclass(frozen=True)
class Ending:
    """What a run is judged by: found or not, its largest heavy angle, its loss."""

    recovered: bool
    angle: float
    loss: float


def judged(student: Student | None, teacher: Teacher) -> Ending:
    """Recovered: every teacher neuron has its mass, to 5 %, within 0.01 rad or a third of the separation."""
    if student is None or not student.masses.any():
        return Ending(False, float("nan"), float("nan"))
    report = recovery_report(student, teacher, min(_WITHIN, _SHARE * teacher.separation))
    return Ending(report.recovered, report.largest_heavy_angle, max(PopulationRisk(teacher).value(student), 0.0))


def best(teacher: Teacher, weight_decay: float, activation: Activation = RELU) -> Ending:
    """The optimum over networks of every width at λ: what no start and no solver can improve on."""
    with warnings.catch_warnings():
        # how near it came shows in whether it counts as recovered
        warnings.filterwarnings("ignore", message="duality gap", category=UserWarning)
        optimum = optimal_measure(teacher, weight_decay, warm_start=teacher, activation=activation)
    return judged(optimum.student, teacher)


def phase_row(config: ZgConfig, teachers: Iterator[Teacher], first: float, within: Within) -> Part:
    """One row of a phase diagram: every width of the config on the same teachers and starts, and the optimum."""
    widths = sorted(config.phase_widths)
    cells: list[Part] = [{"width": width, "recovered": [], "loss": []} for width in widths]
    optimum, schedule = [], decays(first, config.last_decay)
    for draw in range(config.phase_draws):
        within(draw / config.phase_draws)
        teacher, rng = next(teachers), np.random.default_rng([draw, 2])
        risk = PopulationRisk(teacher)
        stepped = first_layer(risk, widths[-1], rng)
        for cell, width in zip(cells, widths, strict=True):
            ending = judged(settled(risk, first_neurons(stepped, width // 2), schedule), teacher)
            cell["recovered"].append(ending.recovered)
            cell["loss"].append(ending.loss)
        optimum.append(best(teacher, config.last_decay).recovered)
    return {"cells": cells, "optimum": optimum}


def at_angle(config: ZgConfig, angle: float, within: Within) -> Part:
    """Separation: two neurons are exactly ``angle`` apart, all others at least as far."""
    rng = np.random.default_rng([round(1e6 * angle), 1])
    teachers = (pair_teacher(config, angle, "mixed", rng) for _ in itertools.count())
    return {"angle": angle} | phase_row(config, teachers, config.phase_decay, within)


def at_rank(config: ZgConfig, rank: int, within: Within) -> Part:
    """Rank r, with r + 1 teacher neurons."""
    rng = np.random.default_rng([rank, 1])
    teachers = (
        random_teacher(config.dim, rank, rank + 1, config.min_angle, config.min_kappa, seed=rng)
        for _ in itertools.count()
    )
    return {"rank": rank} | phase_row(config, teachers, config.phase_decay, within)


def at_decay(config: ZgConfig, decay: float, within: Within) -> Part:
    """First weight decay; the teachers and starts are the same at each."""
    rng = np.random.default_rng([config.rank, 3])
    size = (config.dim, config.rank, config.teacher_width, config.min_angle, config.min_kappa)
    teachers = (random_teacher(*size, seed=rng) for _ in itertools.count())
    return {"decay": decay} | phase_row(config, teachers, decay, within)


def against_width(config: ZgConfig, rank: int, within: Within) -> Part:
    """Loss against neurons: first layers frozen (masses by least squares) at three kinds of directions, and trained.

    ``trained`` is at the last λ, ``trained before`` at one in the middle: the width is the same.
    """
    schedule = decays(config.phase_decay, config.last_decay)
    widths = sorted(config.frozen_widths)
    kinds = ("one step", "random in the span", "random")
    middle = (len(schedule) - 1) // 2
    rows: list[Part] = [
        {"width": width, "trained": [], "trained before": []} | {kind: [] for kind in kinds} for width in widths
    ]
    for draw in range(config.frozen_draws):
        within(draw / config.frozen_draws)
        rng = np.random.default_rng([rank, draw, 4])
        teacher = random_teacher(config.dim, rank, rank + 1, config.min_angle, config.min_kappa, seed=rng)
        risk = PopulationRisk(teacher)
        stepped = first_layer(risk, 2 * widths[-1], rng)
        basis = np.linalg.svd(teacher.weights)[2][:rank]
        inside, outside = (rng.standard_normal((widths[-1], k)) for k in (rank, config.dim))
        seen = {"one step": stepped.directions, "random in the span": _unit(inside @ basis), "random": _unit(outside)}
        for row in rows:
            for kind, directions in seen.items():
                row[kind].append(frozen_loss(directions[: row["width"]], teacher))
            ends = ends_of_epochs(risk, first_neurons(stepped, row["width"]), schedule)
            for kind, k in (("trained", -1), ("trained before", middle)):
                row[kind].append(judged(ends[k] if ends else None, teacher).loss)
    return {"rank": rank, "weight_decay": schedule[-1], "weight_decay_before": schedule[middle], "rows": rows}


def _unit(rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
