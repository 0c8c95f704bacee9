"""The main job: recover a teacher with Algorithm 1, on the exact population risk or on samples."""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from wstar import __version__
from wstar.algorithms.three_stage import RunProgress, ThreeStageResult, three_stage
from wstar.algorithms.trajectory import Epoch
from wstar.experiments.config import RecoverConfig
from wstar.experiments.noise_level import plan_weight_decay
from wstar.experiments.store import RunFolder
from wstar.networks.student import Student
from wstar.networks.teacher import Teacher, random_teacher
from wstar.risks.base import Risk
from wstar.risks.empirical import EmpiricalRisk
from wstar.risks.population import PopulationRisk
from wstar.theory.alignment import align, recovery_report

KIND = "recover"
_TEST_ROWS = 5_000
_WEIGHT_DECAY, _N_EPOCHS = 0.02, 12
# a step over samples costs a pass over them, and their noise is above what later steps would gain
_POPULATION_STEPS, _SAMPLE_STEPS = 100_000, 2_000


def prepare(config: RecoverConfig) -> tuple[Teacher, Risk]:
    """Teacher and risk that ``config`` asks for; all of its input is checked here, before a folder is made.

    Raises:
        ValueError: an impossible teacher, a width that is odd or below the teacher's, too few samples.
    """
    if config.width % 2:
        raise ValueError(f"width={config.width} must be even: the symmetric start pairs the neurons")
    if config.noise > 0.0 and config.samples is None:
        raise ValueError(f"noise={config.noise} needs samples: add --samples N, the population risk has no noise")
    if config.teacher is not None:
        teacher = Teacher.load(config.teacher)
    else:
        teacher = random_teacher(
            dim=config.dim,
            rank=config.rank,
            width=config.teacher_width,
            min_angle=config.min_angle,
            min_kappa=config.min_kappa,
            seed=config.seed,
            signs=config.signs,
        )
    if config.width < teacher.width:
        raise ValueError(
            f"width={config.width} is below the teacher's {teacher.width} neurons: the student needs at least as many"
        )
    if config.samples is None:
        return teacher, PopulationRisk(teacher)
    if config.samples < teacher.dim + 2:
        raise ValueError(f"samples={config.samples} is below dim + 2 = {teacher.dim + 2}: draw more samples")
    rng = np.random.default_rng([config.seed, 1])
    X = rng.standard_normal((config.samples, teacher.dim))
    return teacher, EmpiricalRisk(X, teacher(X) + config.noise * rng.standard_normal(config.samples))


def run_recover(
    config: RecoverConfig,
    prepared: tuple[Teacher, Risk],
    run: RunFolder | None,
    on_progress: Callable[[RunProgress], None] | None = None,
) -> dict[str, Any]:
    """Run (or go on with) what :func:`prepare` made of ``config``; writes all of the run folder but its page.

    Returns the result as it stands in result.json.

    Raises:
        ValueError: a checkpoint that cannot be used.
    """
    teacher, risk = prepared
    began = time.perf_counter()
    weight_decay, n_epochs = schedule(config, risk)
    result = three_stage(
        risk,
        width=config.width,
        seed=config.seed,
        weight_decay=weight_decay,
        n_epochs=n_epochs,
        stage2=config.stage2,
        affine=config.affine,
        solver=config.solver,
        certify=config.certify,
        repair=config.repair,
        learning_rate=config.learning_rate,
        tolerance=config.tolerance,
        max_steps=config.max_steps or (_POPULATION_STEPS if config.samples is None else _SAMPLE_STEPS),
        teacher=teacher,
        on_progress=on_progress,
        checkpoint=run.checkpoint() if run else None,
    )
    trained = time.perf_counter()
    summary = summarise(config, teacher, risk, result)
    summary["seconds"] = {"compute": trained - began, "total": time.perf_counter() - began}
    if run:
        run.write_network("teacher", teacher)
        run.write_network("student", result.student)
        run.write_trajectory(result.trajectory.assign_attrs(kind=KIND))
        run.write_result(summary)
    return summary


def schedule(config: RecoverConfig, risk: Risk) -> tuple[float, int]:
    """First weight decay and number of epochs: as set, else 0.02 and 12, or what the noise in the samples allows."""
    first, n_epochs = config.weight_decay, config.n_epochs
    if isinstance(risk, EmpiricalRisk) and (first is None or n_epochs is None):
        plan = plan_weight_decay(risk, config.width, config.seed)
        if first is None and plan.empty:
            raise ValueError(
                f"samples={config.samples}: no neuron stands out from the noise (its standard deviation is about "
                f"{plan.noise:.2g}); draw more samples, or set --weight-decay below {plan.largest:.2g}"
            )
        first = plan.first if first is None else first
        n_epochs = max(1, 1 + round(np.log2(first / plan.last))) if n_epochs is None else n_epochs
    return (_WEIGHT_DECAY if first is None else first), (_N_EPOCHS if n_epochs is None else n_epochs)


def summarise(config: RecoverConfig, teacher: Teacher, risk: Risk, result: ThreeStageResult) -> dict[str, Any]:
    """The contents of result.json, less the seconds."""
    recovery = recovery_report(result.student, teacher, config.within_angle)
    stage2 = result.stage2
    return {
        "kind": KIND,
        "wstar": __version__,
        "status": "finished",
        "teacher": {
            name: getattr(teacher, name)
            for name in ("dim", "width", "rank", "separation", "kappa", "information_exponent")
        }
        | {"activation": teacher.activation.name, "violated_assumptions": teacher.violated_assumptions()},
        "recovery": asdict(recovery) | {"recovered": recovery.recovered},
        "stages": {
            "stage1": {"width": config.width, "directions": stage2.n_directions},
            "stage2": {
                "method": stage2.method,
                "weight_decay": stage2.weight_decay,
                "living": stage2.n_living,
                "objective": stage2.objective,
                "violation": stage2.violation,
                "n_steps": stage2.n_steps,
                "reason": stage2.reason,
            },
        },
        "epochs": [_epoch_row(i, epoch, result, teacher) for i, epoch in enumerate(result.epochs)],
        "loss": risk.value(result.student),
        "reason": result.reason,
        "samples": _sample_scores(config, teacher, risk, result.student),
    }


def _epoch_row(index: int, epoch: Epoch, result: ThreeStageResult, teacher: Teacher) -> dict[str, Any]:
    """One epoch with the geometry at its end, read off the trajectory."""
    at = result.trajectory.sel(step=epoch.last_step)
    masses = at.masses.values
    weights = np.abs(masses)[:, None] * (at.directions.values @ result.trajectory.basis.values)
    alignment = align(Student(np.sign(masses), weights, activation=result.student.activation), teacher)
    gap = result.gaps[index] if result.gaps else None
    return asdict(epoch) | {
        "epoch": index,
        "zeta": gap.zeta if gap else None,
        "zeta_error": gap.error if gap else None,
        "n_steps": epoch.n_steps,
        "living": int(alignment.heavy().sum()),
        "largest_heavy_angle": alignment.largest_heavy_angle,
    }


def _sample_scores(config: RecoverConfig, teacher: Teacher, risk: Risk, student: Student) -> dict[str, Any] | None:
    if not isinstance(risk, EmpiricalRisk):
        return None
    X = np.random.default_rng([config.seed, 2]).standard_normal((_TEST_ROWS, teacher.dim))
    clean = teacher(X)
    error = float(np.mean((risk.restore(student)(X) - clean) ** 2) / np.var(clean))
    return {"n": config.samples, "noise": config.noise, "test_rows": _TEST_ROWS, "test_error_over_variance": error}
