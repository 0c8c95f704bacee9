"""A run of ``truncate`` in a few numbers; runs on one problem from several starts are made together."""

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from wstar.algorithms.run import DIVERGED
from wstar.algorithms.truncated.descent import truncated_descent, truncated_descent_many
from wstar.algorithms.truncated.run import TruncatedResult
from wstar.experiments.config import TruncateConfig
from wstar.experiments.truncate import COSINE, View, prepare, settings
from wstar.theory.tensor_dynamics import basis_like_share, stage_times


def measure(configs: Sequence[TruncateConfig]) -> list[dict[str, float]]:
    """What became of each run, as :func:`flat` says; several configs differ in the seed of the start alone."""
    config = configs[0]
    teacher, risk = prepare(config)
    rest: dict[str, Any] = {
        "width": config.width,
        "n_steps": config.n_steps,
        "learning_rate": config.learning_rate,
        "activation": config.activation,
        "teacher": teacher,
        **settings(config),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if len(configs) > 1:
            results = truncated_descent_many(risk, [one.seed for one in configs], n_threads=1, **rest)
        else:
            results = [truncated_descent(risk, seed=config.seed, **rest)]
    view = View.of(config, teacher, risk)
    return [flat(view, result) for result in results]


def alike(config: TruncateConfig) -> Hashable:
    """All but the seed, where that is of the start alone: the target is no draw, and stages end at known steps."""
    fixed = config.teacher is not None or (config.directions == "axes" and config.kappa == 1.0)
    if config.samples is not None or config.stage_one == "detect" or not fixed:
        return None
    return config.model_copy(update={"seed": 0}).model_dump_json()


def flat(view: View, result: TruncatedResult) -> dict[str, float]:
    """The numbers of a run.

    ``loss``, ``order_0`` and so on (relative tensor losses), ``found`` directions, ``least_cosine`` and
    ``median_cosine`` of any neuron with a direction, ``basis_like`` share of the mass, the last step and the steps at
    which stages ended (NaN where they did not), ``diverged`` 1 or 0.
    """
    end = result.trajectory.isel(step=-1)
    cosines = end.best_cosine.values
    orders = zip(end.order.values.tolist(), end.relative_tensor_loss.values.tolist(), strict=True)
    return {
        "loss": float(end.loss),
        **{f"order_{order}": value for order, value in orders},
        "found": float((cosines >= COSINE).sum()),
        "least_cosine": float(cosines.min()),
        "median_cosine": float(np.median(cosines)),
        "basis_like": basis_like_share(result.weights, view.teacher, COSINE)[1],
        "last_step": float(end.step),
        **asdict(stage_times(result.trajectory)),
        "diverged": float(result.reason == DIVERGED),
    }
