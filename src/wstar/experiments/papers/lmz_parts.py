"""The computations behind the reproduction of LMZ, one function a part; each returns what JSON can hold."""

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from wstar.algorithms.run import log_spaced_steps
from wstar.algorithms.three_stage import Checkpoint
from wstar.algorithms.truncated.descent import truncated_descent, truncated_descent_many
from wstar.algorithms.truncated.infinite_width import infinite_width_descent
from wstar.algorithms.truncated.run import TruncatedProgress, TruncatedResult
from wstar.algorithms.truncated.truncation import settling_steps, stage_one_steps, stage_two_steps
from wstar.baselines import KernelRidge, OneStepFeatures, RandomFeatures, SubspaceFeatures
from wstar.experiments.config import LmzConfig
from wstar.kernels.activations import ABS
from wstar.kernels.hermite import coefficient_energy
from wstar.networks.student import gaussian_start
from wstar.networks.teacher import Teacher
from wstar.risks.empirical import EmpiricalRisk
from wstar.risks.population import PopulationRisk
from wstar.theory.tensor_dynamics import stage_times
from wstar.theory.tickets import winning_tickets

Part = dict[str, Any]

_PER_DECADE = 16
# stage times are read off runs that are longer than the stages by formula, the final loss off their end by formula
_LONGER = 1.5
_PATIENCE = 3
_TEST_ROWS = 10_000
FLOORS = (0, 2, 4, 6)


def lmz_teacher(dim: int) -> Teacher:
    """LMZ's simulations: ``w*_i = e_i``, ``a_i = 1/d``."""
    return Teacher(np.full(dim, 1.0 / dim), np.eye(dim), activation=ABS)


def lmz_rows(teacher: Teacher, n: int, seed: int, stream: int) -> tuple[np.ndarray, np.ndarray]:
    """``n`` standard normal rows with their labels; different streams are independent."""
    X = np.random.default_rng([seed, stream]).standard_normal((n, teacher.dim))
    return X, teacher(X)


def on_samples(
    config: LmzConfig,
    width: int,
    n_steps: int,
    seed: int,
    checkpoint: Checkpoint | None = None,
    on_progress: Callable[[TruncatedProgress], None] | None = None,
) -> Part:
    """Figure 2 from N samples, one seed."""
    teacher = lmz_teacher(config.dim)
    risk = EmpiricalRisk(*lmz_rows(teacher, config.samples, seed, 1), preprocessed=False)
    result = truncated_descent(
        risk,
        width,
        seed,
        n_steps,
        config.learning_rate,
        teacher=teacher,
        record_steps=log_spaced_steps(n_steps, _PER_DECADE),
        checkpoint=checkpoint,
        on_progress=on_progress,
    )
    return _curves(result, teacher, seed)


def on_population(config: LmzConfig, width: int, n_steps: int) -> Part:
    """Figure 2 on the exact population loss, from the same starts."""
    teacher = lmz_teacher(config.dim)
    results = truncated_descent_many(
        PopulationRisk(teacher, preprocessed=False),
        config.seeds,
        width,
        n_steps,
        config.learning_rate,
        record_steps=log_spaced_steps(n_steps, _PER_DECADE),
    )
    return {"runs": [_curves(result, teacher, seed) for result, seed in zip(results, config.seeds, strict=True)]}


def _curves(result: TruncatedResult, teacher: Teacher, seed: int) -> Part:
    trajectory = result.trajectory
    cosines = trajectory.best_cosine.values
    return {
        "seed": seed,
        "step": trajectory.step.values.tolist(),
        "order": trajectory.order.values.tolist(),
        "relative": trajectory.relative_tensor_loss.values.tolist(),
        "loss": trajectory.loss.values.tolist(),
        "least_cosine": cosines.min(axis=1).tolist(),
        "median_cosine": np.median(cosines, axis=1).tolist(),
        "stage_times": asdict(stage_times(trajectory)),
        "roc_area": winning_tickets(result.start, result.weights, teacher).roc_area,
        "reason": result.reason,
    }


def at_dimension(config: LmzConfig, dim: int) -> Part:
    """Stage times, and the loss at the end of both stages by formula, of runs on the population."""
    teacher, rate = lmz_teacher(dim), config.learning_rate
    by_formula = stage_one_steps(dim, rate) + stage_two_steps(dim, rate)
    n_steps = int(_LONGER * by_formula)
    results = truncated_descent_many(
        PopulationRisk(teacher, preprocessed=False),
        config.dim_seeds,
        config.width_factor * dim,
        n_steps,
        rate,
        record_steps=sorted({*log_spaced_steps(n_steps, _PER_DECADE), by_formula}),
    )
    runs = [
        asdict(stage_times(result.trajectory))
        | {
            "seed": seed,
            "loss": float(result.trajectory.loss.sel(step=by_formula)),
            "roc_area": winning_tickets(result.start, result.weights, teacher).roc_area,
        }
        for result, seed in zip(results, config.dim_seeds, strict=True)
    ]
    return {"dim": dim, "width": config.width_factor * dim, "steps": by_formula, "runs": runs}


def baselines(features: int) -> dict[str, RegressorMixin]:
    """Kernels and frozen features, fresh, by the names that the figure shows."""
    return {
        "NTK, ReLU": KernelRidge("ntk"),
        "NTK, |·|": KernelRidge("ntk", activation="abs"),
        "NTK of the first layer, |·|": KernelRidge("ntk", activation="abs", layers="first"),
        "arc-cosine (NNGP), ReLU": KernelRidge("nngp"),
        "RBF": KernelRidge("rbf"),
        "polynomial of degree 4": KernelRidge("polynomial", degree=4),
        "random features, ReLU": RandomFeatures(features),
        "random features, |·|": RandomFeatures(features, activation="abs"),
        "one step, then frozen, ReLU": OneStepFeatures(features),
        "features in a learnt subspace, ReLU": SubspaceFeatures(features),
    }


def against_baselines(config: LmzConfig, dim: int) -> Part:
    """Truncated descent and every baseline on the same rows; mean square error on 10⁴ fresh ones.

    The plateau is longer on samples than the formula for the population says, so descent is scored at the formula's
    number of steps and at three times as many.
    """
    teacher, n = lmz_teacher(dim), config.samples_per_square * dim**2
    X, y = lmz_rows(teacher, n, 0, 1)
    fresh, labels = lmz_rows(teacher, _TEST_ROWS, 0, 3)
    rows = []

    def score(name: str, predict: Callable[[], np.ndarray], *, baseline: bool) -> None:
        began = time.perf_counter()
        squares = (predict() - labels) ** 2
        error, spread = float(squares.mean()), float(squares.std() / np.sqrt(len(squares)))
        seconds = time.perf_counter() - began
        rows.append({"name": name, "error": error, "spread": spread, "seconds": seconds, "baseline": baseline})

    def descend(times: int) -> np.ndarray:
        risk, rate = EmpiricalRisk(X, y, preprocessed=False), config.learning_rate
        n_steps = times * (stage_one_steps(dim, rate) + stage_two_steps(dim, rate))
        return truncated_descent(risk, config.width_factor * dim, 0, n_steps, rate, record_steps=()).student(fresh)

    score("truncated descent", lambda: descend(_PATIENCE), baseline=False)
    score("truncated descent, steps by formula", lambda: descend(1), baseline=False)
    for name, model in baselines(config.features).items():
        with warnings.catch_warnings():
            # what a baseline finds wanting in these rows shows in its error
            warnings.simplefilter("ignore", UserWarning)
            score(name, lambda model=model: model.fit(X, y).predict(fresh), baseline=True)  # type: ignore[misc]
    return {"dim": dim, "samples": n, "rows": rows, "floors": {str(p): floor(p, dim) for p in FLOORS}}


def floor(order: int, dim: int) -> float:
    """``Σ_{k>p} c_k Σ a_i²`` with a_i = 1/d: what any polynomial of degree p leaves (LMZ Theorem 1.2)."""
    return (1.0 - sum(coefficient_energy(k) for k in range(0, order + 1, 2))) / dim


def against_infinite_width(config: LmzConfig) -> Part:
    """ξ, the root mean square distance of finite networks from tracers of the infinite width with the same starts.

    The widest networks are cut into narrower ones, so each width sees all neurons; ``own_error`` is the distance
    between tracers of two infinite-width runs over √2, what the reference itself is uncertain by.
    """
    d, rate = config.limit_dim, config.learning_rate
    settled, first = settling_steps(d, rate), stage_one_steps(d, rate)
    total = first + stage_two_steps(d, rate)
    starts = gaussian_start(max(config.limit_widths), d, 0)
    asked = sorted({*log_spaced_steps(total), settled, first})
    limit, other = (
        infinite_width_descent(
            lmz_teacher(d), config.limit_particles, seed, None, rate, tracers=starts, record_steps=asked
        )
        for seed in (1, 2)
    )
    steps, tracers = limit.trajectory.step.values.tolist(), limit.trajectory.tracers.values
    apart = other.trajectory.tracers.values - tracers
    return {
        "dim": d,
        "step": steps,
        "marks": {"settled": settled, "stage_one": first, "end": total},
        "rows": [_from_tracers(width, rate, starts, tracers, steps) for width in sorted(config.limit_widths)],
        "own_error": np.sqrt(0.5 * np.mean(np.sum(apart**2, axis=2), axis=1)).tolist(),
        "loss": limit.trajectory.loss.values.tolist(),
        "particles": config.limit_particles,
        "flips": len(limit.flips),
        "kept": limit.kept,
    }


def _from_tracers(width: int, rate: float, starts: np.ndarray, tracers: np.ndarray, steps: list[int]) -> Part:
    """ξ and the loss of networks of one width, over all those that the ``starts`` can be cut into."""
    risk = PopulationRisk(lmz_teacher(starts.shape[1]), preprocessed=False)
    squares, losses = [], []
    for first in range(0, len(starts) - width + 1, width):
        mine = slice(first, first + width)
        with warnings.catch_warnings():
            # a network narrower than the target cannot find all of it; its distance is still wanted
            warnings.simplefilter("ignore", UserWarning)
            finite = truncated_descent(
                risk, width, 0, None, rate, start=starts[mine], record_weights=True, record_steps=steps
            )
        squares.append(np.mean(np.sum((finite.trajectory.weights.values - tracers[:, mine]) ** 2, axis=2), axis=1))
        losses.append(finite.trajectory.loss.values)
    return {
        "width": width,
        "networks": len(squares),
        "distance": np.sqrt(np.mean(squares, axis=0)).tolist(),
        "loss": np.mean(losses, axis=0).tolist(),
    }
