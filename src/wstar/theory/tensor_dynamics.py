"""LMZ's view of a run: one tensor problem per order, their gradients, mass errors, sets of neurons and stages."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import xarray as xr
from jaxtyping import Bool, Float

from wstar.algorithms.truncated.mean_field import checked_weights
from wstar.kernels.activations import ABS, HomogeneousActivation, homogeneous
from wstar.kernels.hermite import coefficient_energy
from wstar.kernels.tails import tail_kernel
from wstar.networks.parametrisation import MeanField
from wstar.networks.teacher import Teacher
from wstar.precision import double_precision
from wstar.risks.population import PopulationRisk

_MEAN_ABS = float(np.sqrt(2.0 / np.pi))


@dataclass(frozen=True)
class OrderGradients:
    """``m ∂_W L`` of each order's part of the loss, (order, neuron, input), and of all orders not listed, ``rest``."""

    orders: tuple[int, ...]
    gradients: Float[np.ndarray, "o m d"]
    rest: Float[np.ndarray, "m d"]

    @property
    def total(self) -> Float[np.ndarray, "m d"]:
        """The gradient of the loss."""
        return self.gradients.sum(axis=0) + self.rest


@double_precision
def gradient_by_order(
    risk: PopulationRisk,
    weights: Float[np.ndarray, "m d"],
    orders: Iterable[int] = (0, 2, 4, 6, 8),
    activation: HomogeneousActivation | str = ABS,
) -> OrderGradients:
    """The per-particle gradient of LMZ's learner, order by order (LMZ eq. 2.5).

    With ``S_k = Σ ĉ_q ρ_q^k`` and ``V_k = Σ ĉ_q ρ_q^{k−1} u_q`` over student and teacher atoms, order k ≥ 2 contributes
    ``2 c_k ‖v‖ [(2−k) S_k v̄ + k V_k]``, which is LMZ's ``b_k ‖v‖ V_k − b'_k S_k v`` with b_k = 2k c_k and
    b'_k = (2k−4) c_k; order 0 ``4 c_0 Δ v``, order 1 the affine residual's. The orders that are not listed are summed
    in closed form.

    Raises:
        ValueError: an order that is negative or not whole, or weights of another dimension.
    """
    learner, weights, orders = homogeneous(activation), checked_weights("weights", weights, risk.dim), tuple(orders)
    for k in orders:
        if int(k) != k or k < 0:
            raise ValueError(f"orders: {k!r} must be a whole number ≥ 0")
    measure = MeanField(weights).measure()
    norms, directions = np.linalg.norm(weights, axis=1), np.asarray(measure.directions)
    atoms = np.concatenate([directions, risk.directions])
    masses = np.concatenate([learner.even * np.asarray(measure.masses), -risk.masses])
    rho = np.clip(directions @ atoms.T, -1.0, 1.0)
    affine = risk.affine_residual(learner, measure)

    def pull(values: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """``2e‖v‖ [2 S v̄ + (I − v̄v̄ᵀ) V]`` for a kernel with these values and slopes at ``rho``."""
        across = slopes @ (masses[:, None] * atoms)
        along = 2.0 * values @ masses - np.sum(directions * across, axis=1)
        return 2.0 * learner.even * norms[:, None] * (along[:, None] * directions + across)

    def one(k: int) -> np.ndarray:
        if k == 0:
            return 4.0 * learner.even * _MEAN_ABS * float(affine.bias) * weights
        if k == 1:
            linear = np.asarray(affine.linear)
            return 2.0 * learner.odd * (norms[:, None] * linear + (directions @ linear)[:, None] * weights)
        energy = coefficient_energy(k)
        return pull(energy * rho**k, energy * k * rho ** (k - 1))

    top = max((k for k in orders if k >= 2), default=1)
    rest = pull(*tail_kernel(ABS, top + 1, rho))
    for k in (0, 1, *range(2, top, 2)):
        if k not in orders:
            rest = rest + one(k)
    gradients = np.array([one(int(k)) for k in orders]).reshape(len(orders), *weights.shape)
    return OrderGradients(orders, gradients, rest)


@dataclass(frozen=True)
class MassErrors:
    """``Δ = E‖w‖² − Σa`` and ``δ_i = E(w·w*_i)² − a_i`` (LMZ before Lemma A.2)."""

    total: float
    by_teacher: Float[np.ndarray, " k"]

    @property
    def largest_excess(self) -> float:
        """``δ_+ = max_i δ_i``, at least 0."""
        return float(max(self.by_teacher.max(), 0.0))

    @property
    def largest_deficit(self) -> float:
        """``δ_− = max_i −δ_i``, at least 0."""
        return float(max(-self.by_teacher.min(), 0.0))

    @property
    def excess(self) -> float:
        """``Δ_+``: the sum of the positive δ_i."""
        return float(self.by_teacher[self.by_teacher > 0.0].sum())

    @property
    def deficit(self) -> float:
        """``Δ_−``: minus the sum of the negative δ_i."""
        return float(-self.by_teacher[self.by_teacher < 0.0].sum())


def mass_errors(
    weights: Float[np.ndarray, "m d"], teacher: Teacher, activation: HomogeneousActivation | str = ABS
) -> MassErrors:
    """How far the mass of mean-field ``weights`` is from the teacher's, in all and along each teacher direction.

    Raises:
        ValueError: teacher directions that are not orthonormal, or weights of another dimension.
    """
    weights = checked_weights("weights", weights, teacher.dim)
    refuse_oblique(teacher)
    masses = teacher.atoms(homogeneous(activation)).masses
    along = np.mean((weights @ teacher.directions.T) ** 2, axis=0)
    return MassErrors(float(np.mean(np.sum(weights**2, axis=1)) - masses.sum()), along - masses)


@dataclass(frozen=True)
class NeuronSets:
    """LMZ's sets before Lemma A.3, (neuron, teacher), and the thresholds ``Γ_i`` with their margin ρ."""

    good: Bool[np.ndarray, "m k"]
    bad: Bool[np.ndarray, "m k"]
    potential: Bool[np.ndarray, "m k"]
    thresholds: Float[np.ndarray, " k"]
    margin: float


def neuron_sets(
    start: Float[np.ndarray, "m d"],
    teacher: Teacher,
    learning_rate: float,
    plateau_steps: float,
    margin: float | None = None,
    activation: HomogeneousActivation | str = ABS,
) -> NeuronSets:
    """Which neurons of a start should win, by LMZ's rule on ``v_i² = (w·w*_i)²``.

    ``Γ_i = 1/(2 B_{1,4} a_i² d η T)`` with ``B_{1,4} = b_4 + b'_4 = 12 c_4`` and T = ``plateau_steps``. Potential for
    i: ``v_i² ≥ Γ_i − ρ``; good: ``v_i² ≥ Γ_i + ρ`` and every other ``v_j² ≤ Γ_j − ρ``; bad: potential for i and for
    some other j. The paper's ρ is polylog(d)/d; here ρ = ``margin``, a tenth of the smallest Γ unless given.

    Raises:
        ValueError: teacher directions that are not orthonormal, masses, rate or steps that are not positive, a negative
            margin.
    """
    start = checked_weights("start", start, teacher.dim)
    refuse_oblique(teacher)
    masses = teacher.atoms(homogeneous(activation)).masses
    if not (masses > 0.0).all():
        raise ValueError(f"the teacher has mass {masses.min():g}: LMZ's thresholds need positive masses")
    for name, value in (("learning_rate", learning_rate), ("plateau_steps", plateau_steps)):
        if not (np.isfinite(value) and value > 0.0):
            raise ValueError(f"{name}={value} must be finite and positive")
    thresholds = 1.0 / (24.0 * coefficient_energy(4) * masses**2 * teacher.dim * learning_rate * plateau_steps)
    margin = 0.1 * float(thresholds.min()) if margin is None else float(margin)
    if not margin >= 0.0:
        raise ValueError(f"margin={margin} must not be negative")
    squares = (start @ teacher.directions.T) ** 2
    potential = squares >= thresholds - margin
    others = potential.sum(axis=1, keepdims=True) - potential > 0
    touched = squares > thresholds - margin
    alone = touched.sum(axis=1, keepdims=True) - touched == 0
    return NeuronSets((squares >= thresholds + margin) & alone, potential & others, potential, thresholds, margin)


def basis_like_share(weights: Float[np.ndarray, "m d"], teacher: Teacher, cosine: float = 0.95) -> tuple[float, float]:
    """Share of the neurons, and of the mass ``‖w‖²``, within ``|cos| ≥ cosine`` of some teacher direction."""
    weights = checked_weights("weights", weights, teacher.dim)
    if not 0.0 < cosine <= 1.0:
        raise ValueError(f"cosine={cosine} must lie in (0, 1]")
    squares = np.sum(weights**2, axis=1)
    near = np.abs(weights @ teacher.directions.T).max(axis=1) >= cosine * np.sqrt(squares)
    near &= squares > 0.0
    return float(near.mean()), float(squares[near].sum() / (squares.sum() or 1.0))


@dataclass(frozen=True)
class StageTimes:
    """Steps at which LMZ's stages end, NaN where a run does not get there."""

    settled: float
    plateau_end: float
    warm: float
    fitted: float


def stage_times(trajectory: xr.Dataset) -> StageTimes:
    """Where the stages end, read off the relative tensor losses of a recorded run.

    The rule: Stage 1.1 ends (``settled``) when orders 0 and 2 are at most 0.1; 1.2 (``plateau_end``) when order 4 is
    half of what it was then; 2.1 (``warm``) when every recorded order is at most 0.1; 2.2 (``fitted``) at most 0.01.
    0.1 and 0.01 are the levels that LMZ read off their Figure 2. Between records losses are interpolated in logarithms.

    Raises:
        ValueError: a trajectory without tensor losses of the orders 0, 2 and 4.
    """
    if "relative_tensor_loss" not in trajectory or not {0, 2, 4} <= set(trajectory.order.values.tolist()):
        raise ValueError("the trajectory needs tensor losses of orders 0, 2 and 4: record them, with the teacher known")
    steps, losses = trajectory.step.values.astype(float), trajectory.relative_tensor_loss
    low = losses.sel(order=[0, 2]).max("order").values
    fourth, worst = losses.sel(order=4).values, losses.max("order").values
    settled = first_below(steps, low, 0.1)
    plateau = np.interp(np.log1p(settled), np.log1p(steps), fourth)
    return StageTimes(
        settled,
        first_below(steps, fourth, 0.5 * plateau, after=settled),
        first_below(steps, worst, 0.1, after=settled),
        first_below(steps, worst, 0.01, after=settled),
    )


def first_below(
    steps: Float[np.ndarray, " n"], values: Float[np.ndarray, " n"], level: float, after: float = 0.0
) -> float:
    """Where ``values`` first come down to ``level`` at or after step ``after``; NaN where they do not."""
    if not (np.isfinite(level) and np.isfinite(after)):
        return float("nan")
    reached = np.flatnonzero((values <= level) & (steps >= after))
    if reached.size == 0:
        return float("nan")
    i = int(reached[0])
    if i == 0 or values[i - 1] <= level or values[i] <= 0.0:
        return float(max(steps[i], after))
    x, y = np.log1p(steps[i - 1 : i + 1]), np.log(values[i - 1 : i + 1])
    between = float(np.expm1(x[0] + (x[1] - x[0]) * (y[0] - np.log(level)) / (y[0] - y[1])))
    return max(between, after)


def refuse_oblique(teacher: Teacher) -> None:
    """Raise ValueError unless the teacher directions are orthonormal."""
    gram = teacher.directions @ teacher.directions.T
    largest = float(np.abs(gram - np.eye(len(gram))).max())
    if largest > 1e-8:
        raise ValueError(
            f"W* is not orthonormal (largest inner product of two directions {largest:.2g}): δ_i, Γ_i and the good, "
            "bad and potential neurons lose their meaning; losses, tensor losses and cosines keep theirs"
        )
