"""Stages 1 and 2 of ZG's Algorithm 1: one gradient step, then the convex problem in the masses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from wstar.algorithms.lasso import MassSubgradient, lasso_path_end, merge_directions, optimality_violation
from wstar.algorithms.run import Progress, drive
from wstar.kernels.activations import HomogeneousActivation
from wstar.networks.network import Measure
from wstar.networks.parametrisation import AffineResidual
from wstar.networks.student import Student
from wstar.precision import double_precision
from wstar.risks.base import Risk, check_weight_decay

_ROUNDING = 1e-12


@double_precision
def first_step(risk: Risk, start: Student, weight_decay: float = 1.0, learning_rate: float = 1.0) -> Student:
    """Stage 1: ``θ ← θ − η₀∇L_{λ₀}(θ)``, in the form ``(1 − η₀λ₀)θ − η₀∇L(θ)`` so that λ₀η₀ = 1 cancels exactly.

    A start whose second half mirrors its first is the zero function; its residual is then the label alone, and the
    step is taken once per pair. Afterwards ``w_{i+m/2} = −w_i`` at λ₀η₀ = 1 (ZG §4.1).

    Raises:
        ValueError: λ₀ negative or η₀ not positive.
    """
    check_weight_decay(weight_decay)
    if not (np.isfinite(learning_rate) and learning_rate > 0.0):
        raise ValueError(f"learning_rate={learning_rate} must be finite and positive")
    half = start.width // 2
    mirrored = _is_mirrored(start)
    moving = slice(0, half) if mirrored else slice(0, start.width)
    silent = Student(np.zeros(1), np.zeros((1, start.dim)), start.bias, start.linear, start.activation)
    here = silent if mirrored else start
    values, gradients = risk.field(here, start.weights[moving])
    affine = _affine_residual(risk, start.activation, here.measure)
    keep = 1.0 - weight_decay * learning_rate
    # ∂_a = 2Ψ(w) and ∂_w = 2a∇Ψ(w): the mirrored half has the same Ψ and the opposite a
    sign = np.array([1.0, -1.0])[:, None] if mirrored else np.ones((1, 1))
    outputs = keep * start.outputs - 2.0 * learning_rate * np.tile(values, len(sign))
    pull = (2.0 * learning_rate) * start.outputs[moving, None] * gradients
    weights = keep * start.weights - (sign[:, :, None] * pull[None]).reshape(start.weights.shape)
    # a neuron with every row of a sample on one side of its kink has a gradient of rounding, which is no direction
    norms = np.linalg.norm(weights, axis=1)
    weights[norms <= _ROUNDING * norms.max(initial=0.0)] = 0.0
    return Student(
        outputs,
        weights,
        start.bias - 2.0 * learning_rate * float(affine.bias),
        start.linear - 2.0 * learning_rate * np.asarray(affine.linear),
        start.activation,
    )


@eqx.filter_jit
def _affine_residual(risk: Risk, activation: HomogeneousActivation, measure: Measure) -> AffineResidual:
    return risk.affine_residual(activation, measure)


def _is_mirrored(start: Student) -> bool:
    half = start.width // 2
    return (
        start.width % 2 == 0
        and np.array_equal(start.outputs[:half], -start.outputs[half:])
        and np.array_equal(start.weights[:half], start.weights[half:])
    )


@dataclass(frozen=True)
class MassesSoFar:
    """Where the subgradient method of Stage 2 stands; ``reason`` is empty while it runs."""

    outputs: Float[np.ndarray, " k"]
    step: int
    reason: str

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Plain arrays for a checkpoint."""
        return {
            "stage2.outputs": np.asarray(self.outputs),
            "stage2.step": np.asarray(self.step),
            "stage2.reason": np.asarray(self.reason, dtype="U16"),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "MassesSoFar | None":
        """What :meth:`to_arrays` stored, or None if nothing of it is there."""
        if "stage2.step" not in arrays:
            return None
        return cls(arrays["stage2.outputs"], int(arrays["stage2.step"]), str(arrays["stage2.reason"]))


@dataclass(frozen=True)
class NormAdjustment:
    """What Stage 2 found: a balanced student, and how well its conditions of optimality hold."""

    student: Student
    neurons: np.ndarray
    method: str
    weight_decay: float
    n_directions: int
    objective: float
    violation: float
    masses_so_far: MassesSoFar

    @property
    def n_steps(self) -> int:
        """Subgradient steps taken; 0 for the path."""
        return self.masses_so_far.step

    @property
    def reason(self) -> str:
        """Why Stage 2 ended: "optimal" for the path, "converged" or "step cap" for subgradient steps."""
        return self.masses_so_far.reason

    @property
    def n_living(self) -> int:
        """Neurons with a mass."""
        return int(np.count_nonzero(self.student.masses))


@double_precision
def adjust_norms(
    risk: Risk,
    student: Student,
    weight_decay: float,
    *,
    method: str = "lars",
    drop_zeros: bool = True,
    max_steps: int = 200_000,
    tolerance: float = 1e-6,
    resume: MassesSoFar | None = None,
    on_pause: Callable[[MassesSoFar, float, float], None] | None = None,
) -> NormAdjustment:
    """Stage 2: ``min_{a,α,β} L + λΣ‖w_i‖|a_i|`` at fixed W, then ``|a_i| = ‖w_i‖`` (ZG Algorithm 1).

    Directions equal modulo sign are one atom (the affine part is fitted, so u and −u carry the same feature) and its
    mass goes to the first of them. ``method`` "lars" follows the LARS path to λ; "subgradient" takes the paper's
    subgradient steps on a until the least subgradient is below ``tolerance``·λ·max‖w‖ or ``max_steps`` are done.
    ``drop_zeros`` leaves neurons without mass out of the result; ``neurons`` are the indices that it kept.
    ``resume`` goes on with a subgradient run; ``on_pause(masses so far, norm, tolerance)`` is called now and then.

    Raises:
        ValueError: an unknown method, λ not positive or so large that no mass is left, or weights that are all zero.
    """
    check_weight_decay(weight_decay)
    if weight_decay == 0.0:
        raise ValueError("weight_decay=0: Stage 2 needs a positive weight decay")
    if method not in ("lars", "subgradient"):
        raise ValueError(f"stage2={method!r}: choose 'lars' or 'subgradient'")
    directions, norms = student.directions, student.norms
    owner = merge_directions(directions)
    atoms = np.unique(owner[owner >= 0])
    if atoms.size == 0:
        raise ValueError("all weights are zero after Stage 1: the labels have no second-order part to start from")
    gram, correlation, energy = risk.mass_problem(student.activation, directions[atoms])
    largest = 2.0 * float(np.abs(correlation).max())
    if weight_decay >= largest:
        raise ValueError(
            f"weight_decay={weight_decay:g} leaves no neuron after Stage 2: the first one enters below {largest:.3g}; "
            "lower weight_decay"
        )
    if method == "lars":
        masses = lasso_path_end(gram, correlation, weight_decay)
        so_far = MassesSoFar(masses / norms[atoms], 0, "optimal")
    else:
        first = np.array([student.masses[owner == i].sum() for i in atoms]) / norms[atoms]
        resume = resume if resume is not None else MassesSoFar(first, 0, "")
        update = _subgradient_update(gram, correlation, norms[atoms], weight_decay)
        so_far = _subgradient_run(update, resume, max_steps, tolerance, on_pause)
        masses = so_far.outputs * norms[atoms]
    objective = float(
        masses @ gram @ masses - 2.0 * correlation @ masses + energy + weight_decay * np.abs(masses).sum()
    )
    full = np.zeros(student.width)
    full[atoms] = masses
    neurons = np.flatnonzero(full) if drop_zeros and full.any() else np.arange(student.width)
    return NormAdjustment(
        student=_balanced(risk, student, full, neurons),
        neurons=neurons,
        method=method,
        weight_decay=weight_decay,
        n_directions=len(atoms),
        objective=objective,
        violation=optimality_violation(gram, correlation, weight_decay, masses),
        masses_so_far=so_far,
    )


def _subgradient_update(
    gram: np.ndarray, correlation: np.ndarray, norms: np.ndarray, weight_decay: float
) -> MassSubgradient:
    curvature = 2.0 * float(np.linalg.eigvalsh(norms[:, None] * gram * norms)[-1])
    return MassSubgradient(*(jnp.asarray(x) for x in (gram, correlation, norms, weight_decay, 1.0 / curvature)))


def _subgradient_run(
    update: MassSubgradient,
    resume: MassesSoFar,
    max_steps: int,
    tolerance: float,
    on_pause: Callable[[MassesSoFar, float, float], None] | None,
) -> MassesSoFar:
    if resume.reason:
        return resume
    target = tolerance * float(update.weight_decay) * float(update.norms.max())

    def pause(state: Float[Array, " k"], progress: Progress) -> None:
        if on_pause is not None and progress.reason is None:
            on_pause(MassesSoFar(np.asarray(state), progress.step, ""), progress.norm, target)

    outcome = drive(
        update,
        jnp.asarray(resume.outputs),
        start_step=resume.step,
        max_steps=max_steps,
        tolerance=target,
        on_pause=pause,
    )
    return MassesSoFar(np.asarray(outcome.state), outcome.step, outcome.reason)


def _balanced(risk: Risk, student: Student, masses: np.ndarray, neurons: np.ndarray) -> Student:
    masses, directions = masses[neurons], student.directions[neurons]
    measure = risk.fit_affine(student.activation, Measure(masses, directions, np.zeros(()), np.zeros(student.dim)))
    root = np.sqrt(np.abs(masses))
    return Student(
        np.sign(masses) * root, directions * root[:, None], float(measure.bias), measure.linear, student.activation
    )
