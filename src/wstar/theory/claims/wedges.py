"""ZG Lemma E.5 and Appendix H.4: Gaussian integrals over thin wedges, and the size of the weights q."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from wstar.kernels.activations import ABS
from wstar.kernels.angles import angles
from wstar.networks.student import Student
from wstar.networks.teacher import Teacher
from wstar.theory.claims.instances import DIM, random_teachers, sector_integral
from wstar.theory.claims.verdict import Claim, Effort, Verdict
from wstar.theory.descent_direction import descent_direction

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)
_CLOSE = 0.1


def absolute_sums(claim: Claim, effort: Effort) -> Verdict:
    """Left over right with c₀ = 1, products |α_i·x||α_j·x| by quadrature. Broken: Σ‖α_i‖² instead of (Σ‖α_i‖)²."""
    rng, ratios = np.random.default_rng(effort.seed), []
    for n in (1, 2, 5, 20):
        for _ in range(effort.size(5, 100)):
            # from vectors in all directions to vectors on one line, where the bound is attained
            rows = rng.standard_normal(4) + 10.0 ** rng.uniform(-4.0, 2.0) * rng.standard_normal((n, 4))
            rows *= rng.uniform(0.1, 3.0, (n, 1))
            norms = np.linalg.norm(rows, axis=1)
            left = norms @ sector_integral(ABS, ABS, angles(rows, rows, modulo_sign=False)) @ norms
            ratios.append(left / (np.sum(norms**2) if effort.broken else norms.sum() ** 2))
    return claim.inequality(np.array(ratios) / (1.0 + 1e-12), "c₀ = 1 serves, and no smaller constant")


def two_slabs(claim: Claim, effort: Effort) -> Verdict:
    """The integral over S³ by quadrature over the constant 16/π times the bound. Broken: one slab, no β."""
    rng, ratios = np.random.default_rng(effort.seed), []
    for _ in range(effort.size(300, 5000)):
        phi = 10.0 ** rng.uniform(-3.0, np.log10(np.pi - 1e-3))
        one, two = phi * 10.0 ** rng.uniform(-3.0, 0.0, 2)
        ratios.append(_two_slabs(phi, one, np.inf if effort.broken else two) * np.sin(phi) / (16.0 / np.pi * one * two))
    note = (
        "the constant is 16/π: S³ projects uniformly onto a disc in the plane of α and β, the slabs cut a parallelogram"
    )
    return claim.inequality(np.array(ratios) / (1.0 + 1e-9), note)


def _two_slabs(phi: float, one: float, two: float) -> float:
    """``E ‖x‖² 1{|α·x| ≤ δ₁‖x‖, |β·x| ≤ δ₂‖x‖}``, x ∈ R⁴, in the proof's coordinates; the inner integral is exact."""
    half = np.arcsin(min(one, 1.0))
    theta = 0.5 * np.pi + half * _NODES
    low = (-two - np.cos(theta) * np.cos(phi)) / (np.sin(theta) * np.sin(phi))
    high = (two - np.cos(theta) * np.cos(phi)) / (np.sin(theta) * np.sin(phi))
    inner = np.clip(high, -1.0, 1.0) - np.clip(low, -1.0, 1.0)
    # ∫r⁵e^{−r²/2} dr = 8, the last angle gives 2π, the density 1/(2π)²
    return float(4.0 / np.pi * half * (_WEIGHTS @ (np.sin(theta) ** 2 * inner)))


def wedge_energy(claim: Claim, effort: Effort) -> Verdict:
    """Against φ over four decades. Broken: the wedge has the angle √φ."""
    phi = np.geomspace(1e-4, 1.5, effort.size(15, 60))
    # in R³ the coordinate along the edge adds 1 to E r² = 2
    values = [_wedge(np.sqrt(p) if effort.broken else p, lambda t: 3.0 + 0.0 * t) for p in phi]
    return claim.rate(
        phi, values, 1.0, side="equal", slack=0.02, note=f"value/φ = {values[0] / phi[0]:.4f} (3/π = 0.9549)"
    )


def wedge_mean(claim: Claim, effort: Effort) -> Verdict:
    """Against φ over four decades. Broken: |x·e|, e the edge's normal in the plane other than α, instead of |α·x|."""
    phi = np.geomspace(1e-4, 1.5, effort.size(15, 60))
    shape = np.sin if effort.broken else np.cos
    # E r in the plane
    values = [_wedge(p, lambda t: np.sqrt(0.5 * np.pi) * np.abs(shape(t))) for p in phi]
    note = f"value/φ² = {values[0] / phi[0] ** 2:.4f} (1/√(8π) = 0.1995)"
    return claim.rate(phi, values, 2.0, side="equal", slack=0.05, note=note)


def _wedge(phi: float, weight: Callable[[np.ndarray], np.ndarray]) -> float:
    """``(1/2π) ∫ weight(θ) 1{sign cos θ ≠ sign cos(θ−φ)} dθ``: Gauss–Legendre between the two edges on both sides."""
    total = 0.0
    for edge in (-0.5 * np.pi, 0.5 * np.pi):
        theta = edge + 0.5 * phi * (1.0 + _NODES)
        outside = np.cos(theta) * np.cos(theta - phi) < 0.0
        total += 0.5 * phi * float(_WEIGHTS @ (weight(theta) * outside))
    return total / (2.0 * np.pi)


def target_weights(claim: Claim, effort: Effort) -> Verdict:
    """``Σq² / 4‖a*‖₁`` on students that gather half of every mass. Broken: imbalance far above a_min/2."""
    rng, ratios = np.random.default_rng(effort.seed), []
    for teacher in random_teachers(effort, rng, quick=6, full=200):
        excess = 30.0 if effort.broken else float(rng.choice([0.0, 0.5, 1.0]))
        student = _near(rng, teacher, float(rng.choice([0.5, 0.6, 1.0])), excess)
        q = descent_direction(student, teacher, 0.1, close_angle=_CLOSE).q
        ratios.append(float(np.sum(q**2)) / (4.0 * float(np.abs(teacher.outputs).sum())))
    note = "imbalance summed over all neurons (printed i ∈ [m_*]) is at most a_min/2, near mass at least half"
    return claim.inequality(ratios, note, each=ratios)


def _near(rng: np.random.Generator, teacher: Teacher, share: float, excess: float) -> Student:
    """Three neurons a teacher within 0.1 that gather ``share`` of its mass, and one far away.

    ``excess``·a_min/2 is the imbalance ``Σ|a²−‖w‖²|``, all of it ‖w‖ > |a|, spread evenly.
    """
    parts = rng.dirichlet(np.ones(3), teacher.width) * share
    masses = np.append((parts * teacher.outputs[:, None]).ravel(), 0.1)
    tilts = rng.standard_normal((3 * teacher.width, DIM))
    tilts *= rng.uniform(0.0, 0.9 * _CLOSE, (len(tilts), 1)) / np.linalg.norm(tilts, axis=1, keepdims=True)
    rows = np.concatenate([np.repeat(teacher.weights, 3, axis=0) + tilts, rng.standard_normal((1, DIM))])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    gap = excess * 0.5 * float(np.abs(teacher.outputs).min()) / len(masses)
    return _unbalanced(masses, rows, gap)


def _unbalanced(masses: Float[np.ndarray, " m"], rows: Float[np.ndarray, "m d"], gap: float) -> Student:
    # ‖w‖² − a² = gap and |a|‖w‖ = |mass|
    squared = -0.5 * gap + np.sqrt(0.25 * gap**2 + masses**2)
    outputs = np.sqrt(squared)
    return Student(np.sign(masses) * outputs, rows * np.sqrt(squared + gap)[:, None])


CLAIMS = (
    Claim("ZG Lemma E.5", "ZG", "E(Σ|α_i·x|)² ≤ c₀(Σ‖α_i‖)²", "inequality", absolute_sums),
    Claim(
        "ZG Lemma H.1",
        "ZG",
        "E‖x‖²1{|α·x|≤δ₁‖x‖, |β·x|≤δ₂‖x‖} = O(δ₁δ₂/sin φ) in R⁴, δ₁, δ₂ ≤ φ",
        "inequality",
        two_slabs,
    ),
    Claim("ZG Lemma H.2", "ZG", "E‖x‖²1{sign(α·x) ≠ sign(β·x)} = O(φ) in R³", "rate", wedge_energy),
    Claim("ZG Lemma H.3", "ZG", "E|α·x|1{sign(α·x) ≠ sign(β·x)} = O(φ²)", "rate", wedge_mean),
    Claim("ZG Lemma H.4", "ZG", "Σq_ij² ≤ 4‖a*‖₁ (the constant of the proof)", "inequality", target_weights),
)
