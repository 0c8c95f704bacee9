"""ZG Definition 1, Lemma F.1, Lemma G.3 and Lemma 9 / F.2: certificates exist, and what they say of any measure."""

import numpy as np
from jaxtyping import Float

from wstar.kernels.angles import angles
from wstar.networks.student import Student
from wstar.networks.teacher import Teacher, random_teacher
from wstar.risks.population import PopulationRisk
from wstar.theory.certificate import DualCertificate, dual_certificate, smallest_order
from wstar.theory.claims.instances import DIM, SHAPES, fitted
from wstar.theory.claims.kernel import jets
from wstar.theory.claims.verdict import FAILS, UNDECIDED, Claim, Effort, Verdict, worst

# ρ_η that counts as Θ(1)
_ENOUGH = 0.1


def _teachers(effort: Effort, rng: np.random.Generator) -> list[Teacher]:
    shapes = SHAPES[: effort.size(2, 3)] * effort.size(1, 10)
    return [random_teacher(DIM, rank, width, min_angle, 0.05, seed=rng) for rank, width, min_angle in shapes]


def exists(claim: Claim, effort: Effort) -> Verdict:
    """Definition 1 at fresh directions with the ρ_η found by search. Broken: the certificate of other signs."""
    rng, orders, rhos, ratios = np.random.default_rng(effort.seed), [], [], []
    for teacher in _teachers(effort, rng):
        order = smallest_order(teacher)
        if order is None:
            return claim.verdict(FAILS, 0.0, 0.0, f"no ℓ ≤ 40 gives ρ_η > 0 at separation {teacher.separation:.2f}")
        signs = np.where(np.arange(teacher.width) == 0, -1.0, 1.0) if effort.broken else np.ones(teacher.width)
        certificate = dual_certificate(Teacher(signs * teacher.outputs, teacher.weights), order)
        orders.append(order)
        rhos.append(certificate.rho)
        error = np.abs(certificate(teacher.directions) - np.sign(teacher.outputs)).max()
        rows = rng.standard_normal((effort.size(5000, 100_000), DIM))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        bound = 1.0 - certificate.rho * angles(rows, teacher.directions).min(axis=1) ** 2
        ratios += [error / 1e-9, float((np.abs(certificate(rows)) / bound).max())]
    return claim.inequality(
        ratios, f"smallest ℓ that serves: {sorted(orders)}; ρ_η from {min(rhos):.2g} to {max(rhos):.2g}"
    )


def growth(claim: Claim, effort: Effort) -> Verdict:
    """Three teachers Δ apart on a circle, equal and alternating signs. Broken: the latter, Δ² apart."""
    deltas, needed, norms = np.geomspace(1.0, 0.03, effort.size(5, 12)), [], []
    order, most = {True: 4, False: 4}, effort.size(64, 400)
    for delta in deltas:
        found = []
        for equal in (False,) if effort.broken else (True, False):
            teacher = _three(float(delta**2 if effort.broken else delta), equal)
            certificate = dual_certificate(teacher, order[equal])
            # the ℓ needed grows as Δ falls: go on from the last one
            while certificate.rho < _ENOUGH and order[equal] < most:
                order[equal] = 2 * int(np.ceil(0.7 * order[equal]))
                certificate = dual_certificate(teacher, order[equal])
            if certificate.rho < _ENOUGH:
                return claim.verdict(FAILS, certificate.rho, _ENOUGH, f"ρ_η at Δ = {delta:.2g} with every ℓ ≤ {most}")
            found.append((certificate.min_order, certificate.p_norm))
        needed.append(max(f[0] for f in found))
        norms.append(max(f[1] for f in found))
    note = f"ρ_η ≥ {_ENOUGH} at Δ = {deltas[-1]:.2g} needs ℓ ≤ {needed[-1]}, ‖p‖ = {norms[-1]:.3g}"
    return worst(
        [
            claim.rate(deltas, needed, -2.0, side="at least", note=f"ℓ against Δ; {note}"),
            claim.rate(deltas, norms, -1.5, side="at least", note=f"‖p‖ against Δ; {note}"),
        ]
    )


def _three(delta: float, equal: bool) -> Teacher:
    phi = delta * np.arange(3)
    return Teacher([1.0, 1.0 if equal else -1.0, 1.0], np.stack([np.cos(phi), np.sin(phi)], axis=1))


def local_decay(claim: Claim, effort: Effort) -> Verdict:
    """``((ρ−2τ)/2)δ² / (1−|η|)`` on circles, premises measured. Broken: around a point r beside w*, where ∇η ≠ 0."""
    ratios = []
    for order in (8, 16, 32)[: effort.size(2, 3)]:
        for equal in (True, False):
            teacher = _three(1.0, equal)
            certificate = dual_certificate(teacher, order)
            for i in range(3):
                ratios += _local_ratios(
                    certificate, float(i), float(np.sign(teacher.outputs[i])), order, broken=effort.broken
                )
    if not ratios:
        return claim.verdict(UNDECIDED, np.nan, 1.0, "the premise τ < ρ/2 held nowhere")
    return claim.inequality(ratios, f"{len(ratios)} points where the premises r ≤ B^(-1/2), τ < ρ/2 hold")


def _local_ratios(certificate: DualCertificate, centre: float, sign: float, order: int, *, broken: bool) -> list[float]:
    step, radius = 1e-4, 0.25 / np.sqrt(order)
    delta = np.concatenate([-np.geomspace(1.0, 0.02, 30), np.geomspace(0.02, 1.0, 30)]) * radius

    def eta(at: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return certificate(np.stack([np.cos(centre + at), np.sin(centre + at)], axis=1))

    _, first, second, _ = jets(np.abs(delta), order)
    kernel_bend = second - first / np.tan(np.abs(delta))
    bend = (eta(delta + step) - 2.0 * eta(delta) + eta(delta - step)) / step**2
    rho, largest, tau = -kernel_bend.max(), np.abs(kernel_bend).max(), np.abs(sign * bend - kernel_bend).max()
    if not (tau < 0.5 * rho and radius <= largest**-0.5):
        return []
    room = 1.0 - np.abs(eta(delta - radius * broken))
    return list(0.5 * (rho - 2.0 * tau) * delta**2 / np.maximum(room, 1e-300))


def on_the_teacher(claim: Claim, effort: Effort) -> Verdict:
    """Broken: the certificate of other signs."""
    rng, errors = np.random.default_rng(effort.seed), []
    for teacher in _teachers(effort, rng):
        signs = np.where(np.arange(teacher.width) == 0, -1.0, 1.0) if effort.broken else np.ones(teacher.width)
        certificate = dual_certificate(Teacher(signs * teacher.outputs, teacher.weights), 4)
        total = np.abs(teacher.outputs).sum()
        errors.append(abs(certificate(teacher.directions) @ teacher.outputs - total) / total)
    return claim.identity(max(errors), 1e-10, "relative; rounding of the interpolation system")


def against_far_mass(claim: Claim, effort: Effort) -> Verdict:
    """Random measures and an atom where ρ_η is attained. Broken: ρ_η a tenth larger."""
    rng, ratios = np.random.default_rng(effort.seed), []
    for teacher in _teachers(effort, rng):
        certificate = dual_certificate(teacher, 6)
        if certificate.rho <= 0.0:
            continue
        rho = certificate.rho * (1.1 if effort.broken else 1.0)
        measures = [(np.ones(1), _lifted(certificate.worst, teacher)[None])]
        for _ in range(effort.size(50, 2000)):
            rows = teacher.directions[rng.integers(0, teacher.width, 8)] + 10.0 ** rng.uniform(
                -2, 1
            ) * rng.standard_normal((8, DIM))
            measures.append((rng.standard_normal(8), rows / np.linalg.norm(rows, axis=1, keepdims=True)))
        for masses, rows in measures:
            far = float(np.abs(masses) @ angles(rows, teacher.directions).min(axis=1) ** 2)
            ratios.append((abs(float(masses @ certificate(rows))) + rho * far) / np.abs(masses).sum())
    if not ratios:
        return claim.verdict(UNDECIDED, np.nan, 1.0, "no certificate of order 6 is non-degenerate")
    return claim.inequality(np.array(ratios) / (1.0 + 1e-9), "(|⟨η,μ⟩| + ρ_η Σ|c|δ²)/|μ|₁; attained at one atom")


def _lifted(inside: Float[np.ndarray, " d"], teacher: Teacher) -> Float[np.ndarray, " d"]:
    """A unit vector whose projection on the teacher's span is ``inside``."""
    outside = np.linalg.svd(teacher.weights)[2][-1]
    row = inside + np.sqrt(max(0.0, 1.0 - float(inside @ inside))) * outside
    return np.asarray(row / np.linalg.norm(row))


def against_loss(claim: Claim, effort: Effort) -> Verdict:
    """Random measures and the one that follows p. Broken: ‖p‖ a tenth smaller."""
    rng, ratios = np.random.default_rng(effort.seed), []
    for teacher in _teachers(effort, rng):
        certificate, risk = dual_certificate(teacher, 2), PopulationRisk(teacher)
        p_norm = certificate.p_norm * (0.9 if effort.broken else 1.0)
        # pairs of atoms beside every teacher neuron: their differences carry the derivative terms of p
        tilts = (
            0.03 * rng.standard_normal((4 * teacher.width, DIM)) @ (np.linalg.pinv(teacher.weights) @ teacher.weights)
        )
        near = np.concatenate([teacher.weights, np.repeat(teacher.weights, 4, axis=0) + tilts])
        near /= np.linalg.norm(near, axis=1, keepdims=True)
        gram, *_ = risk.mass_problem(teacher.activation, near)
        along = np.linalg.lstsq(gram, certificate(near), rcond=1e-9)[0]
        draws = [along, *rng.standard_normal((effort.size(30, 500), len(near)))]
        for change in draws:
            masses = 1e-2 * change / np.abs(change).max()
            masses[: teacher.width] += teacher.outputs
            gap = float(masses @ certificate(near)) - float(teacher.outputs @ certificate(teacher.directions))
            ratios.append(abs(gap) / (p_norm * np.sqrt(risk.value(fitted(Student(masses, near))))))
    return claim.inequality(ratios, "|⟨η,μ−μ*⟩| / (‖p‖√L(μ)); nearly attained by the measure along p")


CLAIMS = (
    Claim("ZG Lemma F.1", "ZG", "a non-degenerate dual certificate exists: Definition 1 with ρ_η > 0", "set", exists),
    Claim("ZG Lemma F.1 (size)", "ZG", "ℓ = Õ(Δ⁻²) gives ρ_η = Θ(1), and ‖p‖ = Õ(Δ^{-3/2}m_*)", "rate", growth),
    Claim(
        "ZG Lemma G.3",
        "ZG",
        "|η(w)| ≤ 1 − ((ρ−2τ)/2)δ² within r of w_0 when η bends like the kernel",
        "inequality",
        local_decay,
    ),
    Claim("ZG Lemma F.2 (i)", "ZG", "⟨η,μ*⟩ = |μ*|₁ (also Lemma 9)", "identity", on_the_teacher),
    Claim("ZG Lemma F.2 (ii)", "ZG", "|⟨η,μ⟩| ≤ |μ|₁ − ρ_η Σ∫δ² d|μ| (also Lemma 9)", "inequality", against_far_mass),
    Claim("ZG Lemma F.2 (iii)", "ZG", "|⟨η,μ−μ*⟩| ≤ ‖p‖√L(μ) (also Lemma 9)", "inequality", against_loss),
)
