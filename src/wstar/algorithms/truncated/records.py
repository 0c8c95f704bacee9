"""What is kept of a run in the mean-field parametrisation, and the labelled dataset made of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float

from wstar.algorithms.truncated.reduction import Reduction, loss_of
from wstar.kernels.activations import HomogeneousActivation
from wstar.networks.network import Atoms
from wstar.networks.parametrisation import MeanField
from wstar.risks.tensor import tensor_losses

_COLUMNS = ("step", "stage", "loss", "gradient_norm", "frozen", "norms", "tensor_loss", "best_cosine", "weights")


@dataclass
class Records:
    """One row a recorded step; columns that do not apply stay empty."""

    reduction: Reduction
    activation: HomogeneousActivation
    target: Atoms | None
    orders: tuple[int, ...]
    keep_weights: bool
    highest: float = np.inf
    rows: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in _COLUMNS})

    def fresh(self, highest: float) -> "Records":
        """The same columns without rows, for a run whose loss is sound up to ``highest``."""
        return replace(self, highest=highest, rows={name: [] for name in _COLUMNS})

    @property
    def last_step(self) -> int:
        """The last step on record, −1 before the first."""
        return self.rows["step"][-1] if self.rows["step"] else -1

    def add(self, step: int, stage: int, level: float, norm: float, weights: Float[np.ndarray, "m d"]) -> bool:
        """Keep one row, and say whether the loss is sound, that is at most ``highest``; an unsound row is not kept.

        A step that is on record already is not kept twice.
        """
        loss = float(loss_of(self.reduction.risk, self.activation, MeanField(jnp.asarray(weights)).measure()))
        if not loss <= self.highest:
            return False
        if step <= self.last_step:
            return True
        norms = np.linalg.norm(weights, axis=1)
        directions = weights / np.where(norms > 0.0, norms, 1.0)[:, None]
        values = {
            "step": step,
            "stage": stage,
            "loss": max(loss, 0.0),
            "gradient_norm": norm,
            "frozen": int((norms * norms > 0.5 / level).sum()),
            "norms": norms,
        }
        if self.target is not None:
            losses = tensor_losses(
                norms * norms / len(norms), directions, self.target.masses, self.target.directions, self.orders
            )
            values["tensor_loss"] = np.array([losses[k] for k in self.orders])
            values["best_cosine"] = np.abs(directions @ self.target.directions.T).max(axis=0)
        if self.keep_weights:
            values["weights"] = weights.copy()
        for name, value in values.items():
            self.rows[name].append(value)
        return True

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Plain arrays for a checkpoint."""
        return {f"records.{name}": np.array(column) for name, column in self.rows.items()}

    def take(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go on from the rows of :meth:`to_arrays`."""
        self.rows = {name: list(arrays[f"records.{name}"]) for name in _COLUMNS}
        self.rows["step"] = [int(s) for s in self.rows["step"]]

    def dataset(self) -> xr.Dataset:
        """The trajectory with dims step, neuron and, where a target is known, order and teacher.

        Tensor losses stand as they are (``tensor_loss``, LMZ eq. 2.2 without its factor), times ``σ̂_k²``
        (``weighted_tensor_loss``, what they add to the loss) and over the target's own ``‖Σ a_j w_j^{⊗k}‖²``
        (``relative_tensor_loss``, the scale on which LMZ's Figure 2 makes sense).
        """
        rows = {name: np.array(column) for name, column in self.rows.items() if column}
        variables: dict[str, Any] = {
            name: ("step", rows[name]) for name in ("stage", "loss", "gradient_norm", "frozen")
        }
        variables["norms"] = (("step", "neuron"), rows["norms"])
        coords = {"step": rows["step"]}
        if self.keep_weights:
            variables["weights"] = (("step", "neuron", "input"), rows["weights"])
        if self.target is not None:
            coords["order"] = np.array(self.orders)
            energies = self.activation.coefficients(max(self.orders, default=0) + 1)[list(self.orders)] ** 2
            own = tensor_losses(np.zeros(0), self.target.directions[:0], *self.target, self.orders)
            sizes = np.array([own[k] or np.nan for k in self.orders])
            losses = rows["tensor_loss"]
            variables["tensor_loss"] = (("step", "order"), losses)
            variables["weighted_tensor_loss"] = (("step", "order"), losses * energies)
            variables["relative_tensor_loss"] = (("step", "order"), losses / sizes)
            variables["best_cosine"] = (("step", "teacher"), rows["best_cosine"])
        return xr.Dataset(variables, coords, attrs={"activation": self.activation.name})
