"""LMZ's Algorithm 1: gradient descent in the mean-field parametrisation that leaves large neurons alone."""

import os
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from wstar.algorithms.run import DIVERGED
from wstar.algorithms.three_stage import Checkpoint
from wstar.algorithms.truncated.mean_field import checked_weights, refuse_frozen_start
from wstar.algorithms.truncated.run import Problem, Run, TruncatedProgress, TruncatedResult
from wstar.algorithms.truncated.together import run_together
from wstar.algorithms.truncated.truncation import settings_from, whole_number
from wstar.kernels.activations import HomogeneousActivation
from wstar.kernels.cpu import SMALL
from wstar.networks.student import gaussian_start
from wstar.networks.teacher import Teacher
from wstar.precision import double_precision
from wstar.risks.base import Risk
from wstar.risks.empirical import EmpiricalRisk


@double_precision
def truncated_descent(
    risk: Risk,
    width: int = 100,
    seed: int = 0,
    n_steps: int | None = 100_000,
    learning_rate: float = 0.1,
    activation: HomogeneousActivation | str = "abs",
    *,
    start: ArrayLike | None = None,
    teacher: Teacher | None = None,
    on_progress: Callable[[TruncatedProgress], None] | None = None,
    checkpoint: Checkpoint | None = None,
    **settings: Any,
) -> TruncatedResult:
    """Train LMZ's network ``(1/m) Σ ‖w_i‖σ(w_i·x)`` with truncated gradient descent, on a population or a sample.

    Steps are per particle, ``w_i ← w_i − η m ∂_{w_i}L``, and a neuron with ``‖w_i‖² > 1/(2λ)`` is not updated; Stage 1
    has λ = ``lambda_0``, Stage 2 the smaller ``lambda_1``.

    Args:
        risk: a population or an empirical risk with ``preprocessed=False``: the masses are fitted to the labels' mean.
        width: neurons m.
        seed: of the start, drawn from N(0, I/d).
        n_steps: of both stages together; None for the length of both by formula.
        learning_rate: η > 0.
        activation: "abs" (LMZ's simulations), "relu" (their theorem) or another 1-homogeneous one.
        start: weights (m, d) to start from instead.
        teacher: where known, for tensor losses and cosines on record; a population risk knows its own.
        on_progress: called a few times a second with a :class:`TruncatedProgress`.
        checkpoint: where to keep the state; a run that finds one there goes on from it and ends at the same bits.
        settings: further fields of :class:`~wstar.algorithms.truncated.truncation.Truncation`: ``lambda_0``,
            ``lambda_1`` (None: 1/(2d²) and 1/(2d⁴), so that neurons stop at ``‖w‖² = d²`` and ``d⁴``), ``stage_one``
            (length of Stage 1:
            "formula", ``⌈2 d²/(η log d)⌉``; a number of steps; or "detect": the plateau is over when the loss is half
            of what it was after ``⌈d log d/η⌉`` steps, looked at every quarter of that many), ``remove_linear`` (first
            take the regression on x off the labels, LMZ's reduction for ReLU targets; the student gets it back as its
            linear part), ``normalise`` (train on labels scaled so that the a_i sum to one, and scale the student
            back), ``tolerance`` (stop when the norm of the per-particle gradient falls to it), ``orders`` of the
            recorded tensor losses, ``record_steps`` (None: eight a decade; start and stage ends are always recorded)
            and ``record_weights``.

    Warns:
        UserWarning: masses that do not sum to one or are far from 1/d, a width below the number of neurons to find,
            fewer rows than inputs, a linear part that stays in the labels, a run that diverged.

    Raises:
        ValueError: a preprocessed risk, a setting out of range (named), a start of another dimension or not finite,
            thresholds that freeze every neuron at the start.

    Source: LMZ Algorithm 1, Theorem 1.1.
    """
    chosen = settings_from(n_steps, learning_rate, activation, settings)
    whole_number("width", width, 1)
    _refuse_preprocessed(risk)
    weights = gaussian_start(width, risk.dim, seed) if start is None else checked_weights("start", start, risk.dim)
    refuse_frozen_start(weights, chosen.levels(risk.dim))
    problem = Problem.of(risk, chosen, teacher, len(weights))
    result = Run(problem, on_progress, checkpoint).go(weights)
    if result.reason == DIVERGED:
        warnings.warn(result.message, stacklevel=3)
    return result


@double_precision
def truncated_descent_many(
    risk: Risk,
    seeds: Iterable[int],
    width: int = 100,
    n_steps: int | None = 100_000,
    learning_rate: float = 0.1,
    activation: HomogeneousActivation | str = "abs",
    *,
    teacher: Teacher | None = None,
    n_threads: int | None = None,
    **settings: Any,
) -> list[TruncatedResult]:
    """:func:`truncated_descent` from many seeds: the same runs to rounding, at a fraction of the time.

    Seeds are divided among ``n_threads`` threads (None: one per core that this process may use), and each thread
    advances its share in batches. Arguments are those of :func:`truncated_descent`.

    Raises:
        ValueError: as there; no seeds; ``stage_one="detect"`` (runs of a batch change stage together).
    """
    chosen = settings_from(n_steps, learning_rate, activation, settings)
    whole_number("width", width, 1)
    _refuse_preprocessed(risk)
    if n_threads is not None:
        whole_number("n_threads", n_threads, 1)
    seeds = tuple(seeds)
    if not seeds:
        raise ValueError("seeds is empty: give at least one")
    if chosen.stage_one_end(risk.dim) is None:
        raise ValueError(
            'stage_one="detect" would end Stage 1 at another step for every seed: give a number of steps or "formula"'
        )
    starts = np.stack([gaussian_start(width, risk.dim, seed) for seed in seeds])
    for start in starts:
        refuse_frozen_start(start, chosen.levels(risk.dim))
    problem = Problem.of(risk, chosen, teacher, width)
    n_threads = n_threads or _cores()
    # batches for what is small, where the fixed cost of a step counts; 4 at width 60, beyond that the cache does
    terms = risk.n_samples if isinstance(risk, EmpiricalRisk) else width
    size = max(1, min(-(-len(seeds) // n_threads), SMALL // (2 * width * terms)))
    shares = [starts[i : i + size] for i in range(0, len(starts), size)]
    with ThreadPoolExecutor(n_threads) as pool:
        results = [result for share in pool.map(lambda s: _run_share(problem, s), shares) for result in share]
    for seed, result in zip(seeds, results, strict=True):
        if result.reason == DIVERGED:
            warnings.warn(f"seed {seed}: {result.message}", stacklevel=3)
    return results


@double_precision
def _run_share(problem: Problem, starts: Float[np.ndarray, "s m d"]) -> list[TruncatedResult]:
    # a batch of one costs more than a run by itself
    return run_together(problem, starts) if len(starts) > 1 else [Run(problem).go(starts[0])]


def _refuse_preprocessed(risk: Risk) -> None:
    """Raise ValueError for a risk whose labels have lost their mean."""
    if risk.preprocessed:
        raise ValueError(
            "the risk is preprocessed, but truncated descent fits the labels' mean too: make it with preprocessed=False"
        )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
