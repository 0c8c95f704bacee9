"""ZG Claim 1, Lemmas F.3–F.5 and F.12: the optimal measure, and masses of everything that is nearly optimal."""

import numpy as np

from wstar.algorithms.lasso import lasso_path_end
from wstar.kernels.angles import angles
from wstar.networks.student import Student
from wstar.theory.claims.landscape import Scene, local, nearby, scenes
from wstar.theory.claims.verdict import Claim, Effort, Verdict, envelope, worst


def optimum_bounds(claim: Claim, effort: Effort) -> Verdict:
    """All four inequalities at every λ, with every certificate. Broken: the optimum of 10λ stands for that of λ."""
    ratios: list[float] = []
    tightest = np.zeros(4)
    for scene in scenes(effort.quick, effort.seed):
        decays = np.array([o.weight_decay for o in scene.optima]) / (10.0 if effort.broken else 1.0)
        for decay, optimum in zip(decays, scene.optima, strict=True):
            mass, far = float(np.abs(optimum.masses).sum()), _far(scene, optimum.masses, optimum.directions)
            # the loss is what the objective has beside the masses
            loss = optimum.objective - optimum.weight_decay * mass
            for certificate in scene.certificates:
                energy = decay * certificate.p_norm**2
                seen = [
                    (scene.target_mass - mass) / energy,
                    mass / scene.target_mass,
                    loss / (decay * energy),
                    far * certificate.rho / energy,
                ]
                tightest = np.maximum(tightest, seen)
                ratios += seen
    note = (
        f"largest of (i) mass lost {tightest[0]:.2f}, |μ*_λ|₁ ≤ |μ*|₁ {tightest[1]:.3f}, (ii) loss {tightest[2]:.2f}, "
        f"(iii) far mass {tightest[3]:.2g}; with the least ‖p‖ the sharp constants are 1/2 in (i) and 1/4 in (ii)"
    )
    return claim.inequality(ratios, note)


def _far(scene: Scene, masses: np.ndarray, directions: np.ndarray) -> float:
    return float(np.abs(masses) @ angles(directions, scene.teacher.directions).min(axis=1) ** 2)


def far_mass_of_optimum(claim: Claim, effort: Effort) -> Verdict:
    """Far mass against λ. Broken: the best measure on 40 fixed directions."""
    parts = []
    for scene in scenes(effort.quick, effort.seed):
        decays = [o.weight_decay for o in scene.optima]
        if effort.broken:
            rng = np.random.default_rng(effort.seed)
            rows = rng.standard_normal((40, scene.teacher.rank))
            rows = rows @ np.linalg.svd(scene.teacher.weights)[2][: scene.teacher.rank]
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            gram, correlation, _ = scene.risk.mass_problem(scene.teacher.activation, rows)
            far = [_far(scene, lasso_path_end(gram, correlation, decay), rows) for decay in decays]
        else:
            far = [_far(scene, o.masses, o.directions) for o in scene.optima]
        note = "an upper bound: what is seen falls faster, as λ² in the end (every atom of mass O(1) is O(λ) away)"
        axes = ("λ", "far mass of the optimum")
        parts.append(claim.rate(decays, far, 1.0, side="at least", note=note, axes=axes))
    return worst(parts)


def loss_and_mass(claim: Claim, effort: Effort) -> Verdict:
    """Both bounds. Broken: twice the teacher is added and taken off again at each atom, and ζ is not charged for it."""
    losses, masses = [], []
    for near in nearby(effort):
        p_norm = min(c.p_norm for c in near.scene.certificates)
        losses.append(near.loss / (5.0 * (near.weight_decay * p_norm) ** 2 + 4.0 * near.zeta))
        target = near.scene.target_mass
        if near.zeta <= near.weight_decay * target and near.weight_decay <= target / p_norm**2:
            cancelled = 4.0 * target * effort.broken
            masses.append((near.total_mass + cancelled) / (3.0 * target))
    note = f"loss at most {max(losses):.2f} of its bound, mass {max(masses):.2f} of 3|μ*|₁, on {len(losses)} networks"
    return claim.inequality(losses + masses, note)


def far_mass(claim: Claim, effort: Effort) -> Verdict:
    """Every network with every certificate. Broken: an atom of mass 1 at angle 1 that ζ is not charged for."""
    ratios = []
    for near in nearby(effort):
        far = near.alignment.far_mass + (1.0 if effort.broken else 0.0)
        for certificate in near.scene.certificates:
            decay = near.weight_decay
            bound = (near.zeta / decay + 2.0 * decay * certificate.p_norm**2) / certificate.rho
            ratios.append(far / bound)
    note = (
        f"{len(ratios)} pairs of network and certificate. Never near: what a light far atom costs drowns in 2λ‖p‖², "
        "and a heavy one raises the loss"
    )
    return claim.inequality(ratios, note)


def norms_bounded(claim: Claim, effort: Effort) -> Verdict:
    """Balanced networks and such with the largest imbalance that doubles ζ. Broken: one that is not charged."""
    ratios = []
    for near in local(effort, low=0.0):
        target = near.scene.target_mass
        # |a| = e^{−s}√|c|, ‖w‖ = e^{s}√|c| costs λ|μ|₁(cosh 2s − 1)
        stretch = 2.0 if effort.broken else near.zeta / (near.weight_decay * near.total_mass)
        factor = np.exp(0.5 * np.arccosh(1.0 + stretch))
        student = Student(near.student.outputs / factor, near.student.weights * factor)
        ratios.append(float(np.sum(student.outputs**2) + np.sum(student.weights**2)) / (3.0 * target))
    return claim.inequality(ratios, "2‖a*‖₁ in the limit; the third part is room for ζ/λ")


def far_rate(claim: Claim, effort: Effort) -> Verdict:
    """Largest far mass among networks of a given ζ/λ. Broken: mass 1 at angle 1 that ζ is not charged for."""
    networks = local(effort)
    gaps = [near.zeta / near.weight_decay for near in networks]
    far = [near.alignment.far_mass + (1.0 if effort.broken else 0.0) for near in networks]
    note = f"at most {max(np.array(far) / np.array(gaps)):.2g} ζ/λ; largest among networks of like ζ/λ"
    return claim.rate(*envelope(gaps, far), 1.0, side="at least", note=note, axes=("ζ/λ", "far mass"))


CLAIMS = (
    Claim("ZG Claim 1", "ZG", "Σ∫δ² d|μ*_λ| = O(λ)", "rate", far_mass_of_optimum, "landscape"),
    Claim(
        "ZG Lemma F.3",
        "ZG",
        "|μ*|₁ − λ‖p‖² ≤ |μ*_λ|₁ ≤ |μ*|₁; L(μ*_λ) ≤ λ²‖p‖²; Σ∫δ² d|μ*_λ| ≤ λ‖p‖²/ρ_η",
        "inequality",
        optimum_bounds,
        "landscape",
    ),
    Claim(
        "ZG Lemma F.4",
        "ZG",
        "L(μ) ≤ 5λ²‖p‖² + 4ζ; |μ|₁ ≤ 3|μ*|₁ if ζ ≤ λ|μ*|₁ and λ ≤ |μ*|₁/‖p‖²",
        "inequality",
        loss_and_mass,
        "landscape",
    ),
    Claim(
        "ZG Lemma F.5",
        "ZG",
        "Σ|a_j|‖w_j‖δ_j² ≤ (ζ/λ + 2λ‖p‖²)/ρ_η (also Lemma 8 (i))",
        "inequality",
        far_mass,
        "landscape",
    ),
    Claim("ZG Lemma 8 (i)", "ZG", "Σ|a_j|‖w_j‖δ_j² = O(ζ/λ)", "rate", far_rate, "landscape"),
    Claim("ZG Lemma F.12", "ZG", "‖a‖² + ‖W‖² ≤ 3‖a*‖₁ in the local regime", "inequality", norms_bounded, "landscape"),
)
