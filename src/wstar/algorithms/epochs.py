"""Stage 3 of ZG's Algorithm 1: epochs of gradient descent under a weight decay that halves."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from wstar.algorithms.descent import GradientDescent, Slope, largest_curvature, stable_learning_rate, tree_norm
from wstar.algorithms.newton import MeasureMoves
from wstar.algorithms.optimality import Optima, gap_above
from wstar.algorithms.run import CONVERGED, DIVERGED, Outcome, Progress, Update, drive, log_spaced_steps
from wstar.algorithms.settings import ThreeStage
from wstar.algorithms.trajectory import Epoch, Snapshots, epochs_from_arrays, epochs_to_arrays, loss_at
from wstar.networks.parametrisation import Free
from wstar.risks.base import Risk

_MAX_HALVINGS = 8
# at one weight decay
_MOST_REPAIRS = 6
# time of one step of the flow, in step sizes of the descent
_FLOW_STRIDE = 20.0
STALLED = "stalled"


@dataclass
class Cursor:
    """Where Stage 3 stands: all that a resumed run needs to end at the same bits as an unbroken one.

    ``began`` is the state at the start of the running epoch, ``rate`` its step size (0: not chosen yet) after
    ``halvings`` failures to descend, ``step`` counts all gradient steps.
    """

    state: Free
    began: Free
    snapshots: Snapshots
    epochs: list[Epoch]
    step: int = 0
    rate: float = 0.0
    halvings: int = 0

    @classmethod
    def at(cls, state: Free) -> "Cursor":
        """The start of Stage 3; it is recorded as step 0."""
        snapshots = Snapshots()
        snapshots.add(0, 0, float("nan"), state)
        return cls(state, state, snapshots, [])

    @property
    def first_step(self) -> int:
        """Where the running epoch began."""
        return self.epochs[-1].last_step if self.epochs else 0

    @property
    def level(self) -> int:
        """How often λ has been halved: an epoch at whose end neurons were inserted is run again at the same λ."""
        return sum(epoch.inserted == 0 for epoch in self.epochs)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """A flat dictionary of arrays."""
        groups = {
            "state": self.state._asdict(),
            "began": self.began._asdict(),
            "snapshots": self.snapshots.to_arrays(),
            "epochs": epochs_to_arrays(self.epochs),
        }
        flat = {f"{group}.{name}": np.asarray(a) for group, arrays in groups.items() for name, a in arrays.items()}
        return flat | {name: np.asarray(getattr(self, name)) for name in ("step", "rate", "halvings")}

    @classmethod
    def from_arrays(cls, flat: Mapping[str, np.ndarray]) -> "Cursor":
        """The cursor of :meth:`to_arrays`."""

        def group(name: str) -> dict[str, np.ndarray]:
            return {key.partition(".")[2]: array for key, array in flat.items() if key.startswith(f"{name}.")}

        return cls(
            Free(**group("state")),
            Free(**group("began")),
            Snapshots.from_arrays(group("snapshots")),
            epochs_from_arrays(group("epochs")),
            int(flat["step"]),
            float(flat["rate"]),
            int(flat["halvings"]),
        )


@dataclass(frozen=True)
class StageThree:
    """Runs the epochs from a cursor; ``on_pause(cursor, epoch, progress, tolerance)`` is called now and then."""

    settings: ThreeStage
    risk: Risk
    on_pause: Callable[[Cursor, int, Progress, float], None]
    moves: MeasureMoves
    optima: Optima

    def run(self, cursor: Cursor) -> Cursor:
        """All epochs that are left, until the last or one that diverges."""
        while cursor.level < self.settings.n_epochs and not (cursor.epochs and cursor.epochs[-1].reason == DIVERGED):
            epoch = self._epoch(cursor)
            if self.settings.repair and epoch.reason != DIVERGED:
                epoch = self._repaired(cursor, epoch)
            cursor.epochs.append(epoch)
            cursor.began, cursor.rate, cursor.halvings = cursor.state, 0.0, 0
            done = Progress(epoch.n_steps, epoch.gradient_norm, None)
            self.on_pause(cursor, len(cursor.epochs) - 1, done, self._tolerance(epoch.weight_decay))
        return cursor

    def value(self, state: Free, weight_decay: float) -> float:
        """``L_λ`` of parameters in this risk's coordinates."""
        penalty = np.sum(np.square(state.outputs)) + np.sum(np.square(state.weights))
        return loss_at(self.risk, self.settings.activation, state) + 0.5 * weight_decay * float(penalty)

    def _tolerance(self, weight_decay: float) -> float:
        return self.settings.tolerance * weight_decay**1.5

    def _epoch(self, cursor: Cursor) -> Epoch:
        """One weight decay; a step size that was chosen here is halved while the epoch fails to descend."""
        decay = self.settings.weight_decay / 2.0**cursor.level
        slope = Slope(self.risk, jnp.asarray(decay), self.settings.activation, self.settings.affine == "fitted")
        before = self.value(cursor.began, decay)
        if cursor.rate == 0.0:
            cursor.rate = self._learning_rate(cursor, slope)
        while True:
            outcome = self._descend(cursor, slope, decay)
            after = self.value(outcome.state, decay)
            descended = np.isfinite(after) and after <= before + 1e-9 * abs(before) + 1e-15
            given = self.settings.learning_rate is not None or self.settings.solver == "newton"
            if descended or given or cursor.halvings == _MAX_HALVINGS:
                break
            cursor.snapshots.forget_after(cursor.first_step)
            cursor.state, cursor.step = cursor.began, cursor.first_step
            cursor.rate, cursor.halvings = 0.5 * cursor.rate, cursor.halvings + 1
        first, reason = cursor.first_step, outcome.reason if descended else DIVERGED
        if not descended:
            # nothing that is not a number leaves this function: the epoch's start is the last state that can be trusted
            outcome, after = replace(outcome, state=cursor.began), before
            cursor.snapshots.forget_after(first)
        cursor.state, cursor.step = outcome.state, first + outcome.step
        loss = max(self.value(outcome.state, 0.0), 0.0)
        return Epoch(decay, cursor.rate, first, cursor.step, reason, outcome.norm, loss, after)

    def _learning_rate(self, cursor: Cursor, slope: Slope) -> float:
        if self.settings.solver == "newton":
            return 1.0
        return self.settings.learning_rate or stable_learning_rate(float(largest_curvature(slope, cursor.began)))

    def _repaired(self, cursor: Cursor, epoch: Epoch) -> Epoch:
        """``epoch``, with neurons inserted where its optimality gap is not O(λ²): a local optimum, not the global one.

        The convex problem in all masses lets the new neurons in, as in Stage 2; the epoch is then run again.
        """
        tries = sum(e.inserted > 0 and e.weight_decay == epoch.weight_decay for e in cursor.epochs)
        decays = [self.settings.weight_decay / 2.0**k for k in range(cursor.level + 1)]
        gap = gap_above(self.optima.along(decays)[-1], epoch.objective)
        if tries == _MOST_REPAIRS or gap.zeta - gap.error <= self.settings.repair_above * epoch.weight_decay**2:
            return epoch
        rng = np.random.default_rng([self.settings.seed, len(cursor.epochs)])
        cursor.state, inserted = self.moves.grown(cursor.state, epoch.weight_decay, rng)
        return replace(epoch, inserted=inserted)

    def _descend(self, cursor: Cursor, slope: Slope, decay: float) -> Outcome[Free]:
        first, index, tolerance = cursor.first_step, len(cursor.epochs), self._tolerance(decay)
        wanted = {*log_spaced_steps(self.settings.max_steps, self.settings.records_per_decade)}
        wanted |= {step - first for step in self.settings.record_steps}

        def record(state: Free, progress: Progress) -> None:
            if np.isfinite(progress.norm):
                cursor.snapshots.add(first + progress.step, index, progress.norm, state)

        def pause(state: Free, progress: Progress) -> None:
            cursor.state, cursor.step = state, first + progress.step
            self.on_pause(cursor, index, progress, tolerance)

        if self.settings.solver == "newton":
            state, n_steps = self.moves.settle(cursor.began, decay)
            norm = float(_slope_norm(slope, state))
            progress = Progress(n_steps, norm, CONVERGED if norm <= tolerance else STALLED)
            record(state, progress)
            return Outcome(state, n_steps, norm, str(progress.reason))
        return drive(
            self._update(slope, cursor.rate),
            cursor.state,
            start_step=cursor.step - first,
            max_steps=self.settings.max_steps,
            tolerance=tolerance,
            record_at=wanted,
            on_record=record,
            on_pause=pause,
        )

    def _update(self, slope: Slope, rate: float) -> Update[Free]:
        if self.settings.solver == "descent":
            return GradientDescent(slope, jnp.asarray(rate))
        # diffrax takes a second to import: only for those who want the flow
        from wstar.algorithms.flow import GradientFlow

        return GradientFlow(slope, jnp.asarray(_FLOW_STRIDE * rate), jnp.asarray(rate))


@eqx.filter_jit
def _slope_norm(slope: Slope, state: Free) -> Array:
    return tree_norm(slope(jax.tree.map(jnp.asarray, state))[1])
