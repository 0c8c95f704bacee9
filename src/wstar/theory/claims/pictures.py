"""ZG Figures 1–3 as numbers: the curves of each picture, and a verdict on what it is meant to show.

The data of a picture are ``figure`` (its name), ``axes`` and ``curves``, each with name, role, x and y.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from wstar.kernels.angles import angles
from wstar.networks.student import Student
from wstar.networks.teacher import Teacher
from wstar.risks.population import PopulationRisk
from wstar.theory.certificate import dual_certificate
from wstar.theory.claims.instances import fitted
from wstar.theory.claims.verdict import Claim, Effort, Verdict
from wstar.theory.descent_direction import descent_direction
from wstar.theory.spikes import spike

_ANGLES = np.array([0.25, 1.35, 2.45])
_OUTPUTS = np.array([1.0, -0.8, 1.2])
_CLOSE = 0.3


def _on_circle(phi: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n 2"]:
    return np.stack([np.cos(phi), np.sin(phi)], axis=1)


def _curve(name: str, role: str, x: Any, y: Any) -> dict[str, Any]:
    return {"name": name, "role": role, "x": np.round(x, 5).tolist(), "y": np.round(y, 5).tolist()}


def descent_picture(claim: Claim, effort: Effort) -> Verdict:
    """Figure 1: where each neuron is sent. Broken: each group of neurons is sent to the next teacher neuron."""
    teacher, rng, decay = Teacher(_OUTPUTS, _on_circle(_ANGLES)), np.random.default_rng(effort.seed), 0.02
    near = _ANGLES[:, None] + rng.uniform(-0.9 * _CLOSE, 0.9 * _CLOSE, (3, 4))
    far = rng.uniform(0.0, np.pi, 6)
    phi = np.concatenate([near.ravel(), far])
    masses = np.append(np.repeat(_OUTPUTS / 4.0, 4), 0.1 * rng.choice([-1.0, 1.0], 6))
    root = np.sqrt(np.abs(masses))
    student = fitted(Student(np.sign(masses) * root, _on_circle(phi) * root[:, None]))
    direction = descent_direction(student, teacher, decay, close_angle=_CLOSE)
    axes = np.roll(teacher.directions, 1, axis=0) if effort.broken else teacher.directions
    moves = student.weights - direction.q @ axes
    gradient = PopulationRisk(teacher).gradient(student, decay)
    correlation = float(np.sum(gradient.weights * moves))
    # the optimum is at least 0, so that ζ is at most L_λ
    most = PopulationRisk(teacher).value(student, decay)
    length = np.linalg.norm(moves) * np.linalg.norm(gradient.weights)
    curves = [_curve(f"w*{i + 1}", "teacher", [0.0, x], [0.0, y]) for i, (x, y) in enumerate(teacher.directions)]
    targets = student.weights - moves
    moved = np.flatnonzero(direction.q.any(axis=1))
    own = direction.q[moved].argmax(axis=1)
    off = float(angles(targets[moved], teacher.directions)[np.arange(len(moved)), own].max())
    for start, end, helped in zip(student.weights, targets, np.any(direction.q, axis=1), strict=True):
        role = "to its teacher neuron" if helped else "to zero"
        curves.append(_curve(role, role, [start[0], end[0]], [start[1], end[1]]))
    note = (
        f"stepping along it lowers L_λ: its cosine with the gradient is {correlation / length:.2f}; "
        f"{len(moved)} of {student.width} neurons go to their teacher neuron, the others to zero"
    )
    data: dict[str, Any] = {"figure": "descent", "axes": ["w₁", "w₂"], "curves": curves}
    return claim.inequality([off / 1e-7, most / 8.0 / correlation if correlation > 0.0 else np.inf], note, **data)


def certificate_picture(claim: Claim, effort: Effort) -> Verdict:
    """Figure 2: η on a circle under 1 − ρ_η δ². Broken: the certificate of other signs."""
    teacher = Teacher(_OUTPUTS, _on_circle(_ANGLES))
    signs = np.where(np.arange(3) == 0, -1.0, 1.0) if effort.broken else np.ones(3)
    certificate = dual_certificate(Teacher(signs * _OUTPUTS, teacher.weights), 8)
    theta = np.linspace(0.0, np.pi, effort.size(401, 4001))
    rows = _on_circle(theta)
    eta, delta = certificate(rows), angles(rows, teacher.directions).min(axis=1)
    bound = 1.0 - certificate.rho * delta**2
    # a certificate is 1 at the teacher's positive neurons and −1 at its negative ones
    error = np.abs(certificate(teacher.directions) - np.sign(_OUTPUTS)).max()
    shown = np.linspace(0, len(theta) - 1, 201).astype(int)
    curves = [
        _curve("η", "value", theta[shown], eta[shown]),
        _curve("1 − ρδ²", "bound", theta[shown], bound[shown]),
        _curve("−(1 − ρδ²)", "bound", theta[shown], -bound[shown]),
        _curve("teacher neurons", "teacher", _ANGLES, np.sign(_OUTPUTS)),
    ]
    note = f"ℓ = 8, ρ_η = {certificate.rho:.3g}, ‖p‖ = {certificate.p_norm:.3g}"
    data: dict[str, Any] = {"figure": "certificate", "axes": ["angle of w, rad", "η(w)"], "curves": curves}
    return claim.inequality([error / 1e-9, float((np.abs(eta) / bound).max()) / (1.0 + 1e-9)], note, **data)


def spike_picture(claim: Claim, effort: Effort) -> Verdict:
    """Figure 3: E gσ against the angle, beside η of ℓ = 8. Broken: g of order 2."""
    teacher = Teacher(_OUTPUTS, _on_circle(_ANGLES))
    certificate = dual_certificate(teacher, 8)
    delta = np.linspace(0.0, 0.5 * np.pi, effort.size(401, 4001))
    rows = _on_circle(_ANGLES[0] + delta)
    shares = {}
    for order in (2,) if effort.broken else (16, 64):
        g = spike(teacher.directions[0], order, teacher.activation)
        shares[order] = g.correlation(rows) / g.correlation(rows[:1])[0]
    eta = np.abs(certificate(rows))
    # next to w* all are 1, and where η passes through 0 only the lack of a second peak counts
    beyond = delta > 0.1
    ratio = shares[max(shares)][beyond] / np.maximum(eta[beyond], 0.3)
    shown = np.linspace(0, len(delta) - 1, 201).astype(int)
    curves = [_curve(f"g, ℓ = {order}", "value", delta[shown], share[shown]) for order, share in shares.items()]
    curves.append(_curve("|η|, ℓ = 8", "bound", delta[shown], eta[shown]))
    half = {order: float(delta[np.argmax(share < 0.5)]) for order, share in shares.items()}
    widths = ", ".join(f"{h:.2g} rad (ℓ = {o})" for o, h in half.items())
    note = f"g falls to one half within {widths}, and has no other peak"
    data: dict[str, Any] = {
        "figure": "spike",
        "axes": ["angle to w*, rad", "share of the value at w*"],
        "curves": curves,
    }
    return claim.inequality([float(ratio.max())], note, **data)


CLAIMS = (
    Claim("ZG Figure 1", "ZG", "the descent direction sends near neurons to q_ij w*_i and far ones to zero", "picture",
          descent_picture),
    Claim("ZG Figure 2", "ZG", "the dual certificate is ±1 at the teacher neurons and below 1 − ρ_η δ² elsewhere",
          "picture", certificate_picture),
    Claim("ZG Figure 3", "ZG", "the test function is a spike at one teacher neuron, sharper than η", "picture",
          spike_picture),
)  # fmt: skip
