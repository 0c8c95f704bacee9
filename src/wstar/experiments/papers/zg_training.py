"""ZG Theorem 2 end to end: the three stages on the exact population, with the optimality gap along the way."""

from dataclasses import asdict

import numpy as np

from wstar.algorithms.three_stage import ThreeStageResult, three_stage
from wstar.experiments.config import ZgConfig
from wstar.experiments.papers.parts import Part, Within
from wstar.networks.student import Student
from wstar.networks.teacher import Teacher, random_teacher
from wstar.risks.population import PopulationRisk
from wstar.theory.alignment import align, recovery_report
from wstar.theory.certificate import dual_certificate

# a gap counts as known where it is so many times its error
KNOWN = 30.0
_PER_DECADE = 8
WITHIN = 0.01


def end_to_end(config: ZgConfig, seed: int, within: Within) -> Part:
    """One random teacher and start: every epoch's loss, gap, angle and rate, and the loss against time."""
    teacher = random_teacher(
        config.dim,
        config.rank,
        config.teacher_width,
        config.min_angle,
        config.min_kappa,
        seed=np.random.default_rng([seed, 1]),
    )
    result = three_stage(
        PopulationRisk(teacher),
        config.width,
        seed,
        local_decay(teacher, config.weight_decay),
        config.n_epochs,
        max_steps=config.max_steps,
        records_per_decade=_PER_DECADE,
        certify=True,
        orders=(),
        on_progress=lambda progress: within(progress.epoch / config.n_epochs),
    )
    recovery = recovery_report(result.student, teacher, WITHIN)
    rows = [epoch_row(k, result, teacher) for k in range(len(result.epochs))]
    curve = _curve(result)
    return {
        "seed": seed,
        "separation": teacher.separation,
        "kappa": teacher.kappa,
        "living": result.stage2.n_living,
        "recovered": recovery.recovered,
        "largest_heavy_angle": recovery.largest_heavy_angle,
        "leftover_mass": recovery.leftover_mass,
        "reason": result.reason,
        "epochs": rows,
        "curve": curve,
        "lemma6_constant": lemma_six_constant(curve, rows),
    }


def local_decay(teacher: Teacher, most: float) -> float:
    """λ up to which ZG's bounds around the optimum are of use: half of ``|μ*|₁/‖p‖²`` (Lemma F.4), at most ``most``."""
    return min(most, 0.5 * float(np.abs(teacher.masses).sum()) / dual_certificate(teacher, 2).p_norm ** 2)


def epoch_row(index: int, result: ThreeStageResult, teacher: Teacher) -> Part:
    """One epoch: its settings, and what is there at its end."""
    epoch, gap, trajectory = result.epochs[index], result.gaps[index], result.trajectory
    at = trajectory.sel(step=epoch.last_step)
    rows = at.directions.values @ trajectory.basis.values
    student = Student(np.sign(at.masses.values), np.abs(at.masses.values)[:, None] * rows)
    alignment = align(student, teacher)
    heavy = alignment.heavy()
    living = alignment.nearest >= 0
    return asdict(epoch) | {
        "n_steps": epoch.n_steps,
        "zeta": gap.zeta,
        "zeta_error": gap.error,
        "heavy": int(heavy.sum()),
        "largest_heavy_angle": alignment.largest_heavy_angle,
        # what is neither aligned nor gone
        "largest_miss": float(np.minimum(alignment.angles, np.abs(alignment.masses))[living].max()),
    }


def _curve(result: ThreeStageResult) -> Part:
    """The record: time Σηt from the start of Stage 3, epoch, loss, ζ with its error, squared gradient norm."""
    trajectory, epochs = result.trajectory, result.epochs
    index = trajectory.epoch_of_step.values.astype(int)
    steps = trajectory.step.values
    before = np.concatenate([[0.0], np.cumsum([e.n_steps * e.learning_rate for e in epochs])])
    firsts = np.array([e.first_step for e in epochs])
    rates = np.array([e.learning_rate for e in epochs])
    return {
        "step": steps.tolist(),
        "time": (before[index] + (steps - firsts[index]) * rates[index]).tolist(),
        "epoch": index.tolist(),
        "loss": trajectory.loss.values.tolist(),
        "zeta": trajectory.zeta.values.tolist(),
        "zeta_error": trajectory.zeta_error.values.tolist(),
        "slope": (trajectory.gradient_norm.values**2).tolist(),
    }


def lemma_six_constant(curve: Part, epochs: list[Part]) -> float | None:
    """The largest C with ``‖∇L_λ‖² ≥ C ζ⁴/λ²`` (ZG Lemma 6) at all recorded steps whose gap is known."""
    decay = np.array([row["weight_decay"] for row in epochs])[curve["epoch"]]
    zeta, error, slope = (np.array(curve[name]) for name in ("zeta", "zeta_error", "slope"))
    # the start is recorded before any gradient is known
    known = (zeta > KNOWN * error) & np.isfinite(slope)
    return float((slope * decay**2 / np.where(known, zeta, 1.0) ** 4)[known].min()) if known.any() else None


def late_rate(curve: Part, epoch: int) -> tuple[float, bool] | None:
    """ν with ``ζ ∝ exp(−νηt)`` over the last three quarters of an epoch's time; whether a power of t fits worse.

    None where fewer than three recorded gaps are known there.
    """
    zeta, error, time = (np.array(curve[name], dtype=float) for name in ("zeta", "zeta_error", "time"))
    inside = np.array(curve["epoch"]) == epoch
    if not inside.any():
        return None
    # an epoch is recorded from its first step on: the end of the one before is where its time begins
    before = np.array(curve["epoch"]) < epoch
    since = time - (time[before].max() if before.any() else 0.0)
    late = inside & (zeta > KNOWN * error) & (since >= 0.25 * since[inside].max()) & (since > 0.0)
    if late.sum() < 3:
        return None
    gaps = np.log(zeta[late])
    fits = [np.polynomial.Polynomial.fit(x, gaps, 1) for x in (since[late], np.log(since[late]))]
    misses = [
        float(np.sum((fit(x) - gaps) ** 2)) for fit, x in zip(fits, (since[late], np.log(since[late])), strict=True)
    ]
    return float(-fits[0].deriv()(0.0)), misses[0] < misses[1]


def proved_gap(zeta: float, weight_decay: float, constant: float, time: np.ndarray) -> np.ndarray:
    """ζ after ``time`` by Lemma 6 alone, ``dζ/dt = −C ζ⁴/λ²``: ``(ζ₀⁻³ + 3Ct/λ²)^{−1/3}`` (proof of ZG Lemma E.1)."""
    return np.asarray((zeta**-3 + 3.0 * constant * time / weight_decay**2) ** (-1.0 / 3.0))
