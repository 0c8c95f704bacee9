"""Least squares over signed measures on the sphere, as :mod:`~wstar.algorithms.optimum.optimal_measure` sees it.

``min_μ ‖Σ c_i φ(u_i) − y‖² + λ Σ|c_i|`` in some Hilbert space: the features φ and the target y are known through inner
products only. A problem answers four questions (masses, loss, field, derivatives); population and sample differ in
nothing else. Everything here is plain NumPy: a few hundred atoms in a few dimensions, in shapes that change at every
step, cost less than one compilation.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Atoms(NamedTuple):
    """``μ = Σ c_i δ(u_i)``: signed masses (n,) and unit rows (n, k)."""

    masses: Float[np.ndarray, " n"]
    directions: Float[np.ndarray, "n k"]

    @classmethod
    def none(cls, dim: int) -> "Atoms":
        """The zero measure."""
        return cls(np.zeros(0), np.zeros((0, dim)))

    def padded(self, dim: int) -> "Atoms":
        """The same atoms with zero coordinates added, up to ``dim``."""
        return Atoms(self.masses, np.pad(self.directions, ((0, 0), (0, dim - self.directions.shape[1]))))

    @property
    def total(self) -> float:
        """``|μ|₁``."""
        return float(np.abs(self.masses).sum())


class ResidualField(ABC):
    """``Ψ(u) = ⟨R, φ(u)⟩`` of one residual ``R = Σ c_i φ(u_i) − y``, at any unit rows u."""

    @abstractmethod
    def at(self, points: Float[np.ndarray, "p k"]) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, "p k"]]:
        """``Ψ`` and the gradient of its 1-homogeneous extension."""

    @abstractmethod
    def ascent(self, points: Float[np.ndarray, "p k"]) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, "p k"]]:
        """``Ψ`` and a tangent step along which |Ψ| grows (Newton's, where second derivatives are known)."""

    @abstractmethod
    def square_norms(self, points: Float[np.ndarray, "p k"]) -> Float[np.ndarray, " p"]:
        """``‖φ(u)‖²``."""


class MeasureProblem(ABC):
    """What the solver asks of a least-squares problem over measures on the unit sphere of R^dim."""

    even: bool
    """Whether ``φ(−u) = φ(u)``: u and −u are then one atom."""

    @property
    @abstractmethod
    def energy(self) -> float:
        """``‖y‖²``."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of coordinates k of a direction."""

    @abstractmethod
    def mass_problem(
        self, directions: Float[np.ndarray, "n k"]
    ) -> tuple[Float[np.ndarray, "n n"], Float[np.ndarray, " n"]]:
        """``G_ij = ⟨φ(u_i), φ(u_j)⟩`` and ``b_i = ⟨φ(u_i), y⟩``."""

    @abstractmethod
    def loss(self, atoms: Atoms) -> float:
        """``‖R‖²``."""

    @abstractmethod
    def field(self, atoms: Atoms) -> ResidualField:
        """The field of these atoms' residual."""

    @abstractmethod
    def derivatives(
        self, atoms: Atoms, weight_decay: float
    ) -> tuple[Float[np.ndarray, " nk"], Float[np.ndarray, "nk nk"]]:
        """Gradient and Hessian of ``‖R‖² + λ Σ‖w_i‖`` in ``w_i = |c_i|u_i``, signs fixed, scaled by ``√|c_i|``.

        The scaled coordinates ``ξ_i = δw_i/√|c_i|`` measure a move of mass m by ``δm²/m + m·angle²``: light and heavy
        atoms are equally well conditioned in them.
        """

    @property
    def n_starts(self) -> int:
        """Uniform starts of one search for summits of the field."""
        return 40 * self.dim

    screening: int = 1
    """Uniform directions looked at for each start: the highest are climbed from."""
    resolution: float = 1e-8
    """Angle below which a climb ends."""

    def special_directions(self) -> Float[np.ndarray, "s k"]:
        """Directions worth a look by every search (the teacher's, for instance); none by default."""
        return np.zeros((0, self.dim))

    def extended(self) -> "MeasureProblem | None":
        """The same problem with one more coordinate, in which no target lies; None where directions are complete."""
        return None

    def objective(self, atoms: Atoms, weight_decay: float) -> float:
        """``‖R‖² + λ|μ|₁``."""
        return self.loss(atoms) + weight_decay * atoms.total


def unit(rows: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
    """Rows at length one."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
