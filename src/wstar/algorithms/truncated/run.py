"""A run of LMZ's Algorithm 1 made ready, gone through stage by stage, kept and resumed."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float

from wstar.algorithms.run import CONVERGED, DIVERGED, STEP_CAP, Outcome, Progress, drive, log_spaced_steps
from wstar.algorithms.three_stage import Checkpoint
from wstar.algorithms.truncated.mean_field import TruncatedStep, aligned, ceiling
from wstar.algorithms.truncated.records import Records
from wstar.algorithms.truncated.reduction import Reduction, loss_of, reduce_labels, warn_about_setting
from wstar.algorithms.truncated.truncation import Truncation, settling_steps
from wstar.networks.parametrisation import MeanField
from wstar.networks.student import Student
from wstar.networks.teacher import Teacher
from wstar.risks.base import Risk

FROZEN = "all neurons frozen"


@dataclass(frozen=True)
class Stage:
    """One stage of Algorithm 1 as it was run: λ = ``level`` over the steps from ``first_step`` to ``last_step``."""

    level: float
    first_step: int
    last_step: int
    reason: str


@dataclass(frozen=True)
class TruncatedProgress:
    """What a progress bar wants to know."""

    stage: int
    step: int
    n_steps: int
    norm: float


@dataclass(frozen=True)
class TruncatedResult:
    """The trained student, its mean-field weights at start and end, the trajectory, and how each stage went.

    ``reason`` is "step cap", "converged", "all neurons frozen" or "diverged", and ``message`` says it in a sentence
    with what to change. After a divergence, student and weights are the last recorded ones before it.
    """

    student: Student
    start: Float[np.ndarray, "m d"]
    weights: Float[np.ndarray, "m d"]
    trajectory: xr.Dataset
    stages: tuple[Stage, ...]
    reason: str
    message: str


@dataclass(frozen=True)
class Problem:
    """A risk made ready for the algorithm, with the settings and what is recorded."""

    settings: Truncation
    reduction: Reduction
    records: Records

    @classmethod
    def of(cls, risk: Risk, settings: Truncation, teacher: Teacher | None, width: int) -> "Problem":
        """Reduce the labels and warn about what does not fit LMZ's assumptions."""
        learner = settings.activation
        reduction = reduce_labels(risk, learner, settings.remove_linear, settings.normalise)
        target = reduction.target(risk.target(learner) if teacher is None else teacher.atoms(learner))
        warn_about_setting(target, learner, width, risk)
        reduction = reduction.on_device()
        return cls(settings, reduction, Records(reduction, learner, target, settings.orders, settings.record_weights))

    @property
    def dim(self) -> int:
        """Input dimension d."""
        return self.reduction.risk.dim

    @property
    def n_steps(self) -> int:
        """Of both stages together."""
        return self.settings.total_steps(self.dim)

    @property
    def record_steps(self) -> tuple[int, ...]:
        """Steps to record, with the end."""
        asked = self.settings.record_steps
        return log_spaced_steps(self.n_steps) if asked is None else (*asked, self.n_steps)

    def update(self, level: float, limit: float) -> TruncatedStep:
        """The step at λ = ``level``."""
        rate, largest, most = (jnp.asarray(x) for x in (self.settings.learning_rate, 0.5 / level, limit))
        return TruncatedStep(self._stepped, rate, largest, most, self.settings.activation)

    @cached_property
    def _stepped(self) -> Risk:
        return aligned(self.reduction.risk)

    def begin(self, start: Float[np.ndarray, "m d"]) -> "tuple[Cursor, float]":
        """A cursor at ``start``, and the limit of E R f beyond which the run counts as diverged."""
        limits = ceiling(self.reduction.risk, self.settings.activation, start)
        cursor = Cursor(MeanField(start), start, self.records.fresh(limits.loss))
        cursor.record(self.settings.levels(self.dim)[0], float("nan"))
        return cursor, limits.energy

    def result(self, start: Float[np.ndarray, "m d"], cursor: "Cursor") -> TruncatedResult:
        """What a run that stands at ``cursor`` found."""
        reason, rate = cursor.stages[-1].reason, self.settings.learning_rate
        # M = E‖w‖² follows M ← M(1 − 4 η c₀e²(M − A))²: stable at A below 2/(8 c₀e²A), c₀ = 2/π
        stable = np.pi / (8.0 * self.settings.activation.even**2 * abs(self.reduction.mass) + 1e-300)
        messages = {
            STEP_CAP: f"all {cursor.step} steps were taken",
            CONVERGED: f"the gradient fell to the tolerance {self.settings.tolerance:g} at step {cursor.step}",
            FROZEN: f"every neuron was past its threshold at step {cursor.step}: lower lambda_1 or learning_rate",
            DIVERGED: f"the run diverged at step {cursor.step}, where the loss had risen beyond 4 times its start: "
            f"lower learning_rate={rate:g}, for instance to {min(0.25 * rate, 0.5 * stable):.3g}",
        }
        weights = np.asarray(cursor.state.weights)
        return TruncatedResult(
            self.reduction.restore(weights, self.settings.activation),
            start,
            weights,
            cursor.records.dataset().assign_attrs(reason=reason, learning_rate=rate),
            tuple(cursor.stages),
            reason,
            messages[reason],
        )


@dataclass
class Cursor:
    """Where a run stands: all that a resumed one needs. ``good`` are the last recorded weights."""

    state: MeanField
    good: Float[np.ndarray, "m d"]
    records: Records
    step: int = 0
    plateau: float = float("nan")
    stages: list[Stage] = field(default_factory=list)

    def record(self, level: float, norm: float) -> bool:
        """Put the present state on record unless its loss says that the run has diverged; True if it is sound."""
        weights = np.asarray(self.state.weights)
        sound = self.records.add(self.step, len(self.stages) + 1, level, norm, weights)
        if sound:
            self.good = weights
        return sound

    def to_arrays(self) -> dict[str, np.ndarray]:
        """A flat dictionary of arrays."""
        rows = [asdict(stage) for stage in self.stages]
        table = {f"stages.{name}": np.array([row[name] for row in rows], dtype) for name, dtype in _STAGE_COLUMNS}
        numbers = {"step": np.asarray(self.step), "plateau": np.asarray(self.plateau)}
        weights = {"weights": np.asarray(self.state.weights), "good": self.good}
        return weights | numbers | table | self.records.to_arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], records: Records) -> "Cursor":
        """The cursor of :meth:`to_arrays`; fills ``records``."""
        records.take(arrays)
        rows = zip(*(arrays[f"stages.{name}"].tolist() for name, _ in _STAGE_COLUMNS), strict=True)
        state = MeanField(arrays["weights"])
        stages = [Stage(*row) for row in rows]
        return cls(state, arrays["good"], records, int(arrays["step"]), float(arrays["plateau"]), stages)


def ending(weights: Float[np.ndarray, "m d"], level: float, first_stage: bool) -> str:
    """Why a stage whose gradient has vanished is over: neurons that Stage 1 holds back may move in Stage 2."""
    frozen = float((np.sum(weights**2, axis=1) > 0.5 / level).mean())
    if first_stage and frozen > 0.0:
        return STEP_CAP
    return FROZEN if frozen == 1.0 else CONVERGED


_STAGE_COLUMNS = (("level", float), ("first_step", int), ("last_step", int), ("reason", "U24"))


@dataclass(frozen=True)
class Run:
    """One run: its problem, whom to tell about progress, where to keep its state."""

    problem: Problem
    on_progress: Callable[[TruncatedProgress], None] | None = None
    checkpoint: Checkpoint | None = None

    def go(self, start: Float[np.ndarray, "m d"]) -> TruncatedResult:
        """Both stages, from ``start`` or from where the checkpoint stands."""
        problem = self.problem
        levels = problem.settings.levels(problem.dim)
        cursor, limit = problem.begin(start)
        cursor = self._saved(cursor)
        for level in levels[len(cursor.stages) :]:
            stage = self._stage(cursor, level, limit)
            cursor.stages.append(stage)
            if stage.reason in (CONVERGED, DIVERGED) or cursor.step >= problem.n_steps:
                break
        return problem.result(start, cursor)

    def _saved(self, cursor: Cursor) -> Cursor:
        saved = self.checkpoint.load() if self.checkpoint else None
        if saved is None:
            return cursor
        if saved["weights"].shape != cursor.good.shape:
            raise ValueError(f"the checkpoint holds weights {saved['weights'].shape}, this run has {cursor.good.shape}")
        return Cursor.from_arrays(saved, cursor.records)

    def _stage(self, cursor: Cursor, level: float, limit: float) -> Stage:
        first = cursor.stages[-1].last_step if cursor.stages else 0
        update, reason, norm = self.problem.update(level, limit), STEP_CAP, float("nan")
        while reason == STEP_CAP and (stop := self._next_stop(cursor)) > cursor.step:
            outcome = self._drive(update, cursor, level, stop)
            cursor.state, cursor.step, norm, reason = outcome.state, outcome.step, outcome.norm, outcome.reason
        if reason == DIVERGED or not cursor.record(level, norm):
            # what was recorded last is the last state that can be trusted
            cursor.state = MeanField(cursor.good)
            return Stage(level, first, cursor.step, DIVERGED)
        if reason == CONVERGED:
            reason = ending(cursor.good, level, first_stage=not cursor.stages)
        if reason == STEP_CAP and not cursor.stages:
            # held back neurons may move in Stage 2; until then nothing happens
            cursor.step = max(cursor.step, self.problem.settings.stage_one_end(self.problem.dim) or 0)
        return Stage(level, first, cursor.step, reason)

    def _next_stop(self, cursor: Cursor) -> int:
        """The step to run to before anything is to be decided; the present one where the stage is over."""
        problem = self.problem
        if cursor.stages:
            return problem.n_steps
        end = problem.settings.stage_one_end(problem.dim)
        if end is not None:
            return end
        settled = settling_steps(problem.dim, problem.settings.learning_rate)
        every = -(-settled // 4)
        if cursor.step >= settled and cursor.step % every == 0 and self._plateau_is_over(cursor):
            return cursor.step
        return min(problem.n_steps, (cursor.step // every + 1) * every)

    def _plateau_is_over(self, cursor: Cursor) -> bool:
        loss = float(loss_of(self.problem.reduction.risk, self.problem.settings.activation, cursor.state.measure()))
        if np.isnan(cursor.plateau):
            cursor.plateau = loss
        return loss <= 0.5 * cursor.plateau

    def _drive(self, update: TruncatedStep, cursor: Cursor, level: float, stop: int) -> Outcome[MeanField]:
        recorded = frozenset(self.problem.record_steps)

        def see(state: MeanField, progress: Progress) -> None:
            cursor.state, cursor.step = state, progress.step
            if progress.step in recorded and progress.reason != DIVERGED:
                cursor.record(level, progress.norm)

        def pause(state: MeanField, progress: Progress) -> None:
            cursor.state, cursor.step = state, progress.step
            if self.on_progress is not None:
                self.on_progress(
                    TruncatedProgress(len(cursor.stages) + 1, progress.step, self.problem.n_steps, progress.norm)
                )
            # a piece that ended is saved within the next one, once what it leads to is known
            if self.checkpoint is not None and progress.reason is None:
                self.checkpoint.save(cursor.to_arrays)

        return drive(
            update,
            cursor.state,
            start_step=cursor.step,
            max_steps=stop,
            tolerance=self.problem.settings.tolerance,
            record_at=recorded,
            on_record=see,
            on_pause=pause,
        )
