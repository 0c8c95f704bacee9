"""The residual in three parts (ZG eq. 8): every inner product in closed form, the large terms cancelled by hand.

Flip every student neuron so that ``u_j·w*_i ≥ 0`` for its teacher neuron i. With e the even factor of the activation,
``φ_j = ∠(u_j, w*_i)`` and ``v_i = Σ_{j∈T_i} c_j u_j``:

* ``R₁ = e Σ_i (v_i − a*_i w*_i)·x sign(w*_i·x)``
* ``R₂ = e Σ_j c_j u_j·x (sign(u_j·x) − sign(w*_i·x))``
* ``R₃ = r0 + r1·x`` with the misfit of bias and linear part and of the total mass.

``E x xᵀ sign(p·x) sign(q·x) = (2/π)[asin ρ I + (pqᵀ + qpᵀ − ρ(ppᵀ + qqᵀ))/√(1−ρ²)]`` gives all of them. Between two
neurons of one teacher w, with ``A = ∠(u, v)`` and ``δ = ∠(u, w) + ∠(v, w) − A ≥ 0``, the four O(1) terms collapse to
``(2/π)[sin A (1 − cos δ) + cos A (δ − sin δ)]``, which is right to rounding however small the wedges are.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from wstar.kernels.angles import angles
from wstar.networks.network import TwoLayer
from wstar.networks.teacher import Teacher
from wstar.theory.alignment import align

_TWO_OVER_PI = 2.0 / np.pi
# below this wedge the leading term of two crossing wedges (relative error O(φ)) beats the exact sum of O(1) terms
_THIN = 1e-3


@dataclass(frozen=True)
class ResidualDecomposition:
    """``gram[a, b] = E R_{a+1} R_{b+1}`` for the three parts, and what they add up to.

    Attributes:
        gram: (3, 3) inner products of R₁, R₂, R₃.
        average_neuron_gaps: (m_*, d) ``v_i − a*_i w*_i``.
        wedges: (m,) angles φ_j of the living neurons to their teacher neurons.
    """

    gram: Float[np.ndarray, "3 3"]
    average_neuron_gaps: Float[np.ndarray, "k d"]
    wedges: Float[np.ndarray, " m"]

    @property
    def norms(self) -> Float[np.ndarray, "3"]:
        """``‖R₁‖, ‖R₂‖, ‖R₃‖``."""
        return np.sqrt(np.maximum(np.diag(self.gram), 0.0))

    @property
    def loss(self) -> float:
        """``L = Σ E R_a R_b``: right to about 1e-3 relative where the plain sum is rounding noise (below 1e-15)."""
        return max(float(self.gram.sum()), 0.0)


def residual_decomposition(student: TwoLayer, teacher: Teacher) -> ResidualDecomposition:
    """Split the residual of ``student`` on the preprocessed labels of ``teacher`` (ZG eq. 8, Lemmas F.7–F.9).

    Corrected against the print: the average neuron of teacher i is compared with ``a*_i w*_i``, not ``w*_i``.

    Raises:
        ValueError: different input dimensions.
    """
    even, odd = student.activation.even, student.activation.odd
    alignment = align(student, teacher)
    target = teacher.atoms(student.activation)
    living = np.flatnonzero((alignment.nearest >= 0) & (student.masses != 0.0))
    owner, masses = alignment.nearest[living], student.masses[living]
    directions = _flipped(student.directions[living], target.directions[owner])
    gaps = _gaps(masses, directions, owner, target.masses, target.directions)
    wedges = alignment.angles[living]
    one_one = _gaps_with_gaps(gaps, target.directions)
    one_two = _gaps_with_wedges(gaps, target.directions, masses, directions, owner, wedges)
    two_two = masses @ _wedges_with_wedges(directions, owner, wedges, target.directions) @ masses
    # means of the parts, for the inner products with the constant of R₃
    mean = np.sqrt(_TWO_OVER_PI) * even
    mean_one = mean * float(np.einsum("ij,ij->", gaps, target.directions))
    mean_two = mean * float(masses @ (2.0 * np.sin(0.5 * wedges) ** 2))
    bias = student.bias + mean * float(student.masses.sum())
    linear = student.linear + odd * (student.masses @ student.directions)
    constant = bias - mean_one - mean_two
    gram = np.array(
        [
            [even**2 * one_one, even**2 * one_two, mean_one * constant],
            [even**2 * one_two, even**2 * two_two, mean_two * constant],
            [mean_one * constant, mean_two * constant, constant**2 + float(linear @ linear)],
        ]
    )
    return ResidualDecomposition(gram, gaps, wedges)


def sign_moment(p: Float[np.ndarray, " d"], q: Float[np.ndarray, " d"]) -> Float[np.ndarray, "d d"]:
    """``E x xᵀ sign(p·x) sign(q·x)`` for unit vectors p, q; the identity (times the sign) where they are parallel."""
    rho = float(np.clip(p @ q, -1.0, 1.0))
    sine = np.sqrt((1.0 - rho) * (1.0 + rho))
    if sine < 1e-12:
        return np.sign(rho) * np.eye(len(p))
    outer = np.outer(p, q)
    bent = outer + outer.T - rho * (np.outer(p, p) + np.outer(q, q))
    return _TWO_OVER_PI * (np.arcsin(rho) * np.eye(len(p)) + bent / sine)


def _flipped(directions: np.ndarray, owners: np.ndarray) -> np.ndarray:
    signs = np.where(np.einsum("ij,ij->i", directions, owners) < 0.0, -1.0, 1.0)
    return signs[:, None] * directions


def _gaps(
    masses: np.ndarray, directions: np.ndarray, owner: np.ndarray, target: np.ndarray, axes: np.ndarray
) -> Float[np.ndarray, "k d"]:
    """``v_i − a*_i w*_i`` as tangential differences plus a scalar misfit: no O(1) vectors are subtracted."""
    gaps = np.zeros_like(axes)
    np.add.at(gaps, owner, masses[:, None] * (directions - axes[owner]))
    gathered = np.bincount(owner, weights=masses, minlength=len(target)).astype(float)
    return gaps + (gathered - target)[:, None] * axes


def _gaps_with_gaps(gaps: np.ndarray, axes: np.ndarray) -> float:
    total = 0.0
    for i in range(len(axes)):
        for k in range(len(axes)):
            total += float(gaps[i] @ sign_moment(axes[i], axes[k]) @ gaps[k])
    return total


def _gaps_with_wedges(
    gaps: np.ndarray,
    axes: np.ndarray,
    masses: np.ndarray,
    directions: np.ndarray,
    owner: np.ndarray,
    wedges: np.ndarray,
) -> float:
    """``Σ_i Σ_j c_j ĝ_iᵀ[M(w_i, u_j) − M(w_i, w_k)]u_j``, k the teacher of j.

    For i = k it is ``(2/π)[(sin φ − φ) u·ĝ + sin φ (w − u)·ĝ]``.
    """
    total = 0.0
    for c, u, k, phi in zip(masses, directions, owner, wedges, strict=True):
        for i, (w, gap) in enumerate(zip(axes, gaps, strict=True)):
            if i == k:
                total += c * _TWO_OVER_PI * float(_sine_excess(phi) * (u @ gap) + np.sin(phi) * ((w - u) @ gap))
            else:
                total += c * float(gap @ (sign_moment(w, u) - sign_moment(w, axes[k])) @ u)
    return total


def _sine_excess(phi: float) -> float:
    """``sin φ − φ`` without cancellation."""
    return -(phi**3) / 6.0 * (1.0 - phi**2 / 20.0 * (1.0 - phi**2 / 42.0)) if phi < 0.1 else np.sin(phi) - phi


def _wedges_with_wedges(
    directions: np.ndarray, owner: np.ndarray, wedges: np.ndarray, axes: np.ndarray
) -> Float[np.ndarray, "m m"]:
    """``E u·x v·x (sign(u·x) − sign(w·x)) (sign(v·x) − sign(z·x))`` for all pairs, w and z their teachers."""
    if not len(directions):
        return np.zeros((0, 0))
    between = angles(directions, directions, modulo_sign=False)
    excess = np.maximum(wedges[:, None] + wedges[None, :] - between, 0.0)
    cubic = np.where(excess < 0.1, excess**3 / 6.0 * (1.0 - excess**2 / 20.0), excess - np.sin(excess))
    pairs = _TWO_OVER_PI * (np.sin(between) * 2.0 * np.sin(0.5 * excess) ** 2 + np.cos(between) * cubic)
    for i, j in zip(*np.nonzero(owner[:, None] != owner[None, :]), strict=True):
        pairs[i, j] = _crossing(directions[i], axes[owner[i]], directions[j], axes[owner[j]], wedges[i], wedges[j])
    return pairs


def _crossing(u: np.ndarray, w: np.ndarray, v: np.ndarray, z: np.ndarray, phi: float, psi: float) -> float:
    """Two wedges around different teacher neurons: exact, or its leading term φ²ψ²·(…) where both are thin."""
    rho = float(w @ z)
    sine = np.sqrt(1.0 - rho**2)
    if max(phi, psi) < _THIN * sine:
        tau, upsilon = _tangent(u, w) * phi, _tangent(v, z) * psi
        # what is left of both tangents on the intersection of the hyperplanes w·x = z·x = 0
        plane = np.stack([w, (z - rho * w) / sine])
        tau, upsilon = tau - (plane @ tau) @ plane, upsilon - (plane @ upsilon) @ plane
        inner = (tau @ tau) * (upsilon @ upsilon) + 2.0 * (tau @ upsilon) ** 2
        return float(inner / (2.0 * np.pi * sine))
    moment = sign_moment(u, v) - sign_moment(u, z) - sign_moment(w, v) + sign_moment(w, z)
    return float(u @ moment @ v)


def _tangent(u: np.ndarray, w: np.ndarray) -> np.ndarray:
    along = (u - w) - ((u - w) @ w) * w
    norm = np.linalg.norm(along)
    return along / norm if norm > 0.0 else along
