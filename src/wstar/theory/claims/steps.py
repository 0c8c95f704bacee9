"""ZG Lemmas E.2 and E.3: what one step of gradient descent does."""

import numpy as np

from wstar.networks.student import Student
from wstar.risks.population import PopulationRisk
from wstar.theory.claims.instances import random_student, random_teachers
from wstar.theory.claims.verdict import Claim, Effort, Verdict, worst

_DECAY = 0.1


def gradient_norm(gradient: Student) -> float:
    """``‖∇_θ L‖`` over all parameters."""
    parts = (gradient.outputs, gradient.weights, np.array(gradient.bias), gradient.linear)
    return float(np.sqrt(sum(np.sum(part**2) for part in parts)))


def kept_order(claim: Claim, effort: Effort) -> Verdict:
    """Largest |a_i|/‖w_i‖ along gradient descent. Broken: η = 3, far beyond O(1)/‖E Rσ'x‖²."""
    rng, ratios, steepest = np.random.default_rng(effort.seed), [], 0.0
    learning_rate = 3.0 if effort.broken else 0.01
    for teacher in random_teachers(effort, rng, quick=1, full=3):
        start, risk = random_student(rng), PopulationRisk(teacher)
        # half of the neurons start balanced, where the statement has no slack, the others with |a_i| below ‖w_i‖
        share = np.where(np.arange(start.width) % 2 == 0, 1.0, rng.uniform(0.0, 1.0, start.width))
        student = Student(np.sign(start.outputs) * share * start.norms, start.weights, start.bias, start.linear)
        for _ in range(effort.size(4 if effort.broken else 150, 2000)):
            gradient = risk.gradient(student, _DECAY)
            pull = np.linalg.norm(risk.gradient(student).weights, axis=1) / np.abs(student.outputs)
            steepest = max(steepest, float(pull.max()))
            student = _moved(student, gradient, learning_rate)
            ratios.append(float((np.abs(student.outputs) / student.norms).max()))
    note = (
        f'{len(ratios)} steps, η‖2E Rσ\'x‖ ≤ {learning_rate * steepest:.2g}; the proof needs 1, so "η = O(1)" hides ‖R‖'
    )
    return claim.inequality(np.array(ratios) / (1.0 + 1e-10), note)


def _moved(student: Student, gradient: Student, rate: float) -> Student:
    return Student(
        student.outputs - rate * gradient.outputs,
        student.weights - rate * gradient.weights,
        student.bias - rate * gradient.bias,
        student.linear - rate * gradient.linear,
    )


def descent_remainder(claim: Claim, effort: Effort) -> Verdict:
    """``L_λ(θ−η∇) − L_λ(θ) + η‖∇‖²`` against η. Broken: ‖∇‖ leaves out α and β."""
    rng, rates, parts = np.random.default_rng(effort.seed), np.geomspace(1e-4, 1e-1, 10), []
    for teacher in random_teachers(effort, rng, quick=1, full=3):
        risk, raw = PopulationRisk(teacher), random_student(rng, 0.3)
        student = Student(0.3 * raw.outputs, 0.5 * raw.weights, raw.bias, raw.linear)
        g, here = risk.gradient(student, 0.5), risk.value(student, 0.5)
        squared = gradient_norm(g) ** 2 - (g.bias**2 + float(g.linear @ g.linear)) * effort.broken
        moved = [_moved(student, g, float(r)) for r in rates]
        remainder = [abs(risk.value(n, 0.5) - here + r * squared) for n, r in zip(moved, rates, strict=True)]
        parts.append(
            claim.rate(rates, remainder, 1.5, side="at least", note="the remainder that is seen is quadratic in η")
        )
    return worst(parts)


CLAIMS = (
    Claim("ZG Lemma E.2", "ZG", "L_λ(θ−η∇L_λ) ≤ L_λ − η‖∇L_λ‖² + O(η^{3/2}d^{3/2})", "rate", descent_remainder),
    Claim("ZG Lemma E.3", "ZG", "gradient descent keeps |a_i| ≤ ‖w_i‖", "set", kept_order),
)
