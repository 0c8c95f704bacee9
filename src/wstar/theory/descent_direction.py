"""The direction along which a network near the teacher can always be improved (ZG Lemmas F.13–F.17)."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from wstar.networks.student import Student
from wstar.networks.teacher import Teacher
from wstar.risks.base import check_weight_decay
from wstar.risks.population import PopulationRisk
from wstar.theory.alignment import Alignment, align


@dataclass(frozen=True)
class DescentDirection:
    """ZG's direction, its correlation with the gradient, and how far each of the lemma's conditions is from failing.

    Attributes:
        outputs, weights, bias, linear: the direction to step *against* (``θ − step·direction`` descends).
        q: (m, m_*) the targets ``q_ij``; neuron j moves towards ``q_ij w*_i``.
        correlation: ``(α+α_*)∂_α + ⟨∂_β, β+β_*⟩ + Σ⟨∂_{w_j}L_λ, w_j − q_ij w*_i⟩``; Lemma F.17: at least ζ/8.
        balance: ``(|‖W‖² − ‖a‖²|, Σ(|a_j| − ‖w_j‖)²)``, condition 1.
        cancelling_mass: mass of the wrong sign within δ_sign of each teacher neuron, condition 2.
        affine_misfit: ``(|α − α̂|², ‖β − β̂‖²)``, condition 3.
        served: every teacher neuron has a neuron of its sign within δ_close, without which q does not exist.
    """

    weights: Float[np.ndarray, "m d"]
    bias: float
    linear: Float[np.ndarray, " d"]
    q: Float[np.ndarray, "m k"]
    correlation: float
    balance: tuple[float, float]
    cancelling_mass: Float[np.ndarray, " k"]
    affine_misfit: tuple[float, float]
    served: bool


def flip_towards(student: Student, teacher: Teacher) -> Student:
    """The same function with every ``w_j·w*_i ≥ 0`` (ZG Assumption F.1, Lemma F.14).

    ``ReLU(z) = ReLU(−z) + z``: a flipped neuron hands ``a_j w_j`` (times the slope difference) to the linear part.
    """
    alignment = align(student, teacher)
    inner = np.einsum("ij,ij->i", student.weights, teacher.directions[alignment.nearest])
    flipped = (alignment.nearest >= 0) & (inner < 0.0)
    weights = np.where(flipped[:, None], -student.weights, student.weights)
    moved = 2.0 * student.activation.odd * (student.outputs[flipped] @ student.weights[flipped])
    return Student(student.outputs, weights, student.bias, student.linear + moved, student.activation)


def descent_direction(
    student: Student,
    teacher: Teacher,
    weight_decay: float,
    close_angle: float | None = None,
    sign_angle: float | None = None,
) -> DescentDirection:
    """ZG's descent direction at ``student`` for the population risk of ``teacher`` at λ = ``weight_decay``.

    The student is first flipped towards the teacher. ``q_ij = a_j a*_i / Σ_{T_i,+(δ_close)} a_j²`` on the neurons of
    sign a*_i within ``close_angle`` of w*_i, else 0. By default ``close_angle`` is the smallest angle that gathers
    half of every teacher mass (ZG Lemma F.6), and ``sign_angle`` twice that. The bias and linear part of the
    preprocessed labels are zero, so their term is ``(α − α̂)·∂_α + ⟨∂_β, β − β̂⟩``, Lemma F.13's.

    Raises:
        ValueError: other dimension, λ not positive, or angles outside (0, π/2].
    """
    check_weight_decay(weight_decay)
    if weight_decay == 0.0:
        raise ValueError("weight_decay=0: the direction is defined for a positive weight decay")
    for name, angle in (("close_angle", close_angle), ("sign_angle", sign_angle)):
        if angle is not None and not 0.0 < angle <= 0.5 * np.pi:
            raise ValueError(f"{name}={angle} must lie in (0, π/2]")
    student = flip_towards(student, teacher)
    alignment, target = align(student, teacher), teacher.atoms(student.activation)
    close = _close_angle(alignment, target.masses) if close_angle is None else close_angle
    far = min(2.0 * close, 0.5 * np.pi) if sign_angle is None else sign_angle
    own = np.zeros((student.width, teacher.width))
    living = alignment.nearest >= 0
    own[living, alignment.nearest[living]] = 1.0
    agree = np.sign(student.outputs)[:, None] == np.sign(target.masses)[None, :]
    within = own * (np.nan_to_num(alignment.angles, nan=np.inf)[:, None] <= close)
    wide = own * (np.nan_to_num(alignment.angles, nan=np.inf)[:, None] <= far)
    helpful = within * agree
    energy = (student.outputs**2) @ helpful
    q = helpful * student.outputs[:, None] * (target.masses / np.where(energy > 0.0, energy, 1.0))[None, :]
    risk = PopulationRisk(teacher)
    gradient = risk.gradient(student, weight_decay)
    weights = student.weights - q @ target.directions
    # half of ∂_α and ∂_β: how far bias and linear part are from their optimum (ZG Lemma F.13)
    bias, linear = 0.5 * gradient.bias, 0.5 * np.asarray(gradient.linear)
    return DescentDirection(
        weights=weights,
        bias=bias,
        linear=linear,
        q=q,
        correlation=float(gradient.bias * bias + gradient.linear @ linear + np.sum(gradient.weights * weights)),
        balance=(
            float(abs(np.sum(student.weights**2) - np.sum(student.outputs**2))),
            float(np.sum((np.abs(student.outputs) - student.norms) ** 2)),
        ),
        cancelling_mass=np.abs(student.masses) @ (wide * ~agree),
        affine_misfit=(bias**2, float(linear @ linear)),
        served=bool((energy > 0.0).all()),
    )


def _close_angle(alignment: Alignment, targets: Float[np.ndarray, " k"]) -> float:
    """Smallest angle within which every teacher neuron has half of its mass; π/2 when none does."""
    candidates = np.unique(alignment.angles[alignment.nearest >= 0])
    for angle in candidates:
        if (alignment.gathered(angle) * np.sign(targets) >= 0.5 * np.abs(targets)).all():
            return float(max(angle, 1e-12))
    return 0.5 * np.pi
