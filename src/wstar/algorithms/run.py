"""The one loop: every iterative algorithm is an update that this driver steps, records, stops and checkpoints."""

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

State = TypeVar("State")

CONVERGED = "converged"
STEP_CAP = "step cap"
DIVERGED = "diverged"


class Update(eqx.Module, Generic[State]):
    """One step of an algorithm. Settings are fields; State is what the next step needs."""

    @abstractmethod
    def __call__(self, state: State) -> tuple[State, Float[Array, ""]]:
        """The next state, and the norm by which the run decides to stop (NaN when it broke down)."""


@dataclass(frozen=True)
class Progress:
    """Where a run is: given to ``on_record`` at every recorded step and to ``on_pause`` in between."""

    step: int
    norm: float
    reason: str | None


@dataclass(frozen=True)
class Outcome(Generic[State]):
    """Final state, steps taken in total, last norm, and why it stopped."""

    state: State
    step: int
    norm: float
    reason: str


def drive(
    update: Update[State],
    state: State,
    *,
    max_steps: int,
    tolerance: float,
    start_step: int = 0,
    record_at: Iterable[int] = (),
    on_record: Callable[[State, Progress], None] | None = None,
    on_pause: Callable[[State, Progress], None] | None = None,
    pause_seconds: float = 0.25,
) -> Outcome[State]:
    """Step until the norm falls to ``tolerance``, ``max_steps`` are done, or the norm is no longer finite.

    Steps are compiled as one loop; the driver returns to Python only at the steps of ``record_at`` (``on_record``) and
    about every ``pause_seconds`` (``on_pause``: progress, checkpoints). How the run is cut into pieces changes no bit
    of it, so a run resumed at ``start_step`` ends equal to an unbroken one.
    """
    waiting = sorted((s for s in set(record_at) if start_step < s < max_steps), reverse=True)
    records = frozenset(record_at)
    step, norm, reason, piece = start_step, float("inf"), None, 16
    while reason is None and step < max_steps:
        target = min(step + piece, max_steps, waiting[-1] if waiting else max_steps)
        began = time.monotonic()
        # as arrays: a Python number would be compiled in, once per value
        state, done, last = _advance(update, state, np.asarray(target - step), np.asarray(tolerance))
        step, norm = step + int(done), float(last)
        piece = _next_piece(piece, target - step + int(done), time.monotonic() - began, pause_seconds)
        if waiting and step >= waiting[-1]:
            waiting.pop()
        if not np.isfinite(norm):
            reason = DIVERGED
        elif norm <= tolerance:
            reason = CONVERGED
        elif step >= max_steps:
            reason = STEP_CAP
        progress = Progress(step, norm, reason)
        if on_record is not None and (step in records or reason is not None):
            on_record(state, progress)
        if on_pause is not None:
            on_pause(state, progress)
    return Outcome(state, step, norm, reason or STEP_CAP)


def _next_piece(piece: int, steps: int, seconds: float, wanted: float) -> int:
    if steps < piece:
        return piece
    return max(1, piece // 2) if seconds > 2.0 * wanted else piece * 2 if seconds < 0.5 * wanted else piece


def log_spaced_steps(max_steps: int, per_decade: int = 8) -> tuple[int, ...]:
    """0, 1, 2, … thinned to ``per_decade`` steps a decade, up to and with ``max_steps``."""
    if max_steps < 1:
        return (0,)
    decades = np.log10(max_steps)
    grid = np.logspace(0.0, decades, max(2, int(np.ceil(decades * per_decade)) + 1))
    return (0, *sorted({int(s) for s in np.rint(grid)} | {max_steps}))


@eqx.filter_jit
def _advance(
    update: Update[State], state: State, n_steps: Array | np.ndarray, tolerance: Array | np.ndarray
) -> tuple[State, Array, Array]:
    def proceed(carry: tuple[State, Array, Array]) -> Array:
        _, done, norm = carry
        return (done < n_steps) & (norm > tolerance)

    def body(carry: tuple[State, Array, Array]) -> tuple[State, Array, Array]:
        current, done, _ = carry
        following, norm = update(current)
        return following, done + 1, norm

    start = (jax.tree.map(jnp.asarray, state), jnp.zeros((), int), jnp.asarray(jnp.inf))
    return jax.lax.while_loop(proceed, body, start)
