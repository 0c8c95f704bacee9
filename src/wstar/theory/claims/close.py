"""ZG Lemma F.6 on networks: how far from a teacher neuron half of its mass can stay, at a given gap or loss.

The adversary is the best measure that has nothing within δ of the first of three teachers on a circle: a convex problem
in the masses on a grid that is fine beside the hole, for any activation that is given by its Hermite coefficients.
"""

import numpy as np
from jaxtyping import Float
from sklearn.linear_model import lars_path_gram

from wstar.kernels.activations import RELU, HermiteActivation, HomogeneousActivation
from wstar.theory.claims.spike import power_decay
from wstar.theory.claims.verdict import Claim, Effort, Verdict, worst

_TEACHER = np.array([0.0, 1.0, 2.0])
_OUTPUTS = np.array([1.0, -0.8, 1.2])
_DECAY = 1e-6


def close_angles(claim: Claim, effort: Effort) -> Verdict:
    """δ against the least ζ + λ² for ReLU, against the least loss for other decays. Broken: they decay faster."""
    deltas, parts = np.geomspace(0.02, 0.5, effort.size(8, 16)), []
    for decay in (1.25, 0.9, 1.5):
        seen = decay + 0.3 if effort.broken else decay
        activation = RELU if seen == 1.25 else power_decay(seen, smallest=0.02)
        energies = _energies(activation)
        best = _least(energies, 0.0)
        found = []
        for delta in deltas:
            objective, loss = _least(energies, float(delta))
            found.append(objective - best[0] + _DECAY**2 if activation is RELU else loss)
        exponent = 1.0 / (4.0 * decay - 2.0)
        what = "ζ + λ²" if activation is RELU else "L(μ)"
        note = f"c_σ = {decay}: without mass within δ, {what} ≥ {found[0]:.2g} at δ = {deltas[0]:.2g}"
        axes = (what, "δ_close")
        parts.append(claim.rate(found, deltas, exponent, side="at least", slack=0.03, note=note, axes=axes))
    return worst(parts)


def _energies(activation: HomogeneousActivation | HermiteActivation) -> Float[np.ndarray, " k"] | None:
    """``σ̂_k²`` from order 2 on; None for ReLU, which has a closed form."""
    if isinstance(activation, HomogeneousActivation):
        return None
    energies = np.array(activation.hermite) ** 2
    energies[:2] = 0.0
    return energies


def _least(energies: Float[np.ndarray, " k"] | None, hole: float) -> tuple[float, float]:
    """Least ``L + λ|μ|₁`` and its L over measures on the circle without mass within ``hole`` of the first teacher."""
    steps = hole * np.geomspace(1.0, 12.0, 16) if hole > 0.0 else np.zeros(1)
    phi = np.unique(np.concatenate([steps, -steps, _TEACHER[1:], np.linspace(0.15, np.pi - 0.15, 25)]))
    # angles are modulo sign
    phi = phi[np.abs((phi + 0.5 * np.pi) % np.pi - 0.5 * np.pi) >= hole * (1.0 - 1e-12)]
    gram = _kernel(phi[:, None] - phi[None, :], energies)
    correlation = _kernel(phi[:, None] - _TEACHER[None, :], energies) @ _OUTPUTS
    energy = float(_OUTPUTS @ _kernel(_TEACHER[:, None] - _TEACHER[None, :], energies) @ _OUTPUTS)
    masses = lars_path_gram(correlation, gram, n_samples=1, alpha_min=0.5 * _DECAY, method="lasso", max_iter=2000)[2][
        :, -1
    ]
    loss = float(masses @ gram @ masses - 2.0 * correlation @ masses) + energy
    return loss + _DECAY * float(np.abs(masses).sum()), loss


def _kernel(angle: Float[np.ndarray, "n m"], energies: Float[np.ndarray, " k"] | None) -> Float[np.ndarray, "n m"]:
    rho = np.cos(angle)
    if energies is None:
        s, t = np.abs(np.sin(angle)), np.arcsin(np.clip(rho, -1.0, 1.0))
        return np.asarray((s + rho * t - 1.0) / (2.0 * np.pi))
    distinct, place = np.unique(np.round(rho, 15), return_inverse=True)
    return np.asarray(np.polynomial.polynomial.polyval(distinct, energies)[place].reshape(rho.shape))


CLAIMS = (
    Claim(
        "ZG Lemma F.6",
        "ZG",
        "half of a*_i lies within δ_close = Õ((ζ+λ²)^{1/3}), or L^{1/(4c_σ−2)} at decay c_σ (Lemmas 8 (ii), 10)",
        "rate",
        close_angles,
    ),
)
