"""A network is a signed measure on the sphere plus an affine part: teacher and student are two roles of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from wstar.kernels.activations import RELU, HomogeneousActivation, homogeneous

_BLOCK_ENTRIES = 2**22


class Measure(NamedTuple):
    """``μ = Σ c_i δ(u_i)`` with an affine part: ``f(x) = Σ c_i σ(u_i·x) + bias + linear·x`` (a JAX pytree).

    Shapes: masses (m,), directions (m, d) with unit rows, bias (), linear (d,). A row of zeros with mass zero is an
    absent neuron.
    """

    masses: Float[Array | np.ndarray, " m"]
    directions: Float[Array | np.ndarray, "m d"]
    bias: Float[Array | np.ndarray, ""]
    linear: Float[Array | np.ndarray, " d"]


class Atoms(NamedTuple):
    """Masses (k,) and unit directions (k, d): what is to be recovered, in the units of one activation."""

    masses: Float[np.ndarray, " k"]
    directions: Float[np.ndarray, "k d"]


def check_whole(name: str, value: float, least: int = 1) -> None:
    """Raise ValueError unless ``value`` is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or value % 1 or value < least:
        raise ValueError(f"{name}={value!r} must be a whole number of at least {least}")


@dataclass(frozen=True, eq=False, init=False)
class TwoLayer:
    """``f(x) = Σ outputs_i σ(weights_i·x) + bias + linear·x`` with a 1-homogeneous σ.

    Shapes: outputs (m,), weights (m, d), linear (d,) or None for zero. Arrays are copied to float64 and read-only.

    Raises:
        ValueError: shapes that do not fit, no neuron, an unknown activation, or NaN/inf in a named argument.
    """

    outputs: Float[np.ndarray, " m"]
    weights: Float[np.ndarray, "m d"]
    bias: float
    linear: Float[np.ndarray, " d"]
    activation: HomogeneousActivation

    def __init__(
        self,
        outputs: ArrayLike,
        weights: ArrayLike,
        bias: float = 0.0,
        linear: ArrayLike | None = None,
        activation: HomogeneousActivation | str = RELU,
    ) -> None:
        """Copy, check and freeze the arrays; see the class."""
        self._freeze("weights", weights)
        m, d = self.weights.shape if self.weights.ndim == 2 else (0, 0)
        if m == 0 or d == 0:
            raise ValueError(f"weights has shape {self.weights.shape}: one row per neuron, (m, d) with m, d ≥ 1")
        self._freeze("outputs", outputs)
        if self.outputs.shape != (m,):
            raise ValueError(f"outputs has shape {self.outputs.shape}, weights {(m, d)}: one output per row of weights")
        self._freeze("linear", np.zeros(d) if linear is None else linear)
        if self.linear.shape != (d,):
            raise ValueError(f"linear has shape {self.linear.shape}; with weights {(m, d)} it must be ({d},)")
        if not np.isfinite(bias):
            raise ValueError(f"bias={bias} must be a finite number")
        object.__setattr__(self, "bias", float(bias))
        object.__setattr__(self, "activation", homogeneous(activation))

    def _freeze(self, name: str, value: ArrayLike) -> None:
        """Set a field to a read-only float64 copy of ``value``, all of it finite."""
        array = np.array(value, dtype=float)
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            place = f"{'input' if name == 'linear' else 'neuron'} {bad[0][0]}" if array.ndim else "its only value"
            raise ValueError(
                f"{name} holds {len(bad)} NaN or infinite values, first in {place}: remove or replace them"
            )
        array.setflags(write=False)
        object.__setattr__(self, name, array)

    @property
    def width(self) -> int:
        """Number of neurons m (absent ones included)."""
        return self.weights.shape[0]

    @property
    def dim(self) -> int:
        """Input dimension d."""
        return self.weights.shape[1]

    @property
    def norms(self) -> Float[np.ndarray, " m"]:
        """``‖w_i‖``."""
        return np.linalg.norm(self.weights, axis=1)

    @property
    def masses(self) -> Float[np.ndarray, " m"]:
        """Signed masses ``c_i = a_i‖w_i‖``."""
        return self.outputs * self.norms

    @property
    def directions(self) -> Float[np.ndarray, "m d"]:
        """Unit directions ``w_i/‖w_i‖``; a zero row for a zero neuron."""
        norms = self.norms
        return self.weights / np.where(norms > 0.0, norms, 1.0)[:, None]

    @property
    def measure(self) -> Measure:
        """The network as measure plus affine part."""
        return Measure(self.masses, self.directions, np.asarray(self.bias), self.linear)

    def atoms(self, activation: HomogeneousActivation) -> Atoms:
        """The even part of this network as a measure of ``activation``: ``c_i`` times the ratio of even factors.

        A |·| target is learnt by ReLU neurons of twice its masses (and an affine part).
        """
        return Atoms(self.activation.even / activation.even * self.masses, self.directions)

    def __call__(self, X: ArrayLike) -> Float[np.ndarray, " n"]:
        """``f`` at the rows of ``X`` (n, d), in blocks of rows.

        Raises:
            ValueError: ``X`` is not two-dimensional with ``d`` columns.
        """
        X = np.asarray(X, dtype=float)
        if X.ndim != 2 or X.shape[1] != self.dim:
            raise ValueError(f"X has shape {X.shape}: rows of length {self.dim} are expected")
        values = X @ self.linear + self.bias
        rows = max(1, _BLOCK_ENTRIES // self.width)
        for start in range(0, len(X), rows):
            block = slice(start, start + rows)
            values[block] += self.activation(X[block] @ self.weights.T) @ self.outputs
        return values

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Plain arrays from which :meth:`from_arrays` makes the same network (NPZ, checkpoints)."""
        slopes = np.array([self.activation.positive, self.activation.negative])
        return {
            "outputs": self.outputs,
            "weights": self.weights,
            "bias": np.asarray(self.bias),
            "linear": self.linear,
            "activation": slopes,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "TwoLayer":
        """The network of :meth:`to_arrays`."""
        positive, negative = (float(x) for x in arrays["activation"])
        named = {(1.0, 0.0): "relu", (1.0, 1.0): "abs"}.get((positive, negative), f"slopes({positive:g}, {negative:g})")
        return cls(
            arrays["outputs"],
            arrays["weights"],
            bias=float(arrays["bias"]),
            linear=arrays["linear"],
            activation=HomogeneousActivation(positive, negative, name=named),
        )
