"""ZG's Algorithm 1: one step, one convex problem, then gradient descent under a weight decay that halves by epochs."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from wstar.algorithms.epochs import Cursor, StageThree
from wstar.algorithms.newton import MeasureMoves
from wstar.algorithms.optimality import Optima, OptimalityGap, gap_above, optimum_is_cheap
from wstar.algorithms.run import Progress
from wstar.algorithms.settings import ThreeStage
from wstar.algorithms.stages import MassesSoFar, NormAdjustment, adjust_norms, first_step
from wstar.algorithms.trajectory import Epoch, build_dataset
from wstar.kernels.activations import RELU, HomogeneousActivation, homogeneous
from wstar.networks.network import Atoms, Measure
from wstar.networks.student import Student, symmetric_start
from wstar.networks.teacher import Teacher
from wstar.precision import double_precision
from wstar.risks.base import Risk


class Checkpoint(ABC):
    """Where a run keeps what it needs to go on after a kill: a flat dictionary of arrays, saved as a whole."""

    @abstractmethod
    def load(self) -> dict[str, np.ndarray] | None:
        """What was saved last, or None."""

    @abstractmethod
    def save(self, arrays: Callable[[], dict[str, np.ndarray]]) -> None:
        """Replace what was saved by ``arrays()``; a call that comes too soon after the last may be skipped."""


@dataclass(frozen=True)
class RunProgress:
    """What a progress bar wants to know; ``norm`` runs down to ``tolerance`` within each epoch."""

    stage: int
    epoch: int
    n_epochs: int
    step: int
    norm: float
    tolerance: float


@dataclass(frozen=True)
class ThreeStageResult:
    """The trained student (living neurons, input coordinates), the recorded trajectory, and how each stage went."""

    student: Student
    trajectory: xr.Dataset
    stage2: NormAdjustment
    epochs: tuple[Epoch, ...]
    gaps: tuple[OptimalityGap, ...] = ()
    """``ζ = L_λ(θ) − L_λ(μ*_λ)`` at the end of each epoch; empty where the run was not certified."""

    @property
    def reason(self) -> str:
        """Why the last epoch ended: "converged", "step cap" or "diverged"."""
        return self.epochs[-1].reason if self.epochs else self.stage2.reason


def three_stage(
    risk: Risk,
    width: int = 400,
    seed: int = 0,
    weight_decay: float = 0.02,
    n_epochs: int = 12,
    *,
    start: Student | None = None,
    teacher: Teacher | None = None,
    activation: HomogeneousActivation | str = RELU,
    on_progress: Callable[[RunProgress], None] | None = None,
    checkpoint: Checkpoint | None = None,
    **settings: Any,
) -> ThreeStageResult:
    """Train a two-layer network with ZG's Algorithm 1 on a population or on a sample.

    Stage 1 is one gradient step with ``λ₀ = η₀ = 1`` from the symmetric start of ``width`` neurons (even) drawn with
    ``seed``, or from ``start``. Stage 2 solves ``min_{a,α,β} L + λΣ‖w_i‖|a_i|`` at λ = ``weight_decay`` and balances.
    Stage 3 runs ``n_epochs`` epochs of gradient descent on ``L_λ``, λ halved after each, every one until
    ``‖∇L_λ‖ ≤ tolerance·λ^{3/2}`` (both sides scale as the 3/2 power of the labels) or ``max_steps`` are done.

    Args:
        risk: :class:`~wstar.risks.population.PopulationRisk` or :class:`~wstar.risks.empirical.EmpiricalRisk`.
        width: neurons at the start, even for the symmetric start.
        seed: of the start.
        weight_decay: λ of Stage 2 and of the first epoch, > 0.
        n_epochs: epochs of Stage 3; the last has ``λ·2^{1−n_epochs}``.
        start: another start; its activation is then the student's.
        teacher: where known, for the tensor losses on record; a population risk knows its own.
        activation: of the student.
        on_progress: called a few times a second with a :class:`RunProgress`.
        checkpoint: where to keep the state; a run that finds one there goes on from it and ends at the same bits.
        settings: further fields of :class:`ThreeStage`: ``stage2`` ("lars" or "subgradient"), ``affine`` ("fitted":
            α, β stay at their optimum as in Stage 2; "trained": they take gradient steps like the rest, as printed),
            ``solver`` of Stage 3 ("descent"; "newton": each epoch goes straight to its local optimum, neurons that the
            certificate proves dead removed; "flow": gradient flow, a step is a time of 20 learning rates),
            ``learning_rate`` (None: 1.4 over the largest curvature at the start of each epoch, halved where an epoch
            fails to descend), ``tolerance``, ``max_steps`` (per epoch), ``reduce`` (drop neurons without mass and run
            in the span of the directions; changes no digit beyond rounding), ``orders`` of the tensor losses,
            ``records_per_decade`` and ``record_steps`` (what is recorded), ``certify`` (compute the optimum over
            networks of every width at each λ and with it ζ; by default where it is cheap: a population of rank ≤ 4),
            ``repair`` (where ζ at an epoch's end exceeds ``repair_above``·λ², insert neurons at the maximisers of
            |η_λ| and run the epoch again).

    Raises:
        ValueError: a setting out of range (named), or labels without a second-order part.

    Source: ZG Algorithm 1, Lemmas 3–5.
    """
    known = [f.name for f in fields(ThreeStage)]
    for name in settings:
        if name not in known:
            raise ValueError(f"three_stage has no setting {name!r}; it has {', '.join(known)}")
    chosen = ThreeStage(width, seed, weight_decay, n_epochs, homogeneous(activation), **settings)
    if start is None:
        start = symmetric_start(width, risk.dim, seed, chosen.activation)
    elif start.dim != risk.dim:
        raise ValueError(f"start has {start.dim} inputs, the risk {risk.dim}: they must live in one space")
    else:
        chosen = replace(chosen, activation=start.activation)
    target = risk.target(chosen.activation) if teacher is None else teacher.atoms(chosen.activation)
    return _Run(chosen, risk, target, on_progress, checkpoint).go(start)


@dataclass(frozen=True)
class _Run:
    settings: ThreeStage
    risk: Risk
    target: Atoms | None
    on_progress: Callable[[RunProgress], None] | None
    checkpoint: Checkpoint | None

    @double_precision
    def go(self, start: Student) -> ThreeStageResult:
        saved = (self.checkpoint.load() if self.checkpoint else None) or {}
        adjusted = self._stages_one_and_two(start, saved)
        risk, basis = self.risk.reduced(adjusted.student.directions) if self.settings.reduce else (self.risk, None)
        if basis is None:
            basis = np.eye(self.risk.dim)
        optima = Optima(self.risk, self.settings.activation)
        stage_three = StageThree(
            self.settings,
            jax.tree.map(jnp.asarray, risk),
            self._pause(adjusted),
            MeasureMoves(risk, self.settings.activation),
            optima,
        )
        if "step" in saved:
            cursor = Cursor.from_arrays(saved)
        else:
            state = adjusted.student.parameters
            cursor = Cursor.at(state._replace(weights=state.weights @ basis.T, linear=state.linear @ basis.T))
        cursor = stage_three.run(cursor)
        epochs = cursor.epochs or [self._no_epoch(stage_three, cursor)]
        gaps = self._gaps(optima, epochs)
        trajectory = build_dataset(
            cursor.snapshots,
            epochs,
            stage_three.risk,
            self.settings.activation,
            basis,
            self.settings.orders,
            self.target,
            gaps,
        )
        end = jax.tree.map(np.asarray, cursor.state)
        end = end._replace(weights=end.weights @ basis, linear=end.linear @ basis)
        if self.settings.reduce:
            living = np.flatnonzero(end.outputs)
            end = end._replace(outputs=end.outputs[living], weights=end.weights[living])
        student = Student.from_parameters(end, self.settings.activation)
        return ThreeStageResult(student, trajectory, adjusted, tuple(cursor.epochs), gaps)

    def _gaps(self, optima: Optima, epochs: list[Epoch]) -> tuple[OptimalityGap, ...]:
        wanted = optimum_is_cheap(self.risk) if self.settings.certify is None else self.settings.certify
        if not wanted:
            return ()
        decays = list(dict.fromkeys(epoch.weight_decay for epoch in epochs))
        at = dict(zip(decays, optima.along(decays), strict=True))
        return tuple(gap_above(at[epoch.weight_decay], epoch.objective) for epoch in epochs)

    def _stages_one_and_two(self, start: Student, saved: dict[str, np.ndarray]) -> NormAdjustment:
        self._tell(1, 0, Progress(0, float("inf"), None), 0.0)
        stepped = first_step(self.risk, self._preprocessed(start))

        def pause(masses: MassesSoFar, norm: float, tolerance: float) -> None:
            self._tell(2, 0, Progress(masses.step, norm, None), tolerance)
            if self.checkpoint:
                self.checkpoint.save(masses.to_arrays)

        return adjust_norms(
            self.risk,
            stepped,
            self.settings.weight_decay,
            method=self.settings.stage2,
            drop_zeros=self.settings.reduce,
            resume=MassesSoFar.from_arrays(saved),
            on_pause=pause,
        )

    def _preprocessed(self, start: Student) -> Student:
        """ZG's first line, on labels that still have their affine part: give it to the start instead."""
        if self.risk.preprocessed:
            return start
        nothing = Measure(np.zeros(0), np.zeros((0, start.dim)), np.zeros(()), np.zeros(start.dim))
        label = self.risk.fit_affine(start.activation, nothing)
        return Student(
            start.outputs, start.weights, start.bias + float(label.bias), start.linear + label.linear, start.activation
        )

    def _pause(self, adjusted: NormAdjustment) -> Callable[[Cursor, int, Progress, float], None]:
        def pause(cursor: Cursor, epoch: int, progress: Progress, tolerance: float) -> None:
            self._tell(3, epoch, progress, tolerance)
            # a state that has just converged is saved with its epoch closed, at the call that follows
            if self.checkpoint and progress.reason is None:
                self.checkpoint.save(lambda: cursor.to_arrays() | adjusted.masses_so_far.to_arrays())

        return pause

    def _tell(self, stage: int, epoch: int, progress: Progress, tolerance: float) -> None:
        if self.on_progress is not None:
            self.on_progress(RunProgress(stage, epoch, self.settings.n_epochs, progress.step, progress.norm, tolerance))

    def _no_epoch(self, stage_three: StageThree, cursor: Cursor) -> Epoch:
        decay = self.settings.weight_decay
        loss, value = stage_three.value(cursor.state, 0.0), stage_three.value(cursor.state, decay)
        return Epoch(decay, 0.0, 0, 0, "no epochs", float("nan"), max(loss, 0.0), value)
