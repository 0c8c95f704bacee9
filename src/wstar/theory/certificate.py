"""Non-degenerate dual certificates (ZG Definition 1, App. G): functions on the sphere that single out the teacher."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy.polynomial.polynomial import polyder, polyval
from scipy.optimize import minimize

from wstar.kernels.activations import HermiteActivation, HomogeneousActivation
from wstar.kernels.angles import angles
from wstar.kernels.tails import tail_energy, tail_kernel
from wstar.networks.span import span_basis
from wstar.networks.teacher import Teacher

# the interpolation system has exact null directions (tangents have no radial part); beyond them it must be this regular
_MAX_CONDITION = 1e12
_CLOSED_FORM = 64
_NEAR = 1e-3


@dataclass(frozen=True)
class DualCertificate:
    """``η(w) = Σ_j α_{1,j} K(w*_j·w) + Σ_j α_{2,j}·(P_j w) K'(w*_j·w)`` with ``η(w*_i) = sign a*_i``.

    Its tangential gradient vanishes there: ``P_i∇η(w*_i) = 0``.
    K is the normalised tail ``K_{≥ℓ}/Z²``. Call it on unit rows (n, d).

    Attributes:
        tail: the kernel; :attr:`min_order` is its ℓ.
        rho: ``ρ_η = inf (1 − |η(w)|)/∠(w, teacher)²`` over the sphere; not degenerate when positive.
        p_norm: ``‖p‖`` of the function p with ``η(w) = E p(x) σ(w·x)``.
        condition: condition number of the interpolation system on its range.
        worst: the direction at which ``rho`` is attained.
    """

    tail: "NormalisedTail"
    axes: Float[np.ndarray, "k d"]
    values: Float[np.ndarray, " k"]
    tangents: Float[np.ndarray, "k d"]
    rho: float
    p_norm: float
    condition: float
    worst: Float[np.ndarray, " d"]

    @property
    def min_order(self) -> int:
        """ℓ."""
        return self.tail.order

    def __call__(self, directions: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """``η`` at unit rows."""
        return _evaluate(directions, self.axes, self.values, self.tangents, self.tail)


def dual_certificate(
    teacher: Teacher, min_order: int = 2, activation: HomogeneousActivation | HermiteActivation | None = None
) -> DualCertificate:
    """Solve ZG's interpolation system (Appendix G, eq. 10) for the tail of order ``min_order`` and measure ρ_η.

    ``rho`` comes from a search over the ball of the teacher's span (a direction outside the span sees its projection),
    so it is an upper bound of the infimum that many starts and local descent agree on.

    Args:
        teacher: its directions and signs are interpolated.
        min_order: ℓ ≥ 2; even for even kernels, whose odd orders vanish.
        activation: the teacher's own by default; any given by Hermite coefficients.

    Raises:
        ValueError: ``min_order`` below 2, odd, or beyond the activation's coefficients; parallel teacher neurons (no
            certificate exists: ρ_η = 0); a separation so small that the system is singular to rounding (with its
            condition number).
    """
    activation = teacher.activation if activation is None else activation
    if min_order < 2 or min_order % 2:
        raise ValueError(f"min_order={min_order} must be even and at least 2: odd orders of the even kernel vanish")
    if teacher.separation < 1e-7:
        raise ValueError("two teacher neurons are parallel: no certificate exists (ρ_η = 0); merge them")
    basis = span_basis(teacher.directions)
    axes = teacher.directions @ basis.T
    tail = NormalisedTail(activation, min_order)
    if not tail.energy > 0.0:
        raise ValueError(f"min_order={min_order}: the activation has no component of that order or above")
    system = _interpolation_matrix(axes, tail)
    rhs = np.concatenate([np.sign(teacher.outputs), np.zeros(axes.size)])
    spectrum, vectors = np.linalg.eigh(system)
    # tangents along w*_j itself do nothing: one null direction per teacher neuron
    used = np.argsort(-np.abs(spectrum))[: len(spectrum) - len(axes)]
    condition = (
        float(np.abs(spectrum[used]).max() / np.abs(spectrum[used]).min()) if np.abs(spectrum[used]).min() else np.inf
    )
    if condition > _MAX_CONDITION:
        raise ValueError(
            f"the certificate system of order {min_order} is singular to rounding (condition {condition:.1e}, "
            f"separation {teacher.separation:.1e}): raise min_order or the separation; no number from it could be "
            "trusted"
        )
    alpha = vectors[:, used] @ ((vectors[:, used].T @ rhs) / spectrum[used])
    values, tangents = alpha[: len(axes)], alpha[len(axes) :].reshape(axes.shape)
    rho, worst = _search(axes, values, tangents, tail, ball=teacher.dim > len(basis))
    return DualCertificate(
        tail,
        np.asarray(teacher.directions),
        values,
        tangents @ basis,
        rho,
        float(np.sqrt(max(alpha @ system @ alpha, 0.0) / tail.energy)),
        condition,
        worst @ basis,
    )


def smallest_order(teacher: Teacher, max_order: int = 40) -> int | None:
    """The smallest even ℓ ≤ ``max_order`` whose certificate is not degenerate (ρ_η > 0), or None."""
    for order in range(2, max_order + 1, 2):
        try:
            if dual_certificate(teacher, order).rho > 0.0:
                return order
        except ValueError:
            continue
    return None


@dataclass(frozen=True)
class NormalisedTail:
    """``K = K_{≥ℓ}/Z²`` with its first two derivatives; ``K(1) = 1``."""

    activation: HomogeneousActivation | HermiteActivation
    order: int

    @cached_property
    def energy(self) -> float:
        """``Z² = Σ_{k≥ℓ} σ̂_k²``."""
        return tail_energy(self.activation, self.order)

    @cached_property
    def low(self) -> Float[np.ndarray, " k"]:
        """What the closed form of a homogeneous activation has below order ℓ, beside its linear part."""
        low = self.activation.coefficients(self.order) ** 2
        low[1] = 0.0
        return low

    def __call__(self, rho: Float[np.ndarray, "*n"]) -> tuple[Float[np.ndarray, "*n"], Float[np.ndarray, "*n"]]:
        """``K`` and ``K'``."""
        inside = np.clip(rho, -1.0, 1.0)
        if isinstance(self.activation, HermiteActivation) or self.order > _CLOSED_FORM:
            value, slope = tail_kernel(self.activation, self.order, inside)
            return value / self.energy, slope / self.energy
        # K(1) = 1 is the scale here: taking the low orders off the closed form is right to 1e-13 of it, and fast
        even, angle = self.activation.even**2 * (2.0 / np.pi), np.arcsin(inside)
        value = even * (np.sqrt((1.0 - inside) * (1.0 + inside)) + inside * angle) - polyval(inside, self.low)
        slope = even * angle - polyval(inside, polyder(self.low))
        return value / self.energy, slope / self.energy

    def second_derivative(self, rho: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """``K''``; at ρ = ±1, where it may be singular, 0 stands for it (it meets vanishing vectors there)."""
        inside = np.clip(rho, -1.0, 1.0)
        if isinstance(self.activation, HermiteActivation):
            energies = np.array(self.activation.hermite) ** 2
            energies[: self.order] = 0.0
            return polyval(inside, polyder(energies, 2)) / self.energy
        off = np.abs(inside) < 1.0 - 1e-14
        result = np.zeros_like(inside)
        closed = self.activation.even**2 * (2.0 / np.pi) / np.sqrt(1.0 - inside[off] ** 2)
        result[off] = closed - polyval(inside[off], polyder(self.low, 2))
        return result / self.energy


def _evaluate(
    directions: np.ndarray,
    axes: np.ndarray,
    values: np.ndarray,
    tangents: np.ndarray,
    tail: NormalisedTail,
) -> np.ndarray:
    rho = directions @ axes.T
    kernel, slope = tail(rho)
    along = tangents - np.einsum("ij,ij->i", tangents, axes)[:, None] * axes
    return kernel @ values + np.sum(slope * (directions @ along.T), axis=1)


def _interpolation_matrix(axes: Float[np.ndarray, "k r"], tail: NormalisedTail) -> Float[np.ndarray, "n n"]:
    """``Υ = E γγᵀ``: values and tangential gradients of the kernel between all pairs of teacher directions.

    ``∇_u∇_vᵀK = K' I + K'' v uᵀ``, projected on both sides; K'' at ρ = ±1 meets vanishing vectors there.
    """
    k, r = axes.shape
    rho = axes @ axes.T
    kernel, slope = tail(rho)
    curvature = tail.second_derivative(rho)
    project = np.eye(r)[None] - axes[:, :, None] * axes[:, None, :]
    matrix = np.zeros((k + k * r, k + k * r))
    matrix[:k, :k] = kernel
    for i in range(k):
        for j in range(k):
            tangential = slope[i, j] * (project[j] @ axes[i])
            matrix[i, k + j * r : k + (j + 1) * r] = tangential
            matrix[k + j * r : k + (j + 1) * r, i] = tangential
            block = slope[i, j] * project[i] @ project[j]
            if i != j:
                block = block + curvature[i, j] * np.outer(project[i] @ axes[j], project[j] @ axes[i])
            matrix[k + i * r : k + (i + 1) * r, k + j * r : k + (j + 1) * r] = block
    return matrix


def _search(
    axes: np.ndarray, values: np.ndarray, tangents: np.ndarray, tail: NormalisedTail, *, ball: bool
) -> tuple[float, np.ndarray]:
    """Smallest ``(1 − |η|)/∠²`` over unit vectors of the span (and its ``ball``), by many starts and local descent."""
    r = axes.shape[1]
    rng = np.random.default_rng(0)

    def ratio(points: np.ndarray) -> np.ndarray:
        norms = np.linalg.norm(points, axis=1)
        inside = points / (np.maximum(norms, 1.0) if ball else norms)[:, None]
        eta = np.abs(_evaluate(inside, axes, values, tangents, tail))
        # the angle of u = v + (something orthogonal to the span), ‖v‖ ≤ 1, to a teacher axis
        cosine = np.clip(np.abs(inside @ axes.T), 0.0, 1.0).max(axis=1)
        angle = np.arccos(cosine)
        on_sphere = (norms >= 1.0 - 1e-12) | (not ball)
        if on_sphere.any():
            angle[on_sphere] = angles(inside[on_sphere], axes).min(axis=1)
        # at an axis both terms vanish: their quotient is read off at _NEAR, where it still has its digits
        return np.where(angle < _NEAR, np.inf, (1.0 - eta) / np.maximum(angle, _NEAR) ** 2)

    starts = [rng.standard_normal((4000, r))]
    starts[0] /= np.linalg.norm(starts[0], axis=1, keepdims=True)
    if ball:
        starts.append(starts[0][:1000] * rng.uniform(0.0, 1.0, (1000, 1)))
    for size in (0.3, 0.1, 0.03, 0.01):
        near = np.repeat(axes, 40, axis=0) + size * rng.standard_normal((40 * len(axes), r))
        starts.append(near / np.linalg.norm(near, axis=1, keepdims=True))
    points = np.concatenate(starts)
    scores = ratio(points)
    best = points[np.argsort(scores)[:12]]
    options = {"xatol": 1e-8, "fatol": 1e-12, "maxfev": 400}
    found = [minimize(lambda p: float(ratio(p[None])[0]), b, method="Nelder-Mead", options=options) for b in best]
    winner = min(found, key=lambda f: f.fun)
    norm = float(np.linalg.norm(winner.x))
    return float(min(winner.fun, scores.min())), winner.x / (max(norm, 1.0) if ball else norm)
