"""LMZ's experiment: truncated gradient descent on a target of d neurons, and what their theory says to look at."""

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from wstar import __version__
from wstar.algorithms.truncated.descent import truncated_descent
from wstar.algorithms.truncated.reduction import reduce_labels
from wstar.algorithms.truncated.run import TruncatedProgress, TruncatedResult
from wstar.experiments.config import TruncateConfig
from wstar.experiments.store import RunFolder
from wstar.kernels.activations import HomogeneousActivation, homogeneous
from wstar.networks.teacher import Teacher
from wstar.risks.base import Risk
from wstar.risks.empirical import EmpiricalRisk
from wstar.risks.population import PopulationRisk
from wstar.theory.tensor_dynamics import (
    basis_like_share,
    gradient_by_order,
    mass_errors,
    neuron_sets,
    refuse_oblique,
    stage_times,
)
from wstar.theory.tickets import score_rule, winning_tickets

KIND = "truncate"
# a neuron this close to a direction is basis-like and serves it; a direction with such a neuron is found
COSINE = 0.95


def prepare(config: TruncateConfig) -> tuple[Teacher, Risk]:
    """Target and risk that ``config`` asks for; all of its input is checked here, before a folder is made.

    Raises:
        ValueError: an impossible or unreadable target, noise without samples, thresholds in the wrong order.
    """
    if config.noise > 0.0 and config.samples is None:
        raise ValueError(f"noise={config.noise} needs samples: add --samples N, the population risk has no noise")
    for name, level in (("lambda_0", config.lambda_0), ("lambda_1", config.lambda_1)):
        if level is not None and not np.isfinite(0.5 / level):
            raise ValueError(f"{name}={level:g} is too small: 1/(2λ) overflows; leave it out for the formula")
    with warnings.catch_warnings():
        # the warnings speak of ZG's assumptions; those of LMZ come with the run
        warnings.simplefilter("ignore")
        teacher = Teacher.load(config.teacher) if config.teacher is not None else _target(config)
    if config.samples is None:
        return teacher, PopulationRisk(teacher, preprocessed=False)
    rng = np.random.default_rng([config.seed, 1])
    X = rng.standard_normal((config.samples, teacher.dim))
    labels = teacher(X) + config.noise * rng.standard_normal(config.samples)
    return teacher, EmpiricalRisk(X, labels, preprocessed=False)


def _target(config: TruncateConfig) -> Teacher:
    """LMZ's target: the even part of ``Σ b_i σ(w*_i·x)`` is ``Σ a_i |w*_i·x|`` with Σ a_i = 1."""
    rng, d = np.random.default_rng([config.seed, 2]), config.dim
    directions = np.eye(d)
    if config.directions == "rotated":
        directions = np.linalg.qr(rng.standard_normal((d, d)))[0]
    elif config.directions == "random":
        directions = rng.standard_normal((d, d))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    masses = config.kappa ** rng.uniform(-1.0, 1.0, d)
    target = homogeneous(config.target_activation)
    return Teacher(masses / (masses.sum() * target.even), directions, activation=target)


def run_truncate(
    config: TruncateConfig,
    prepared: tuple[Teacher, Risk],
    run: RunFolder | None,
    on_progress: Callable[[TruncatedProgress], None] | None = None,
) -> dict[str, Any]:
    """Run (or go on with) what :func:`prepare` made of ``config``; writes all of the run folder but its page.

    Returns the result as it stands in result.json.

    Raises:
        ValueError: a checkpoint that cannot be used, or thresholds that freeze every neuron at the start.
    """
    teacher, risk = prepared
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        result = truncated_descent(
            risk,
            config.width,
            config.seed,
            config.n_steps,
            config.learning_rate,
            config.activation,
            teacher=teacher,
            on_progress=on_progress,
            checkpoint=run.checkpoint() if run else None,
            record_weights=True,
            **settings(config),
        )
    notices = list(dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning)))
    for notice in notices:
        warnings.warn(notice, stacklevel=2)
    trained = time.perf_counter()
    view = View.of(config, teacher, risk)
    trajectory = view.along(result.trajectory)
    summary = summarise(config, view, result) | {"notices": notices, "samples": _sample_scores(config, teacher, result)}
    summary["seconds"] = {"compute": trained - began, "total": time.perf_counter() - began}
    if run:
        run.write_network("teacher", teacher)
        run.write_network("student", result.student)
        run.write_trajectory(trajectory.assign_attrs(kind=KIND))
        run.write_result(summary)
    return summary


def settings(config: TruncateConfig) -> dict[str, Any]:
    """What ``config`` says about stages and labels, as the algorithm takes it."""
    named = ("lambda_0", "lambda_1", "remove_linear", "normalise", "tolerance")
    stage_one = int(config.stage_one) if config.stage_one.isdecimal() else config.stage_one
    return {name: getattr(config, name) for name in named} | {"stage_one": stage_one}


@dataclass(frozen=True)
class View:
    """What a run is looked at with: the target on the scale that the run saw, and the exact risk of it."""

    learner: HomogeneousActivation
    teacher: Teacher
    population: PopulationRisk
    orthonormal: bool

    @classmethod
    def of(cls, config: TruncateConfig, teacher: Teacher, risk: Risk) -> "View":
        """The view of a run with these settings; samples have fixed the scale where labels were normalised."""
        learner = homogeneous(config.activation)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scale = reduce_labels(risk, learner, True, config.normalise).scale
            seen = Teacher(teacher.outputs / scale, teacher.weights, activation=teacher.activation)
            exact = PopulationRisk(seen, preprocessed=False)
            if config.remove_linear:
                exact = exact.relabelled(exact.target_linear, 1.0)
        try:
            refuse_oblique(teacher)
        except ValueError:
            return cls(learner, seen, exact, False)
        return cls(learner, seen, exact, True)

    def along(self, trajectory: xr.Dataset) -> xr.Dataset:
        """The trajectory with the gradient by order, the mass errors and the basis-like share at every record."""
        steps = trajectory.weights.values
        starts, ends = (w @ self.teacher.directions.T for w in steps[[0, -1]])
        lengths = np.linalg.norm(steps[-1], axis=1)
        orders = tuple(trajectory.order.values.tolist())
        parts = [gradient_by_order(self.population, w, orders, self.learner) for w in steps]
        shares = np.array([basis_like_share(w, self.teacher, COSINE) for w in steps])
        extra: dict[str, Any] = {
            "order_gradient_norm": (("step", "order"), np.array([_root_mean_square(p.gradients) for p in parts])),
            "rest_gradient_norm": ("step", np.array([_root_mean_square(p.rest[None])[0] for p in parts])),
            "basis_like_neurons": ("step", shares[:, 0]),
            "basis_like_mass": ("step", shares[:, 1]),
            "start_square": (("neuron", "teacher"), starts**2),
            "end_cosine": (("neuron", "teacher"), np.abs(ends) / np.where(lengths > 0.0, lengths, 1.0)[:, None]),
        }
        if self.orthonormal:
            errors = [mass_errors(w, self.teacher, self.learner) for w in steps]
            extra |= {
                "mass_error": ("step", np.array([e.total for e in errors])),
                "largest_excess": ("step", np.array([e.largest_excess for e in errors])),
                "largest_deficit": ("step", np.array([e.largest_deficit for e in errors])),
            }
        return trajectory.assign(extra)


def _root_mean_square(gradients: Float[np.ndarray, "o m d"]) -> Float[np.ndarray, " o"]:
    """Over neurons, of the length of each one's gradient."""
    return np.sqrt((gradients**2).sum(axis=2).mean(axis=1))


def summarise(config: TruncateConfig, view: View, result: TruncatedResult) -> dict[str, Any]:
    """The contents of result.json, less seconds, warnings and scores on samples."""
    teacher, end = view.teacher, result.trajectory.isel(step=-1)
    gram = teacher.directions @ teacher.directions.T
    masses = teacher.atoms(view.learner).masses
    return {
        "kind": KIND,
        "wstar": __version__,
        "status": "finished",
        "teacher": {
            "dim": teacher.dim,
            "width": teacher.width,
            "activation": teacher.activation.name,
            "orthonormal": view.orthonormal,
            "largest_inner_product": float(np.abs(gram - np.eye(len(gram))).max()),
            "smallest_mass": float(masses.min()),
            "largest_mass": float(masses.max()),
        },
        "width": config.width,
        "activation": view.learner.name,
        "learning_rate": config.learning_rate,
        "reason": result.reason,
        "message": result.message,
        "stages": [asdict(stage) | {"threshold": 0.5 / stage.level} for stage in result.stages],
        "stage_times": asdict(stage_times(result.trajectory)),
        "loss": float(end.loss),
        "relative_tensor_loss": dict(
            zip(map(str, end.order.values.tolist()), end.relative_tensor_loss.values.tolist(), strict=True)
        ),
        "cosines": end.best_cosine.values.tolist(),
        "found": int((end.best_cosine.values >= COSINE).sum()),
        "basis_like": dict(zip(("neurons", "mass"), basis_like_share(result.weights, teacher, COSINE), strict=True)),
        "tickets": tickets(config, view, result),
    }


def tickets(config: TruncateConfig, view: View, result: TruncatedResult) -> dict[str, Any]:
    """How well the start foretold who serves whom, and how well the paper's rule would have."""
    won = winning_tickets(result.start, result.weights, view.teacher, COSINE, view.learner)
    found: dict[str, Any] = {
        "roc_area": won.roc_area,
        "first": won.first,
        "top": won.top,
        "servants": won.servants.tolist(),
        "roc_areas": won.roc_areas.tolist(),
        "rule": None,
    }
    times = stage_times(result.trajectory)
    masses = view.teacher.atoms(view.learner).masses
    if view.orthonormal and (masses > 0.0).all() and np.isfinite(times.plateau_end) and times.plateau_end > 0.0:
        sets = neuron_sets(result.start, view.teacher, config.learning_rate, times.plateau_end, activation=view.learner)
        found["rule"] = asdict(score_rule(sets, won.serves)) | {
            "plateau_steps": times.plateau_end,
            "threshold": float(np.median(sets.thresholds)),
            "margin": sets.margin,
            **{name: int(getattr(sets, name).any(axis=1).sum()) for name in ("good", "bad", "potential")},
        }
    return found


def _sample_scores(config: TruncateConfig, teacher: Teacher, result: TruncatedResult) -> dict[str, Any] | None:
    """The exact distance of the student from the target, which no sample says."""
    if config.samples is None:
        return None
    exact = PopulationRisk(teacher, preprocessed=False).value(result.student)
    return {"n": config.samples, "noise": config.noise, "population_loss": exact}
