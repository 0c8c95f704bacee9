"""ZG's exact statements about one network: balance, gradients of the affine part, flips, the residual in parts."""

import numpy as np
from jaxtyping import Float

from wstar.networks.student import Student
from wstar.networks.teacher import Teacher
from wstar.risks.population import PopulationRisk
from wstar.theory.alignment import align
from wstar.theory.claims.instances import (
    affine_optimum,
    direct_loss,
    first_moments,
    fitted,
    random_student,
    random_teachers,
)
from wstar.theory.claims.steps import gradient_norm
from wstar.theory.claims.verdict import Claim, Effort, Verdict, printed_or_corrected, worst
from wstar.theory.descent_direction import flip_towards

_DECAY = 0.1


def balancing(claim: Claim, effort: Effort) -> Verdict:
    """Losses by quadrature. Broken: the balanced network takes √|a_i| instead of √(|a_i|‖w_i‖)."""
    rng, errors = np.random.default_rng(effort.seed), []
    for teacher in random_teachers(effort, rng):
        student = random_student(rng)
        bias, linear = affine_optimum(student)
        root = np.sqrt(np.abs(student.outputs if effort.broken else student.masses))
        balanced = fitted(Student(np.sign(student.outputs) * root, student.directions * root[:, None]))
        gain = _decayed_loss(student, teacher) - _decayed_loss(balanced, teacher)
        misfit = (student.bias - bias) ** 2 + float(np.sum((student.linear - linear) ** 2))
        claimed = misfit + 0.5 * _DECAY * float(np.sum((np.abs(student.outputs) - student.norms) ** 2))
        errors.append(abs(gain - claimed) / abs(gain))
    return claim.identity(max(errors), 1e-10, f"{len(errors)} pairs of teacher and student; relative, rounding")


def _decayed_loss(student: Student, teacher: Teacher) -> float:
    return direct_loss(student, teacher) + 0.5 * _DECAY * float(np.sum(student.outputs**2) + np.sum(student.weights**2))


def affine_gradients(claim: Claim, effort: Effort) -> Verdict:
    """Slopes of the quadrature loss, a quadratic in (α, β). Broken: β̂ is taken as zero."""
    rng, errors = np.random.default_rng(effort.seed), []
    for teacher in random_teachers(effort, rng):
        student = random_student(rng)
        bias, linear = affine_optimum(student)
        linear = linear * (not effort.broken)
        slopes = [_slope(student, teacher, k) for k in range(student.dim + 1)]
        claimed = [4.0 * (student.bias - bias) ** 2, 4.0 * float(np.sum((student.linear - linear) ** 2))]
        seen = [slopes[0] ** 2, float(np.sum(np.square(slopes[1:])))]
        errors += [abs(s - c) / c for s, c in zip(seen, claimed, strict=True)]
    return claim.identity(max(errors), 1e-9, f"{len(errors) // 2} pairs of teacher and student; relative, rounding")


def _slope(student: Student, teacher: Teacher, k: int) -> float:
    """Central difference of the loss in α (k = 0) or β_k: exact for a quadratic, whatever the step."""
    shift = np.eye(student.dim + 1)[k]
    ends = [
        Student(student.outputs, student.weights, student.bias + s * float(shift[0]), student.linear + s * shift[1:])
        for s in (-1.0, 1.0)
    ]
    return 0.5 * (direct_loss(ends[1], teacher) - direct_loss(ends[0], teacher))


def flipping(claim: Claim, effort: Effort) -> Verdict:
    """Values at random points, and gradient norms for τ over 14 decades. Broken: β lacks the flipped a_i w_i."""
    rng, errors, ratios = np.random.default_rng(effort.seed), [], []
    for teacher in random_teachers(effort, rng):
        base, risk = random_student(rng), PopulationRisk(teacher)
        for size in np.geomspace(1e-7, 1.0, 8):
            student = fitted(base, size * rng.uniform(-1.0, 1.0), size)
            flipped = flip_towards(student, teacher)
            if effort.broken:
                flipped = Student(flipped.outputs, flipped.weights, student.bias, student.linear)
            X = rng.standard_normal((50, student.dim))
            errors.append(np.abs(student(X) - flipped(X)).max() / np.abs(student(X)).max())
            change = abs(gradient_norm(risk.gradient(student, _DECAY)) - gradient_norm(risk.gradient(flipped, _DECAY)))
            # the proof's two differences, 2(β−β̂)·w_i and 2a_i(β−β̂), with its hidden constant written out
            norm = np.sqrt(np.sum(student.outputs**2) + np.sum(student.weights**2))
            ratios.append(change / (2.0 * size * norm + 1e-12))
    note = "‖∇‖ changes by at most 2√τ·√(‖a‖²+‖W‖²), τ = ‖β−β̂‖² from 1e-14 to 1"
    return worst([claim.identity(max(errors), 1e-12, "f is unchanged"), claim.inequality(ratios, note)])


def norm_balance(claim: Claim, effort: Effort) -> Verdict:
    """Both sides, summed over the first m_* neurons as printed and over all. Broken: the gradient is that of 2λ."""
    rng, errors, printed, bounds = np.random.default_rng(effort.seed), [], [], []
    for teacher in random_teachers(effort, rng):
        student = random_student(rng)
        gradient = PopulationRisk(teacher).gradient(student, 2.0 * _DECAY if effort.broken else _DECAY)
        inner = np.sum(gradient.weights * student.weights, axis=1) - gradient.outputs * student.outputs
        left, terms = float(np.abs(inner).sum()), _DECAY * np.abs(student.outputs**2 - student.norms**2)
        errors.append(abs(left - terms.sum()) / left)
        printed.append(abs(left - terms[: teacher.width].sum()) / left)
        totals = abs(np.sum(student.outputs**2) - np.sum(student.weights**2))
        bounds.append(
            _DECAY * max(totals, np.sum((np.abs(student.outputs) - student.norms) ** 2)) / left / (1.0 + 1e-11)
        )
    corrected = [
        claim.identity(max(errors), 1e-11, "the sum on the right is over all m neurons"),
        claim.inequality(bounds, "the sum on the right is over all m neurons; its lower bound"),
    ]
    return printed_or_corrected(claim.identity(max(printed), 1e-11, "sum over i ∈ [m_*]"), worst(corrected))


def residual_parts(claim: Claim, effort: Effort) -> Verdict:
    """R₁+R₂+R₃ against f − f̃_* at random points, with w*_i and with a*_i w*_i. Broken: v_i lacks a neuron."""
    rng, errors = np.random.default_rng(effort.seed), np.zeros((0, 2))
    for teacher in random_teachers(effort, rng):
        student = flip_towards(random_student(rng), teacher)
        X = rng.standard_normal((200, student.dim))
        mean, slope = first_moments(teacher.activation)
        labels = teacher(X) - mean * teacher.outputs.sum() - slope * X @ (teacher.outputs @ teacher.weights)
        residual = student(X) - labels
        parts = [_parts(student, teacher, a, X, skip=effort.broken) for a in (np.ones(teacher.width), teacher.outputs)]
        errors = np.vstack([errors, np.abs(np.array(parts) - residual).max(axis=1) / np.abs(residual).max()])
    printed, corrected = errors.max(axis=0)
    return printed_or_corrected(
        claim.identity(printed, 1e-12, "average neuron − w*_i"),
        claim.identity(corrected, 1e-12, "the average neuron is compared with a*_i w*_i, ‖w*_i‖ = 1"),
    )


def _parts(
    student: Student, teacher: Teacher, masses: Float[np.ndarray, " k"], X: Float[np.ndarray, "n d"], *, skip: bool
) -> Float[np.ndarray, " n"]:
    """``R₁+R₂+R₃`` of ZG eq. 8 at the rows of X, teacher i entering R₁ with ``masses[i]``."""
    owner = align(student, teacher).nearest
    signs = np.sign(X @ teacher.weights.T)
    pull = student.outputs[:, None] * student.weights
    gaps = -masses[:, None] * teacher.weights
    kept = slice(1, None) if skip else slice(None)
    np.add.at(gaps, owner[kept], pull[kept])
    one = 0.5 * np.sum((X @ gaps.T) * signs, axis=1)
    two = 0.5 * np.sum((X @ pull.T) * (np.sign(X @ student.weights.T) - signs[:, owner]), axis=1)
    bias, linear = affine_optimum(student)
    three = (teacher.outputs.sum() - student.masses.sum()) / np.sqrt(2.0 * np.pi)
    return np.asarray(one + two + three + student.bias - bias + X @ (student.linear - linear))


CLAIMS = (
    Claim("ZG eq. 8", "ZG", "f − f̃_* = R₁ + R₂ + R₃ with average neurons v_i − w*_i in R₁", "identity", residual_parts),
    Claim("ZG Lemma F.11", "ZG", "L_λ(θ) − L_λ(θ_bal) = |α−α̂|² + ‖β−β̂‖² + (λ/2)Σ(|a_i|−‖w_i‖)²", "identity", balancing),
    Claim("ZG Lemma F.13", "ZG", "|∂_α L_λ|² = 4(α−α̂)², ‖∂_β L_λ‖² = 4‖β−β̂‖²", "identity", affine_gradients),
    Claim("ZG Lemma F.14", "ZG", "flipping neurons keeps f, and ‖∇L_λ‖ within O(√τ)", "inequality", flipping),
    Claim(
        "ZG Lemma F.15",
        "ZG",
        "Σ_j|⟨∂_{w_j},w_j⟩ − ⟨∂_{a_j},a_j⟩| = λΣ_{i∈[m_*]}|a_i²−‖w_i‖²| ≥ λ max{|‖a‖²−‖W‖²|, Σ(|a_i|−‖w_i‖)²}",
        "identity",
        norm_balance,
    ),
)
