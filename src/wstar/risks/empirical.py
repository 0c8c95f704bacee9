"""The same risk over a sample: rows of a table, weighted, with the affine part of the labels fitted on these rows."""

from collections.abc import Callable, Iterable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from wstar.kernels.activations import HomogeneousActivation
from wstar.networks.network import Measure, TwoLayer
from wstar.networks.parametrisation import AffineResidual, Field
from wstar.networks.student import Student
from wstar.precision import double_precision
from wstar.risks.base import Risk
from wstar.risks.devices import Devices, Sums, deal, device_mesh, total_over_rows
from wstar.risks.tensor import sample_tensor_losses, tensor_losses

# pre-activations held at once, 8 MB an array: smaller blocks suit one core's cache (4.0 against 4.6 ms for 100 neurons
# on 10⁴ rows), larger ones are worth XLA's threads (2.8 ms on two cores)
_BLOCK_ENTRIES = 2**20


class EmpiricalRisk(Risk):
    """``L = Σ_n ω_n (f(x_n) − y_n)²`` with weights ω that sum to one.

    ``preprocessed=True`` first takes off the labels' affine part ``α̂ + β̂·x`` by weighted least squares on these
    rows, the sample's form of ZG eq. 3; a prediction adds it back: ``risk.label_bias + risk.label_linear·x + f(x)``.

    Args:
        X: rows (N, d), any float type; computed in float64. Inputs are never written to.
        y: labels (N,) or (N, 1).
        sample_weight: (N,) non-negative; a weight k counts as k equal rows, 0 as none.
        preprocessed: see above.
        devices: JAX devices, or how many of ``jax.devices()``, that each keep a share of the rows; the digits are those
            of one device to rounding. None: the default device.

    Raises:
        ValueError: shapes that do not fit, no rows, NaN or infinite cells (with column and count), weights that are
            negative or all zero; devices that are not there.
    """

    # on several devices these are JAX arrays, filled up with rows of no weight
    X: Float[np.ndarray | Array, "n d"]
    y: Float[np.ndarray | Array, " n"]
    weights: Float[np.ndarray | Array, " n"]
    affine_inverse: Float[np.ndarray, "d1 d1"]
    label_bias: Float[np.ndarray, ""]
    label_linear: Float[np.ndarray, " d"]
    preprocessed: bool = eqx.field(static=True)
    n_samples: int = eqx.field(static=True)
    mesh: Mesh | None = eqx.field(static=True)

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        preprocessed: bool = True,
        *,
        devices: Devices = None,
    ) -> None:
        """See the class."""
        rows, labels, self.weights = _checked(X, y, sample_weight)
        self.X = rows
        self.preprocessed, self.mesh, self.n_samples = bool(preprocessed), device_mesh(devices), len(labels)
        self.affine_inverse = _affine_inverse(rows, self.weights)
        self.label_bias, self.label_linear = np.zeros(()), np.zeros(self.dim)
        if preprocessed:
            bias, self.label_linear = _affine_fit(rows, labels, self.weights)
            self.label_bias = np.asarray(bias)
            labels = labels - bias - rows @ self.label_linear
        self.y = labels
        if self.mesh is not None:
            self.X, self.y, self.weights = (deal(self.mesh, a) for a in (self.X, self.y, self.weights))

    @property
    def dim(self) -> int:
        """Number of columns d."""
        return self.X.shape[1]

    def restore(self, student: Student) -> Student:
        """``student`` plus the affine part that was taken off the labels: predicts the labels as they came."""
        return Student(
            student.outputs,
            student.weights,
            student.bias + float(self.label_bias),
            student.linear + self.label_linear,
            student.activation,
        )

    def rows(self) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """X, y and the weights as NumPy arrays on the host: the sample alone, without what fills devices up."""
        n = self.n_samples
        return np.asarray(self.X)[:n], np.asarray(self.y)[:n], np.asarray(self.weights)[:n]

    def relabelled(self, linear: Float[np.ndarray, " d"], scale: float) -> "EmpiricalRisk":
        """Labels ``(y − linear·x)/scale`` on the same rows."""
        return eqx.tree_at(lambda r: r.y, self, (self.y - self.X @ linear) / scale)

    def loss(self, activation: HomogeneousActivation, measure: Measure) -> Float[Array, ""]:
        """``Σ ω R²``, block by block."""
        return self._reduce(
            lambda X, y, w: jnp.sum(w * _residual(activation, measure, measure.directions @ X.T, X, y) ** 2),
            measure.masses.shape[0],
        )

    def residual_field(
        self, activation: HomogeneousActivation, measure: Measure, directions: Float[Array | np.ndarray, "n d"]
    ) -> Field:
        """``Ψ(u) = Σ ω R σ(u·x)`` and ``∇Ψ(u) = Σ ω R σ'(u·x) x``, both in one pass over the rows."""
        above, below = activation.odd + activation.even, activation.odd - activation.even
        trained = directions is measure.directions

        def block(X: Array, y: Array, w: Array) -> Array:
            own = measure.directions @ X.T
            pre = own if trained else directions @ X.T
            weighted = (w * _residual(activation, measure, own, X, y))[None, :]
            # σ'(u·x) R, with the mean of both slopes at the kink; (neurons, rows) lies well for both products
            rest = jnp.where(pre < 0.0, below * weighted, activation.odd * weighted)
            return jnp.where(pre > 0.0, above * weighted, rest) @ X

        gradients = self._reduce(block, max(directions.shape[0], measure.masses.shape[0]))
        # σ is 1-homogeneous: Ψ(u) = u·∇Ψ(u)
        return Field(jnp.sum(directions * gradients, axis=1), gradients)

    def affine_residual(self, activation: HomogeneousActivation, measure: Measure) -> AffineResidual:
        """``Σ ω R`` and ``Σ ω R x``."""

        def block(X: Array, y: Array, w: Array) -> AffineResidual:
            weighted = w * _residual(activation, measure, measure.directions @ X.T, X, y)
            return AffineResidual(jnp.sum(weighted), weighted @ X)

        return self._reduce(block, measure.masses.shape[0])

    def affine_correction(self, affine: AffineResidual) -> AffineResidual:
        """``−Q⁺(Σ ω R, Σ ω R x)``, ``Q = Σ ω (1, x)(1, x)ᵀ`` (pseudo-inverse where columns are dependent)."""
        change = -jnp.asarray(self.affine_inverse) @ jnp.concatenate([affine.bias[None], affine.linear])
        return AffineResidual(change[0], change[1:])

    def fit_affine(self, activation: HomogeneousActivation, measure: Measure) -> Measure:
        """Bias and linear part by weighted least squares on what the neurons leave."""
        even_part = TwoLayer(measure.masses, measure.directions, activation=activation) if len(measure.masses) else None
        X, y, weights = self.rows()
        bias, linear = _affine_fit(X, y - even_part(X) if even_part else y, weights)
        return measure._replace(bias=np.asarray(bias), linear=linear)

    @double_precision
    def mass_problem(
        self, activation: HomogeneousActivation, directions: Float[np.ndarray, "m d"]
    ) -> tuple[Float[np.ndarray, "m m"], Float[np.ndarray, " m"], float]:
        """Normal equations of the features ``σ(u_i·x)`` after the affine part is projected out of them and of y."""
        moments = np.asarray(_moments(self, activation, jnp.asarray(directions)))
        m = len(directions)
        inner, cross, affine = moments[: m + 1, : m + 1], moments[: m + 1, m + 1 :], moments[m + 1 :, m + 1 :]
        scale = np.sqrt(np.diag(affine))
        scale[scale == 0.0] = 1.0
        cross, affine = cross / scale, affine / np.outer(scale, scale)
        projected = inner - cross @ np.linalg.pinv(affine, rcond=1e-13, hermitian=True) @ cross.T
        return projected[:m, :m], projected[:m, m], float(max(projected[m, m], 0.0))

    def tensor_losses(
        self, network: TwoLayer, orders: Iterable[int] = (0, 1, 2, 4, 6, 8), *, teacher: TwoLayer | None = None
    ) -> dict[int, float]:
        """``T_k`` by order; exact when the ``teacher`` is given.

        Without one, ``T_k = ‖E R He_k(x)‖²/σ̂_k²`` is estimated for x ~ N(0, I) by the unbiased pair average over the
        first 2,000 rows, He_k the normalised Hermite tensor: noise may make it negative, and it grows with order.
        NaN at orders where the activation has no component (``σ̂_k = 0``).
        """
        self._check(network)
        if teacher is not None:
            scale = teacher.activation.even / network.activation.even
            return tensor_losses(network.masses, network.directions, scale * teacher.masses, teacher.directions, orders)
        X, y, weights = (values[:2000] for values in self.rows())
        return sample_tensor_losses(X, network(X) - y, weights, network.activation, orders)

    def _reduce(self, block: Callable[[Array, Array, Array], Sums], n_atoms: int) -> Sums:
        """Sum ``block(X, y, weights)`` over blocks of rows whose pre-activations fit the cache."""
        data = tuple(jnp.asarray(a) for a in (self.X, self.y, self.weights))
        if self.mesh is None:
            return _in_blocks(block, n_atoms, *data)
        return total_over_rows(self.mesh, partial(_in_blocks, block, n_atoms), *data)


def _in_blocks(block: Callable[[Array, Array, Array], Sums], n_atoms: int, X: Array, y: Array, weights: Array) -> Sums:
    n = X.shape[0]
    data = (X, y, weights)
    rows = max(256, _BLOCK_ENTRIES // max(n_atoms, 1))
    if n <= 2 * rows:
        return block(*data)
    n_full = n // rows

    def body(i: Array, total: Sums) -> Sums:
        part = block(*(jax.lax.dynamic_slice_in_dim(a, i * rows, rows) for a in data))
        return jax.tree.map(jnp.add, total, part)

    tail = block(*(a[n_full * rows :] for a in data))
    return jax.lax.fori_loop(0, n_full, body, tail)


def _residual(
    activation: HomogeneousActivation, measure: Measure, pre: Array | np.ndarray, X: Array, y: Array
) -> Array:
    """``f(x) − y`` at the rows of ``X``, from the pre-activations ``u_i·x`` (neurons, rows)."""
    return jnp.asarray(measure.masses @ activation(jnp.asarray(pre)) + measure.bias + X @ measure.linear - y)


@eqx.filter_jit
def _moments(risk: EmpiricalRisk, activation: HomogeneousActivation, directions: Array) -> Array:
    # centred columns span the same affine functions, and their moments say more about them
    mean = jnp.asarray(risk.weights) @ jnp.asarray(risk.X)

    def block(X: Array, y: Array, w: Array) -> Array:
        affine = [jnp.ones_like(y)[:, None], X - mean[None, :]]
        columns = jnp.concatenate([activation(X @ directions.T), y[:, None], *affine], axis=1)
        return (columns * w[:, None]).T @ columns

    return risk._reduce(block, directions.shape[0] + risk.dim + 2)


def _affine_fit(X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray]:
    mean, scale, standard = _standardised(X, weights)
    root = np.sqrt(weights)
    solution = np.linalg.lstsq(root[:, None] * standard, root * (y - weights @ y), rcond=None)[0] / scale
    return float(weights @ y - mean @ solution), solution


def _affine_inverse(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    mean, scale, standard = _standardised(X, weights)
    correlation = (standard * weights[:, None]).T @ standard
    inner = np.linalg.pinv(correlation, rcond=1e-12, hermitian=True) / np.outer(scale, scale)
    shift = np.block([[np.ones((1, 1)), np.zeros((1, X.shape[1]))], [-mean[:, None], np.eye(X.shape[1])]])
    full = np.zeros((X.shape[1] + 1,) * 2)
    full[0, 0], full[1:, 1:] = 1.0, inner
    return shift.T @ full @ shift


def _standardised(X: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means, standard deviations and standardised columns: what follows sees correlations, not the columns' units."""
    mean = weights @ X
    centred = X - mean
    scale = np.sqrt(weights @ centred**2)
    # the spread of a constant column is the rounding of its mean; taken at face value it would be inverted
    constant = scale <= 1e-13 * np.sqrt(weights @ X**2)
    centred[:, constant], scale[constant] = 0.0, 1.0
    return mean, scale, centred / scale


def _checked(X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    if X.ndim != 2 or X.shape[1] == 0:
        raise ValueError(f"X has shape {X.shape}: a two-dimensional array (rows, columns) is expected")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or len(y) != len(X):
        raise ValueError(f"y has shape {y.shape} and X {X.shape}: one label per row of X is expected")
    if len(X) == 0:
        raise ValueError("X has no rows: give at least one")
    bad = ~np.isfinite(X)
    if bad.any():
        column = int(bad.any(axis=0).argmax())
        there = int(bad[:, column].sum())
        raise ValueError(
            f"X holds {int(bad.sum())} NaN or infinite cells, {there} of them in column {column}: fill or drop them"
        )
    if not np.isfinite(y).all():
        raise ValueError(f"y holds {int((~np.isfinite(y)).sum())} NaN or infinite labels: drop those rows")
    if sample_weight is None:
        return X, y, np.full(len(X), 1.0 / len(X))
    weights = np.array(sample_weight, dtype=float)
    if weights.shape != y.shape:
        raise ValueError(f"sample_weight has shape {weights.shape}: one weight per row, ({len(y)},), is expected")
    if not np.isfinite(weights).all() or (weights < 0.0).any() or weights.sum() == 0.0:
        raise ValueError("sample_weight must be finite, not negative, and not all zero")
    keep = weights > 0.0
    if not keep.all():
        X, y, weights = X[keep], y[keep], weights[keep]
    return X, y, weights / weights.sum()
