"""Runs of truncated descent from several starts, advanced side by side as one batch."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from wstar.algorithms.run import DIVERGED, STEP_CAP, Progress, Update, drive
from wstar.algorithms.truncated.mean_field import TruncatedStep
from wstar.algorithms.truncated.run import Cursor, Problem, Stage, TruncatedResult, ending
from wstar.networks.parametrisation import MeanField
from wstar.precision import double_precision


class Batch(NamedTuple):
    """Runs side by side: weights, whether each still moves, the steps it took and its last norm."""

    weights: Float[Array | np.ndarray, "s m d"]
    running: Bool[Array | np.ndarray, " s"]
    steps: Int[Array | np.ndarray, " s"]
    norms: Float[Array | np.ndarray, " s"]


class BatchStep(Update[Batch]):
    """One step of every run that has not ended by itself; the stopping norm is the largest of theirs."""

    step: TruncatedStep
    limits: Float[Array, " s"]
    tolerance: Float[Array, ""]

    def __call__(self, state: Batch) -> tuple[Batch, Float[Array, ""]]:
        """One step."""

        def advance(weights: Array, limit: Array) -> tuple[Array, Array]:
            following, norm = eqx.tree_at(lambda s: s.limit, self.step, limit)(MeanField(weights))
            return jnp.asarray(following.weights), norm

        following, norms = jax.vmap(advance)(jnp.asarray(state.weights), self.limits)
        moved = jnp.asarray(state.running)
        running = moved & jnp.isfinite(norms) & (norms > self.tolerance)
        batch = Batch(
            jnp.where(moved[:, None, None], following, state.weights),
            running,
            state.steps + moved,
            jnp.where(moved, norms, state.norms),
        )
        return batch, jnp.max(jnp.where(running, norms, 0.0))


@double_precision
def run_together(problem: Problem, starts: Float[np.ndarray, "s m d"]) -> list[TruncatedResult]:
    """The runs from ``starts``, advanced as one batch."""
    levels = problem.settings.levels(problem.dim)
    begun = [problem.begin(start) for start in starts]
    cursors, limits = [cursor for cursor, _ in begun], np.array([limit for _, limit in begun])
    first, ends = 0, (problem.settings.stage_one_end(problem.dim) or 0, problem.n_steps)
    for level, end in zip(levels, ends, strict=True):
        if end > first or not cursors[0].stages:
            _stage(problem, cursors, limits, level, first, end)
        first = end
    return [problem.result(start, cursor) for start, cursor in zip(starts, cursors, strict=True)]


def _stage(
    problem: Problem, cursors: list[Cursor], limits: Float[np.ndarray, " s"], level: float, first: int, end: int
) -> None:
    """Run one stage of all runs that are not over yet."""
    living = np.array([not c.stages or c.stages[-1].reason == STEP_CAP for c in cursors])
    recorded = frozenset(problem.record_steps)
    tolerance = problem.settings.tolerance
    state = Batch(
        np.stack([np.asarray(c.state.weights) for c in cursors]),
        living,
        np.array([c.step for c in cursors]),
        np.full(len(cursors), np.inf),
    )

    def see(batch: Batch, progress: Progress) -> None:
        if progress.step in recorded:
            _take(cursors, batch, level, only=np.asarray(batch.running))

    update = BatchStep(problem.update(level, 0.0), jnp.asarray(limits), jnp.asarray(tolerance))
    outcome = drive(update, state, start_step=first, max_steps=end, tolerance=0.0, record_at=recorded, on_record=see)
    norms = np.asarray(outcome.state.norms)
    broken = living & ~np.isfinite(norms) & (np.asarray(outcome.state.steps) > first)
    sound = _take(cursors, outcome.state, level, only=living & ~broken)
    for i in np.flatnonzero(living):
        reason = STEP_CAP
        if not sound[i]:
            reason, cursors[i].step = DIVERGED, int(outcome.state.steps[i])
            cursors[i].state = MeanField(cursors[i].good)
        elif norms[i] <= tolerance:
            reason = ending(cursors[i].good, level, first_stage=not cursors[i].stages)
        if reason == STEP_CAP:
            cursors[i].step = end
        cursors[i].stages.append(Stage(level, first, cursors[i].step, reason))


def _take(cursors: list[Cursor], batch: Batch, level: float, only: Bool[np.ndarray, " s"]) -> Bool[np.ndarray, " s"]:
    """Record the runs that ``only`` marks; True for those among them that are sound."""
    sound = np.zeros(len(cursors), dtype=bool)
    weights, steps, norms = (np.asarray(x) for x in (batch.weights, batch.steps, batch.norms))
    for i in np.flatnonzero(only):
        cursors[i].state, cursors[i].step = MeanField(weights[i]), int(steps[i])
        sound[i] = cursors[i].record(level, float(norms[i]))
    return sound
