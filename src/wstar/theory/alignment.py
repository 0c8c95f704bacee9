"""Which student neuron serves which teacher neuron, and how well (ZG §5–6)."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from wstar.kernels.angles import angles
from wstar.networks.network import TwoLayer

# a neuron counts as heavy above this share of the smallest teacher mass
HEAVY_SHARE = 1e-2
# a teacher neuron counts as found when its mass is gathered to this relative error
MASS_TOLERANCE = 0.05


@dataclass(frozen=True)
class Alignment:
    """Every living student neuron assigned to its nearest teacher neuron, modulo sign (ZG's sets T_i).

    Attributes:
        nearest: (m,) index of the teacher neuron with the smallest angle, −1 for neurons without a direction.
        angles: (m,) that angle δ_j in [0, π/2], NaN for neurons without a direction.
        masses: (m,) signed student masses in the teacher's units.
        average_neurons: (m_*, d) ``v_i = Σ_{j∈T_i} a_j w_j``, each w_j flipped so that ``w_j·w*_i ≥ 0``.
        teacher_masses: (m_*,) ``a*_i``.
        average_neuron_errors: (m_*,) ``‖v_i − a*_i w*_i‖``.
    """

    nearest: Int[np.ndarray, " m"]
    angles: Float[np.ndarray, " m"]
    masses: Float[np.ndarray, " m"]
    average_neurons: Float[np.ndarray, "k d"]
    teacher_masses: Float[np.ndarray, " k"]
    average_neuron_errors: Float[np.ndarray, " k"]

    @property
    def far_mass(self) -> float:
        """``Σ_j |c_j| δ_j²`` (ZG Lemma 8 (i))."""
        alive = self.nearest >= 0
        return float(np.sum(np.abs(self.masses[alive]) * self.angles[alive] ** 2))

    def gathered(self, within_angle: float) -> Float[np.ndarray, " k"]:
        """Signed mass within ``within_angle`` of each teacher direction, ``μ(T_i(δ))``."""
        close = (self.nearest >= 0) & (self.angles <= within_angle)
        # bincount of nothing is an integer array, whatever its weights
        counts = np.bincount(self.nearest[close], weights=self.masses[close], minlength=len(self.teacher_masses))
        return counts.astype(float)

    def leftover(self, within_angle: float) -> float:
        """Total absolute mass farther than ``within_angle`` from every teacher direction."""
        far = (self.nearest < 0) | (self.angles > within_angle)
        return float(np.abs(self.masses[far]).sum())

    def heavy(self) -> np.ndarray:
        """Mask of neurons with more than a hundredth of the smallest teacher mass."""
        return np.abs(self.masses) > HEAVY_SHARE * np.abs(self.teacher_masses).min()

    @property
    def largest_heavy_angle(self) -> float:
        """Largest angle of a heavy neuron to its teacher neuron; NaN without heavy neurons."""
        heavy = self.heavy() & (self.nearest >= 0)
        return float(self.angles[heavy].max()) if heavy.any() else float("nan")


def align(student: TwoLayer, teacher: TwoLayer) -> Alignment:
    """Assign student neurons to teacher neurons; permutation, sign and scale are free.

    Zero student neurons get ``nearest`` −1 and take part in nothing. Widths may differ. The average neuron tends to
    ``a*_i w*_i`` (the printed ``w*_i`` of ZG Lemma 8 (iii) assumes a*_i = 1).

    Raises:
        ValueError: different input dimensions, or a teacher neuron that is zero.
    """
    if student.dim != teacher.dim:
        raise ValueError(f"student has {student.dim} inputs, teacher {teacher.dim}: they must live in one space")
    target = teacher.atoms(student.activation)
    masses, alive = student.masses, np.flatnonzero(student.norms > 0.0)
    nearest, closest = np.full(student.width, -1), np.full(student.width, np.nan)
    average = np.zeros((teacher.width, teacher.dim))
    if alive.size:
        pairwise = angles(student.weights[alive], target.directions)
        nearest[alive] = pairwise.argmin(axis=1)
        closest[alive] = pairwise.min(axis=1)
        inner = np.einsum("ij,ij->i", student.directions[alive], target.directions[nearest[alive]])
        flipped = np.where(inner < 0.0, -1.0, 1.0)[:, None] * student.directions[alive]
        np.add.at(average, nearest[alive], masses[alive, None] * flipped)
    errors = np.linalg.norm(average - target.masses[:, None] * target.directions, axis=1)
    return Alignment(nearest, closest, masses, average, target.masses, errors)


@dataclass(frozen=True)
class RecoveredNeuron:
    """One teacher neuron and what the student has near it."""

    teacher: int
    mass: float
    nearest_angle: float
    gathered_mass: float
    mass_error: float
    average_neuron_error: float
    n_students: int


@dataclass(frozen=True)
class Recovery:
    """The recovery report: one row a teacher neuron, and what belongs to none."""

    within_angle: float
    neurons: tuple[RecoveredNeuron, ...]
    leftover_mass: float
    largest_heavy_angle: float

    @property
    def recovered(self) -> bool:
        """Every teacher direction has, within the angle, its mass to 5 %."""
        return all(n.mass_error < MASS_TOLERANCE for n in self.neurons)


def recovery_report(student: TwoLayer, teacher: TwoLayer, within_angle: float = 1e-2) -> Recovery:
    """How well ``student`` found each neuron of ``teacher``: closest angle, gathered mass, average neuron.

    ``mass_error`` is relative to |a*|, ``n_students`` counts living neurons within the angle.

    Raises:
        ValueError: as :func:`align`, or ``within_angle`` outside (0, π/2].
    """
    if not 0.0 < within_angle <= 0.5 * np.pi:
        raise ValueError(f"within_angle={within_angle} must lie in (0, π/2]")
    alignment = align(student, teacher)
    gathered = alignment.gathered(within_angle)
    rows = []
    for i, mass in enumerate(alignment.teacher_masses):
        mine = alignment.nearest == i
        rows.append(
            RecoveredNeuron(
                teacher=i,
                mass=float(mass),
                nearest_angle=float(alignment.angles[mine].min()) if mine.any() else float("nan"),
                gathered_mass=float(gathered[i]),
                mass_error=float(abs(gathered[i] - mass) / abs(mass)) if mass else float("inf"),
                average_neuron_error=float(alignment.average_neuron_errors[i]),
                n_students=int(np.sum(mine & (alignment.angles <= within_angle))),
            )
        )
    return Recovery(within_angle, tuple(rows), alignment.leftover(within_angle), alignment.largest_heavy_angle)
