"""The exact population risk under x ~ N(0, I_d): sums of one kernel over student and teacher atoms."""

from collections.abc import Iterable
from functools import partial

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float

from wstar.kernels.activations import CenteredAbsKernel, HomogeneousActivation
from wstar.kernels.gram import kernel_sums
from wstar.networks.network import Atoms, Measure, TwoLayer
from wstar.networks.parametrisation import AffineResidual, Field
from wstar.networks.span import span_basis
from wstar.networks.teacher import Teacher
from wstar.precision import double_precision
from wstar.risks.base import Risk, check_weight_decay
from wstar.risks.devices import Devices, at_points, device_mesh
from wstar.risks.precise import Ball, Target, precise_loss
from wstar.risks.tensor import tensor_losses

_MEAN_ABS = float(np.sqrt(2.0 / np.pi))


class PopulationRisk(Risk):
    """``L = E_{x~N(0,I)} (f(x) − y)²`` in closed form, y from a teacher.

    With the even factor e of the activation and centred features ``|u·x| − √(2/π)``, every residual is
    ``R = Σ e_p ĉ_p (|u_p·x| − √(2/π)) + r0 + r1·x`` over student (c) and teacher (−a*) atoms, so that
    ``L = r0² + ‖r1‖² + ΣΣ e_p e_q ĉ_p ĉ_q K(u_p·u_q)`` with one kernel (ZG Claim B.1, LMZ eq. 2.2).

    ``preprocessed=True`` takes the labels without mean and linear part, ZG eq. 3; False takes them raw (LMZ).
    ``devices``: JAX devices, or how many of ``jax.devices()``, that share out the points of a field (all atoms are on
    each); the digits are those of one device to rounding.
    """

    directions: Float[np.ndarray, "k d"]
    masses: Float[np.ndarray, " k"]
    target_bias: Float[np.ndarray, ""]
    target_linear: Float[np.ndarray, " d"]
    labels: Target
    preprocessed: bool = eqx.field(static=True)
    kernel: CenteredAbsKernel = eqx.field(static=True)
    mesh: Mesh | None = eqx.field(static=True)

    def __init__(self, teacher: Teacher, preprocessed: bool = True, *, devices: Devices = None) -> None:
        """``teacher`` fixes dimension and labels; see the class.

        Raises:
            ValueError: no device, one that is named twice, or more than there are.
        """
        self.preprocessed = bool(preprocessed)
        self.kernel, self.mesh = CenteredAbsKernel(), device_mesh(devices)
        self.directions = np.asarray(teacher.directions)
        # the even factor is folded into the teacher's masses: its features are |w*·x| − √(2/π) from here on
        self.masses = teacher.activation.even * np.asarray(teacher.masses)
        self.labels = Target(
            self.masses,
            self.directions,
            np.asarray(teacher.activation.odd / teacher.activation.even),
            np.asarray(teacher.bias),
            teacher.linear,
        )
        if preprocessed:
            self.target_bias, self.target_linear = np.zeros(()), np.zeros(teacher.dim)
        else:
            self.target_bias = np.asarray(teacher.bias + _MEAN_ABS * self.masses.sum())
            self.target_linear = teacher.linear + teacher.activation.odd * (teacher.masses @ teacher.directions)

    def precise_value(self, network: TwoLayer, weight_decay: float = 0.0) -> Ball:
        """``L_λ`` with a rigorous radius, at most 1e-6 of the value: the floats of network and teacher taken as exact.

        Raises:
            ValueError: as :meth:`value`.
        """
        self._check(network)
        check_weight_decay(weight_decay)
        return precise_loss(self.labels, network, weight_decay, raw=not self.preprocessed)

    def restrict(self, basis: Float[np.ndarray, "k d"]) -> "PopulationRisk":
        """The same risk in the coordinates of orthonormal rows ``basis`` whose span holds every direction involved."""
        return eqx.tree_at(
            lambda r: (r.directions, r.target_linear, r.labels.directions, r.labels.linear),
            self,
            tuple(
                rows @ basis.T for rows in (self.directions, self.target_linear, self.directions, self.labels.linear)
            ),
        )

    def relabelled(self, linear: Float[np.ndarray, " d"], scale: float) -> "PopulationRisk":
        """Labels ``(y − linear·x)/scale``."""
        labels = self.labels
        return eqx.tree_at(
            lambda r: (r.masses, r.target_bias, r.target_linear, r.labels),
            self,
            (
                self.masses / scale,
                self.target_bias / scale,
                (self.target_linear - linear) / scale,
                labels._replace(
                    masses=labels.masses / scale, bias=labels.bias / scale, linear=(labels.linear - linear) / scale
                ),
            ),
        )

    def reduced(self, directions: Float[np.ndarray, "m d"]) -> "tuple[PopulationRisk, Float[np.ndarray, 'k d']]":
        """Into span(student, teacher, linear part), which gradient descent never leaves; same numbers, fewer."""
        basis = span_basis(directions, self.directions, self.target_linear)
        return self.restrict(basis), basis

    def target(self, activation: HomogeneousActivation) -> Atoms:
        """The teacher's atoms."""
        return Atoms(self.masses / activation.even, self.directions)

    @property
    def dim(self) -> int:
        """Input dimension d."""
        return self.directions.shape[1]

    def affine_residual(self, activation: HomogeneousActivation, measure: Measure) -> AffineResidual:
        """``r0 = α − α̂`` and ``r1 = β − β̂``."""
        return AffineResidual(
            measure.bias + activation.even * _MEAN_ABS * jnp.sum(measure.masses) - self.target_bias,
            measure.linear + activation.odd * (measure.masses @ measure.directions) - self.target_linear,
        )

    def affine_correction(self, affine: AffineResidual) -> AffineResidual:
        """``(−r0, −r1)``: 1 and x are orthonormal under N(0, I)."""
        return AffineResidual(-affine.bias, -affine.linear)

    def residual_field(
        self, activation: HomogeneousActivation, measure: Measure, directions: Float[Array | np.ndarray, "n d"]
    ) -> Field:
        """``∇Ψ = e(A u + B) + e√(2/π) r0 u + odd·r1`` and ``Ψ = u·∇Ψ`` at unit u."""
        even, odd = activation.even, activation.odd
        affine = self.affine_residual(activation, measure)
        radial, tangent = self._even_sums(activation, measure, directions)
        along = even * (radial + _MEAN_ABS * affine.bias)
        gradients = along[:, None] * directions + even * tangent
        if odd != 0.0:
            gradients = gradients + odd * affine.linear[None, :]
        # σ is 1-homogeneous; an absent neuron (zero direction) gets Ψ = 0
        return Field(jnp.sum(directions * gradients, axis=1), gradients)

    def loss(self, activation: HomogeneousActivation, measure: Measure) -> Float[Array, ""]:
        """``(α−α̂)² + ‖β−β̂‖² + Σ ĉ_pĉ_q K(u_p·u_q)``."""
        affine = self.affine_residual(activation, measure)
        atoms, masses = self._atoms(activation, measure)
        radial, tangent = self._sums(atoms, atoms, masses)
        even = masses @ (radial + jnp.sum(atoms * tangent, axis=1))
        return jnp.asarray(affine.bias**2 + affine.linear @ affine.linear + even)

    def fit_affine(self, activation: HomogeneousActivation, measure: Measure) -> Measure:
        """``α̂ = target − e√(2/π) Σ c_i``, ``β̂ = target − odd Σ c_i u_i``."""
        return measure._replace(
            bias=self.target_bias - activation.even * _MEAN_ABS * np.sum(measure.masses),
            linear=self.target_linear - activation.odd * (measure.masses @ measure.directions),
        )

    @double_precision
    def mass_problem(
        self, activation: HomogeneousActivation, directions: Float[np.ndarray, "m d"]
    ) -> tuple[Float[np.ndarray, "m m"], Float[np.ndarray, " m"], float]:
        """``G = e²K(U,U)``, ``b = e K(U,U_*)a*``, ``‖f̃_*‖²``."""
        atoms = np.concatenate([directions, self.directions])
        kernel, m = np.asarray(_kernel_values(self.kernel, atoms @ atoms.T)), len(directions)
        energy = float(self.masses @ kernel[m:, m:] @ self.masses)
        return activation.even**2 * kernel[:m, :m], activation.even * (kernel[:m, m:] @ self.masses), energy

    def tensor_losses(self, network: TwoLayer, orders: Iterable[int] = (0, 1, 2, 4, 6, 8)) -> dict[int, float]:
        """Exact; order 0 and 1 compare masses and first moments as the higher orders do."""
        self._check(network)
        scale = network.activation.even
        return tensor_losses(
            network.masses, network.directions, self.masses / scale if scale else self.masses, self.directions, orders
        )

    def _atoms(self, activation: HomogeneousActivation, measure: Measure) -> tuple[Array, Array]:
        return (
            jnp.concatenate([measure.directions, jnp.asarray(self.directions)]),
            jnp.concatenate([activation.even * measure.masses, -jnp.asarray(self.masses)]),
        )

    def _even_sums(
        self, activation: HomogeneousActivation, measure: Measure, directions: Array | np.ndarray
    ) -> tuple[Array, Array]:
        atoms, masses = self._atoms(activation, measure)
        return self._sums(directions, atoms, masses)

    def _sums(self, points: Array | np.ndarray, atoms: Array, masses: Array) -> tuple[Array, Array]:
        sums = partial(kernel_sums, self.kernel)
        return sums(points, atoms, masses) if self.mesh is None else at_points(self.mesh, sums, points, atoms, masses)


@eqx.filter_jit
def _kernel_values(kernel: CenteredAbsKernel, rho: Float[Array | np.ndarray, "n m"]) -> Float[Array, "n m"]:
    radial, slope = kernel.radial_and_slope(jnp.asarray(rho))
    return radial + rho * slope
