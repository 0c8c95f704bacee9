"""The trained network and its starts."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from wstar.kernels.activations import RELU, HomogeneousActivation
from wstar.networks.network import TwoLayer, check_whole
from wstar.networks.parametrisation import Free, MeanField


@dataclass(frozen=True, eq=False, init=False)
class Student(TwoLayer):
    """A student in the free parametrisation; one trained in the mean-field parametrisation is stored the same way."""

    @classmethod
    def from_mean_field(cls, weights: ArrayLike, activation: HomogeneousActivation | str = RELU) -> "Student":
        """LMZ's learner ``(1/m) Σ ‖w_i‖σ(w_i·x)``: outputs ``‖w_i‖/m``."""
        weights = np.array(weights, dtype=float)
        return cls(np.linalg.norm(weights, axis=1) / len(weights), weights, activation=activation)

    @classmethod
    def from_parameters(cls, parameters: Free | MeanField, activation: HomogeneousActivation | str = RELU) -> "Student":
        """The student that trained parameters stand for."""
        if isinstance(parameters, MeanField):
            return cls.from_mean_field(np.asarray(parameters.weights), activation)
        return cls(
            np.asarray(parameters.outputs),
            np.asarray(parameters.weights),
            bias=float(parameters.bias),
            linear=np.asarray(parameters.linear),
            activation=activation,
        )

    @property
    def parameters(self) -> Free:
        """The free parameters (a, W, α, β)."""
        return Free(self.outputs, self.weights, np.asarray(self.bias), self.linear)

    def balanced(self) -> "Student":
        """The same function with ``|a_i| = ‖w_i‖ = √|c_i|`` (ZG Algorithm 1, end of Stage 2)."""
        root = np.sqrt(np.abs(self.masses))
        return Student(
            np.sign(self.outputs) * root, self.directions * root[:, None], self.bias, self.linear, self.activation
        )


def symmetric_start(
    width: int, dim: int, seed: int | np.random.Generator = 0, activation: HomogeneousActivation | str = RELU
) -> Student:
    """ZG's start: ``a_i = −a_{i+m/2} ∈ {±√d}``, ``w_i = w_{i+m/2}`` uniform on the sphere of radius 1/√m, α = β = 0.

    The network is identically zero.

    Raises:
        ValueError: ``width`` is not a positive even number or ``dim`` not a positive whole one.
    """
    check_whole("width", width, 2)
    check_whole("dim", dim)
    if width % 2:
        raise ValueError(f"width={width} must be even: the symmetric start pairs the neurons")
    rng = np.random.default_rng(seed)
    half = width // 2
    outputs = np.sqrt(dim) * rng.choice([-1.0, 1.0], half)
    weights = rng.standard_normal((half, dim))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True) * np.sqrt(width)
    return Student(np.concatenate([outputs, -outputs]), np.concatenate([weights, weights]), activation=activation)


def gaussian_start(width: int, dim: int, seed: int | np.random.Generator = 0) -> Float[np.ndarray, "m d"]:
    """LMZ's start: weights ``w_i ~ N(0, I/d)`` for the mean-field parametrisation, shape (width, dim).

    Raises:
        ValueError: ``width`` or ``dim`` is not a whole number of at least 1.
    """
    check_whole("width", width)
    check_whole("dim", dim)
    return np.random.default_rng(seed).standard_normal((width, dim)) / np.sqrt(dim)
