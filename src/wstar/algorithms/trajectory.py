"""Recorded runs: snapshots while it runs, a labelled xarray.Dataset afterwards."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float

from wstar.algorithms.optimality import OptimalityGap
from wstar.kernels.activations import HomogeneousActivation
from wstar.networks.network import Atoms
from wstar.networks.parametrisation import Free, widened
from wstar.risks.base import Risk


@dataclass
class Snapshots:
    """Parameters as they were at recorded steps. Only copies are made while the run goes on."""

    steps: list[int] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    parameters: list[Free] = field(default_factory=list)

    def add(self, step: int, epoch: int, norm: float, parameters: Free) -> None:
        """Keep one snapshot; a step recorded before is not recorded twice."""
        if self.steps and step <= self.steps[-1]:
            return
        self.steps.append(step)
        self.epochs.append(epoch)
        self.norms.append(norm)
        self.parameters.append(jax.tree.map(np.asarray, parameters))

    def forget_after(self, step: int) -> None:
        """Drop what was recorded beyond ``step`` (an epoch that is run again with another step size)."""
        keep = sum(s <= step for s in self.steps)
        for values in (self.steps, self.epochs, self.norms, self.parameters):
            del values[keep:]

    def stacked(self) -> Free:
        """All snapshots as one pytree with a leading axis of steps; neurons that came later are zero before."""
        width = max(len(p.outputs) for p in self.parameters)
        wide = [widened(p, width) for p in self.parameters]
        return Free(*(np.stack([getattr(p, name) for p in wide]) for name in Free._fields))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Plain arrays for a checkpoint."""
        arrays = {"steps": np.array(self.steps), "epochs": np.array(self.epochs), "norms": np.array(self.norms)}
        return arrays | self.stacked()._asdict()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "Snapshots":
        """The snapshots of :meth:`to_arrays`."""
        free = [Free(*(arrays[name][i] for name in Free._fields)) for i in range(len(arrays["steps"]))]
        return cls(arrays["steps"].tolist(), arrays["epochs"].tolist(), arrays["norms"].tolist(), free)


@dataclass(frozen=True)
class Epoch:
    """One epoch of Stage 3 at one weight decay: how it was run and why it ended.

    ``inserted`` neurons were added at its end because its optimality gap was too large for its weight decay; the next
    epoch then has the same one. ``learning_rate`` is 1 for Newton's method.
    """

    weight_decay: float
    learning_rate: float
    first_step: int
    last_step: int
    reason: str
    gradient_norm: float
    loss: float
    objective: float
    inserted: int = 0

    @property
    def n_steps(self) -> int:
        """Gradient steps taken."""
        return self.last_step - self.first_step


def epochs_to_arrays(epochs: Sequence[Epoch]) -> dict[str, np.ndarray]:
    """One array per field."""
    rows = [asdict(e) for e in epochs]
    return {
        f.name: np.array([row[f.name] for row in rows], dtype="U16" if f.type is str else None) for f in fields(Epoch)
    }


def epochs_from_arrays(arrays: Mapping[str, np.ndarray]) -> list[Epoch]:
    """The epochs of :func:`epochs_to_arrays`."""
    columns = [arrays[f.name].tolist() for f in fields(Epoch)]
    return [Epoch(*row) for row in zip(*columns, strict=True)]


def build_dataset(
    snapshots: Snapshots,
    epochs: Sequence[Epoch],
    risk: Risk,
    activation: HomogeneousActivation,
    basis: Float[np.ndarray, "k d"],
    orders: Sequence[int],
    target: Atoms | None,
    gaps: Sequence[OptimalityGap] = (),
) -> xr.Dataset:
    """The trajectory with dims step, epoch, neuron, component, order, input.

    ``directions @ basis`` are directions in input space. ``tensor_loss`` is relative, ``T_k / ‖Σ a*_j w*_j^{⊗k}‖²``,
    and absent when no ``target`` is known. ``zeta`` is ``L_λ(θ) − L_λ(μ*_λ)`` at every recorded step, known to
    ``zeta_error``; both are absent without ``gaps``, one for each epoch.
    """
    free = snapshots.stacked()
    norms = np.linalg.norm(free.weights, axis=2)
    directions = free.weights / np.where(norms > 0.0, norms, 1.0)[..., None]
    masses = free.outputs * norms
    table = epochs_to_arrays(epochs)
    decays = table["weight_decay"][np.array(snapshots.epochs)]
    states = (Free(*(leaf[i] for leaf in free)) for i in range(len(snapshots.steps)))
    losses = np.array([loss_at(risk, activation, state) for state in states])
    penalties = 0.5 * decays * (np.sum(free.outputs**2, axis=1) + np.sum(norms**2, axis=1))
    variables = {
        "loss": ("step", losses),
        "objective": ("step", losses + penalties),
        "gradient_norm": ("step", np.array(snapshots.norms)),
        "epoch_of_step": ("step", np.array(snapshots.epochs)),
        "masses": (("step", "neuron"), masses),
        "directions": (("step", "neuron", "component"), directions),
        "basis": (("component", "input"), basis),
        "n_steps": ("epoch", table["last_step"] - table["first_step"]),
        "end_gradient_norm": ("epoch", table["gradient_norm"]),
    }
    for name in ("weight_decay", "learning_rate", "first_step", "last_step", "reason", "inserted"):
        variables[name] = ("epoch", table[name])
    if gaps:
        optimum, error = (np.array([getattr(gap, name) for gap in gaps]) for name in ("optimum", "error"))
        at = np.array(snapshots.epochs)
        variables["optimum"] = ("epoch", optimum)
        variables["zeta"] = ("step", np.maximum(losses + penalties - optimum[at], 0.0))
        variables["zeta_error"] = ("step", error[at])
    coords = {"step": np.array(snapshots.steps)}
    if target is not None:
        coords["order"] = np.array(orders)
        relative = _relative_tensor_losses(
            masses, np.asarray(directions), target.masses, target.directions @ basis.T, orders
        )
        variables["tensor_loss"] = (("step", "order"), relative)
    return xr.Dataset(variables, coords, attrs={"activation": activation.name})


def loss_at(risk: Risk, activation: HomogeneousActivation, state: Free) -> float:
    """``L(θ)``, never negative; states of one shape share one compilation."""
    return max(float(_loss(risk, activation, state)), 0.0)


@eqx.filter_jit
def _loss(risk: Risk, activation: HomogeneousActivation, state: Free) -> Float[Array, ""]:
    return risk.loss(activation, jax.tree.map(jnp.asarray, state).measure())


def _relative_tensor_losses(
    masses: Float[np.ndarray, "s m"],
    directions: Float[np.ndarray, "s m k"],
    target_masses: Float[np.ndarray, " n"],
    target_directions: Float[np.ndarray, "n k"],
    orders: Sequence[int],
) -> Float[np.ndarray, "s o"]:
    own, cross = directions @ directions.transpose(0, 2, 1), directions @ target_directions.T
    target_gram = target_directions @ target_directions.T
    result = np.empty((len(masses), len(orders)))
    for column, k in enumerate(orders):
        size = float(target_masses @ target_gram**k @ target_masses)
        own_part = np.einsum("si,sij,sj->s", masses, own**k, masses)
        cross_part = np.einsum("si,sij,j->s", masses, cross**k, target_masses)
        result[:, column] = np.maximum(own_part - 2.0 * cross_part + size, 0.0) / (size if size > 0.0 else 1.0)
    return result
