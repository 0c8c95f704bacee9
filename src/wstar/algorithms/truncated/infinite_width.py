"""LMZ's infinite-width network: particles of the truncated initial measure, made symmetric under sign flips exactly."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from wstar.algorithms.run import DIVERGED, STEP_CAP, Progress, Update, drive, log_spaced_steps
from wstar.algorithms.truncated.initial_measure import sign_flips, truncated_gaussian
from wstar.algorithms.truncated.mean_field import TruncatedStep, ceiling, checked_weights, refuse_frozen_start
from wstar.algorithms.truncated.reduction import loss_of
from wstar.algorithms.truncated.truncation import settings_from, whole_number
from wstar.kernels.activations import HomogeneousActivation
from wstar.networks.network import Measure
from wstar.networks.parametrisation import MeanField
from wstar.networks.teacher import Teacher
from wstar.precision import double_precision
from wstar.risks.population import PopulationRisk


class SymmetricStep(Update[MeanField]):
    """A truncated step of particles that stand for all their ``flips``, and of tracers that follow their field.

    The first ``n_particles`` rows of the state are the network; flips of a particle move as flips of it, so one of
    each orbit is enough, and its field costs one row of the kernel matrix instead of one for every flip.
    """

    step: TruncatedStep
    flips: Float[Array, "g d"]
    n_particles: int = eqx.field(static=True)

    def __call__(self, state: MeanField) -> tuple[MeanField, Float[Array, ""]]:
        """One step."""
        weights = jnp.asarray(state.weights)
        measure = orbit(MeanField(weights[: self.n_particles]), self.flips)
        risk, activation = self.step.risk, self.step.activation
        residual = risk.residual_field(activation, measure, state.measure().directions)
        gradient = state.pullback(residual, risk.affine_residual(activation, measure)).weights
        following, norm = self.step.move(weights, jnp.asarray(gradient))
        own = jnp.sum(weights[: self.n_particles] ** 2, axis=1) / self.n_particles
        risen = own @ residual.values[: self.n_particles] > self.step.limit
        return MeanField(following), jnp.where(risen, jnp.inf, norm)


def orbit(particles: MeanField, flips: Float[Array | np.ndarray, "g d"]) -> Measure:
    """The measure of the particles and all their flips."""
    own = particles.measure()
    g, d = flips.shape
    directions = (jnp.asarray(flips)[:, None, :] * own.directions[None, :, :]).reshape(-1, d)
    return own._replace(masses=jnp.tile(own.masses, g) / g, directions=directions)


@dataclass(frozen=True)
class InfiniteWidth:
    """A run of the infinite-width network: what stands for it, and where its field took the tracers.

    ``trajectory`` has dims step, particle, tracer and input with ``loss``, ``stage``, ``particles`` and ``tracers``;
    ``width`` is particles times flips, ``kept`` the share of N(0, I/d) in the initial measure.
    """

    trajectory: xr.Dataset
    flips: Float[np.ndarray, "g d"]
    kept: float
    reason: str

    @property
    def width(self) -> int:
        """Neurons of the network that was run."""
        return len(self.flips) * self.trajectory.sizes["particle"]


@double_precision
def infinite_width_descent(
    teacher: Teacher,
    n_particles: int = 200,
    seed: int = 0,
    n_steps: int | None = None,
    learning_rate: float = 0.1,
    activation: HomogeneousActivation | str = "abs",
    *,
    tracers: ArrayLike | None = None,
    strength: int = 2,
    **settings: Any,
) -> InfiniteWidth:
    """LMZ's Algorithm 1 on the population with a conditionally symmetric measure in place of m neurons.

    The measure is that of ``n_particles`` Sobol points of the truncated initial measure with all flips of a group of
    sign vectors (:func:`sign_flips`) in the coordinates of W*: up to the order ``strength`` all its moments that vanish
    under every flip do vanish, at every step. ``tracers`` (n, d) move in its field without adding to it: LMZ compare a
    finite network with tracers that start at its own neurons.

    Args:
        teacher: d orthonormal directions with positive masses.
        n_particles: draws, before flips.
        seed: of the draws.
        n_steps: of both stages together; None for the length of both by formula.
        learning_rate: η > 0.
        activation: of the network.
        tracers: starts that follow the field.
        strength: 2 or 4.
        settings: ``lambda_0``, ``lambda_1``, ``stage_one`` (not "detect") and ``record_steps`` as for
            :func:`wstar.truncated_descent`; the others have no effect here.

    Raises:
        ValueError: directions that are not d orthonormal ones, masses that are not positive, and as
            :func:`wstar.truncated_descent`.

    Source: LMZ Sections 3, A and B; equation 2.6.
    """
    chosen = settings_from(n_steps, learning_rate, activation, settings)
    whole_number("n_particles", n_particles, 1)
    d, end_of_first = teacher.dim, chosen.stage_one_end(teacher.dim)
    if end_of_first is None:
        raise ValueError('stage_one="detect" is not there for the infinite width: give a number of steps or "formula"')
    masses, basis = _own_coordinates(teacher, chosen.activation)
    particles, kept = truncated_gaussian(masses, n_particles, seed, quasi=True)
    followers = np.zeros((0, d)) if tracers is None else checked_weights("tracers", tracers, d) @ basis.T
    levels, total = chosen.levels(d), chosen.total_steps(d)
    refuse_frozen_start(particles, levels)
    flips = sign_flips(d, strength)
    target = Teacher(teacher.outputs, np.eye(d), activation=teacher.activation)
    risk = jax.tree.map(jnp.asarray, PopulationRisk(target, preprocessed=False))
    record = Recorder(risk, chosen.activation, flips, n_particles)
    state, reason, step = MeanField(np.concatenate([particles, followers])), STEP_CAP, 0
    record.add(state, 0, 1)
    limit = ceiling(risk, chosen.activation, particles).energy
    asked = chosen.record_steps if chosen.record_steps is not None else log_spaced_steps(total)
    for stage, (level, end) in enumerate(zip(levels, (end_of_first, total), strict=True), 1):
        if end <= step or reason == DIVERGED:
            continue
        rate, largest, most = (jnp.asarray(x) for x in (learning_rate, 0.5 / level, limit))
        step_of_one = TruncatedStep(risk, rate, largest, most, chosen.activation)
        update = SymmetricStep(step_of_one, jnp.asarray(flips), n_particles)
        outcome = _run_stage(update, state, record, asked, (step, end), stage)
        state, step, reason = outcome.state, outcome.step, outcome.reason
    return InfiniteWidth(record.dataset(basis, reason), flips, kept, reason)


def _run_stage(
    update: SymmetricStep, state: MeanField, record: "Recorder", asked: Iterable[int], span: tuple[int, int], stage: int
) -> Any:
    """Drive one stage, putting the asked steps and its end on record."""
    wanted = frozenset(asked) | {span[1]}

    def see(reached: MeanField, progress: Progress) -> None:
        if progress.reason != DIVERGED and (progress.step in wanted):
            record.add(reached, progress.step, stage)

    return drive(update, state, start_step=span[0], max_steps=span[1], tolerance=0.0, record_at=wanted, on_record=see)


def _own_coordinates(teacher: Teacher, activation: HomogeneousActivation) -> tuple[np.ndarray, np.ndarray]:
    """Masses and the orthonormal basis W*.

    Raises:
        ValueError: see :func:`infinite_width_descent`.
    """
    basis, masses = np.asarray(teacher.directions), teacher.atoms(activation).masses
    if basis.shape[0] != basis.shape[1] or np.abs(basis @ basis.T - np.eye(len(basis))).max() > 1e-8:
        raise ValueError(
            f"the teacher has {len(basis)} directions in dimension {teacher.dim}: the infinite-width network is "
            "symmetric in d orthonormal directions, give as many"
        )
    if not (masses > 0.0).all():
        raise ValueError(f"the teacher has mass {masses.min():g}: masses ‖w‖² are positive, so the target's must be")
    return masses, basis


class Recorder:
    """What is kept of a run, in the coordinates of W*."""

    def __init__(self, risk: PopulationRisk, activation: HomogeneousActivation, flips: np.ndarray, n: int) -> None:
        """Nothing yet."""
        self.risk, self.activation, self.flips, self.n = risk, activation, flips, n
        self.rows: dict[int, tuple[int, float, np.ndarray]] = {}

    def add(self, state: MeanField, step: int, stage: int) -> None:
        """Keep one step; a step that is there already stays as it is."""
        if step not in self.rows:
            weights = np.asarray(state.weights)
            loss = float(
                loss_of(self.risk, self.activation, orbit(MeanField(jnp.asarray(weights[: self.n])), self.flips))
            )
            self.rows[step] = (stage, max(loss, 0.0), weights.copy())

    def dataset(self, basis: Float[np.ndarray, "d d"], reason: str) -> xr.Dataset:
        """All rows, weights turned back."""
        stages, losses, weights = zip(*self.rows.values(), strict=True)
        turned = np.stack(weights) @ basis
        return xr.Dataset(
            {
                "stage": ("step", np.array(stages)),
                "loss": ("step", np.array(losses)),
                "particles": (("step", "particle", "input"), turned[:, : self.n]),
                "tracers": (("step", "tracer", "input"), turned[:, self.n :]),
            },
            {"step": np.array(list(self.rows))},
            {"activation": self.activation.name, "reason": reason},
        )
