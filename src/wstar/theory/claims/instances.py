"""What the checks are run on: random teachers and students, and a loss that owes nothing to the closed forms."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from wstar.kernels.activations import HomogeneousActivation
from wstar.kernels.angles import angles
from wstar.networks.student import Student
from wstar.networks.teacher import Teacher, random_teacher
from wstar.theory.claims.verdict import Effort

# rank, width, least separation: few of each, so that compiled shapes are shared between the checks
SHAPES = ((2, 3, 0.5), (3, 4, 0.3), (4, 6, 0.3))
DIM, STUDENT_WIDTH = 5, 9
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


def random_teachers(effort: Effort, rng: np.random.Generator, quick: int = 2, full: int = 30) -> Iterator[Teacher]:
    """Teachers in R^5 of mixed signs, several ranks, widths and separations; ``quick`` or ``full`` of each shape."""
    for rank, width, min_angle in SHAPES:
        for _ in range(effort.size(quick, full)):
            yield random_teacher(DIM, rank, width, min_angle, 0.05, seed=rng)


def random_student(rng: np.random.Generator, affine: float = 1.0) -> Student:
    """A student in R^5 far from any teacher: mixed signs, unbalanced, with an affine part of size ``affine``."""
    weights = rng.standard_normal((STUDENT_WIDTH, DIM)) * rng.uniform(0.3, 1.5, (STUDENT_WIDTH, 1))
    bias, linear = affine * rng.standard_normal(), affine * rng.standard_normal(DIM)
    return Student(rng.standard_normal(STUDENT_WIDTH), weights, float(bias), linear)


def fitted(student: Student, bias_error: float = 0.0, linear_error: float = 0.0) -> Student:
    """``student`` with α and β at ZG's (α̂, β̂) plus the given errors (the linear one along the first axis)."""
    bias, linear = affine_optimum(student)
    shift = np.zeros(student.dim)
    shift[0] = linear_error
    return Student(student.outputs, student.weights, bias + bias_error, linear + shift, student.activation)


def affine_optimum(student: Student) -> tuple[float, Float[np.ndarray, " d"]]:
    """``α̂ = −Eσ(z) Σ a_i‖w_i‖`` and ``β̂ = −Eσ(z)z Σ a_i w_i`` (ReLU: 1/√(2π) and 1/2, as printed)."""
    mean, slope = first_moments(student.activation)
    return -mean * float(student.masses.sum()), -slope * (student.outputs @ student.weights)


def sector_integral(
    left: HomogeneousActivation, right: HomogeneousActivation, phi: Float[np.ndarray, "*n"]
) -> Float[np.ndarray, "*n"]:
    """``E left(u·x) right(v·x)`` for unit u, v at angle φ ∈ [0, π]: Gauss–Legendre between the kinks, in the plane."""
    kinks = np.stack([0.0 * phi - 0.5 * np.pi, phi - 0.5 * np.pi, 0.0 * phi + 0.5 * np.pi, phi + 0.5 * np.pi], axis=-1)
    ends = np.concatenate([kinks, kinks[..., :1] + 2.0 * np.pi], axis=-1)
    half = 0.5 * np.diff(ends, axis=-1)[..., None]
    theta = ends[..., :-1, None] + half * (1.0 + _NODES)
    values = left(np.cos(theta)) * right(np.cos(theta - phi[..., None, None]))
    # E r² = 2 in the plane, over the angle's density 1/2π
    return np.asarray(np.sum(values * half * _WEIGHTS, axis=(-1, -2)) / np.pi)


def first_moments(activation: HomogeneousActivation) -> tuple[float, float]:
    """``E σ(z)`` and ``E σ(z) z`` by quadrature over each half line."""
    x = 6.5 * (1.0 + np.concatenate([_LONG_NODES, -2.0 - _LONG_NODES]))
    density = 6.5 * np.tile(_LONG_WEIGHTS, 2) * np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
    return float(density @ activation(x)), float(density @ (activation(x) * x))


_LONG_NODES, _LONG_WEIGHTS = np.polynomial.legendre.leggauss(80)


def direct_loss(student: Student, teacher: Teacher) -> float:
    """``E (f − f̃_*)²`` from its definition: expand the square and integrate every product by quadrature in the plane.

    Owes nothing to Hermite expansions or kernels; the labels lose their mean and linear part as in ZG eq. 3.
    """
    activation = student.activation
    mean, slope = first_moments(activation)
    target = teacher.atoms(activation)
    masses = np.concatenate([student.masses, -target.masses])
    rows = np.concatenate([student.directions, target.directions])
    moments = sector_integral(activation, activation, angles(rows, rows, modulo_sign=False))
    bias = student.bias + mean * float(target.masses.sum())
    linear = student.linear + slope * (target.masses @ target.directions)
    total = masses @ moments @ masses + bias**2 + linear @ linear
    return float(total + 2.0 * mean * bias * masses.sum() + 2.0 * slope * (linear @ (masses @ rows)))
