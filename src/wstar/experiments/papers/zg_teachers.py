"""Teachers of hard geometry for the reproduction of ZG: nearly parallel neurons, nearly degenerate H, cancelling signs.

All are drawn in the first coordinates: the start is uniform on the sphere, so any rotation of them is as good.
"""

import warnings
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from wstar.experiments.config import ZgConfig
from wstar.kernels.activations import ABS, RELU, HomogeneousActivation
from wstar.kernels.angles import angles
from wstar.networks.teacher import Teacher, random_teacher

_MOST_DRAWS = 3000
# sizes that an output which is solved for may have
_SMALLEST, _LARGEST = 0.3, 2.0


def pair_teacher(config: ZgConfig, angle: float, signs: str, rng: np.random.Generator) -> Teacher:
    """The first and the last neuron are exactly ``angle`` apart, every other pair at least as far; κ as in the config.

    ``signs`` of the pair: "equal", "opposite" or "mixed" (random, both signs in the teacher).

    Raises:
        ValueError: none was found in 3,000 draws.
    """
    rank, width = config.rank, config.teacher_width
    for _ in range(_MOST_DRAWS):
        rows = _unit(rng.standard_normal((width - 1, rank)))
        tangent = rng.standard_normal(rank)
        tangent -= (tangent @ rows[0]) * rows[0]
        last = np.cos(angle) * rows[0] + np.sin(angle) * tangent / np.linalg.norm(tangent)
        rows = np.concatenate([rows, last[None]])
        outputs = rng.uniform(0.5, 1.5, width) * rng.choice([-1.0, 1.0], width)
        if signs != "mixed":
            outputs[-1] = np.copysign(outputs[-1], outputs[0] if signs == "equal" else -outputs[0])
        between = angles(rows, rows)[np.triu_indices(width, 1)]
        mixed = np.ptp(np.sign(outputs)) > 0.0
        if mixed and np.sum(between < angle * (1.0 + 1e-9)) == 1 and _kappa(rows, outputs) >= config.min_kappa:
            return _padded(outputs, rows, config.dim)
    raise ValueError(f"no teacher of {width} neurons in rank {rank} has a pair {angle:.3g} apart and others farther")


def kappa_teacher(config: ZgConfig, kappa: float, rng: np.random.Generator) -> Teacher:
    """A random teacher whose last output is set so that ``κ = |λ_r(H)|`` is ``kappa`` (ZG Assumption 3).

    det H is linear in one output: with t₀ its zero, κ grows from 0 as the output leaves t₀.

    Raises:
        ValueError: no such output lies between 0.3 and 2 in size, in 3,000 draws.
    """
    for _ in range(_MOST_DRAWS):
        drawn = _drawn(config, rng)
        outputs, rows = drawn.outputs.copy(), drawn.weights[:, : config.rank]
        rest = rows[:-1].T @ (outputs[:-1, None] * rows[:-1])
        zero = -1.0 / float(rows[-1] @ np.linalg.solve(rest, rows[-1]))
        low, high = 0.0, 1.0
        if _kappa(rows, np.append(outputs[:-1], zero + high)) < kappa:
            continue
        for _ in range(60):
            middle = 0.5 * (low + high)
            outputs[-1] = zero + middle
            low, high = (low, middle) if _kappa(rows, outputs) > kappa else (middle, high)
        outputs[-1] = zero + high
        fits = _SMALLEST < abs(outputs[-1]) < _LARGEST
        if fits and abs(_kappa(rows, outputs) / kappa - 1.0) < 1e-3:
            return _padded(outputs, rows, config.dim)
    raise ValueError(f"no teacher of {config.teacher_width} neurons in rank {config.rank} has κ = {kappa:.3g}")


def balanced_teacher(config: ZgConfig, rng: np.random.Generator) -> Teacher:
    """Mixed signs that cancel: ``Σ a*_i = 0``, so that H has trace 0 and the labels' even part mean 0."""
    for _ in range(_MOST_DRAWS):
        drawn = _drawn(config, rng)
        outputs = drawn.outputs.copy()
        outputs[-1] = -outputs[:-1].sum()
        rows = drawn.weights[:, : config.rank]
        if _SMALLEST < abs(outputs[-1]) < _LARGEST and _kappa(rows, outputs) >= config.min_kappa:
            return _padded(outputs, rows, config.dim)
    raise ValueError(f"no teacher of {config.teacher_width} neurons in rank {config.rank} has outputs of sum 0")


def antipodal_teacher(config: ZgConfig, share: float, rng: np.random.Generator) -> tuple[Teacher, Teacher]:
    """The first neuron again, turned round, with ``share`` of its output; and what the labels' even part has of both.

    ``ReLU(t) − ReLU(−t)`` is linear: of a pair w, −w only the sum of both outputs is left beyond order 1.
    """
    drawn = _drawn(config, rng)
    outputs, rows = drawn.outputs, drawn.weights
    with warnings.catch_warnings():
        # that two neurons are parallel is what is asked for
        warnings.simplefilter("ignore", UserWarning)
        both = Teacher(np.append(outputs, share * outputs[0]), np.concatenate([rows, -rows[:1]]))
    merged = outputs.copy()
    merged[0] *= 1.0 + share
    kept = merged != 0.0
    return both, Teacher(merged[kept], rows[kept])


def crowded_teacher(config: ZgConfig, rng: np.random.Generator) -> Teacher:
    """Three times as many neurons as the span has dimensions."""
    width = 3 * config.rank
    return random_teacher(config.dim, config.rank, width, 0.5 * config.min_angle, config.min_kappa, seed=rng)


def uneven_teacher(config: ZgConfig, rng: np.random.Generator) -> Teacher:
    """The first neuron has a thirtieth of its output."""
    drawn = _drawn(config, rng)
    return Teacher(drawn.outputs * np.where(np.arange(drawn.width) == 0, 1.0 / 30.0, 1.0), drawn.weights)


def activation_pairs() -> dict[str, tuple[HomogeneousActivation, HomogeneousActivation]]:
    """Activations of teacher and student, by name."""
    leaky = HomogeneousActivation(1.0, -0.3, "leaky ReLU")
    return {
        "ReLU, learnt by ReLU": (RELU, RELU),
        "|·|, learnt by |·|": (ABS, ABS),
        "leaky ReLU (0.3), learnt by the same": (leaky, leaky),
        "|·|, learnt by ReLU": (ABS, RELU),
        "ReLU, learnt by |·|": (RELU, ABS),
    }


def with_activation(config: ZgConfig, activation: HomogeneousActivation, rng: np.random.Generator) -> Teacher:
    """A random teacher of the config with another activation."""
    drawn = _drawn(config, rng)
    return Teacher(drawn.outputs, drawn.weights, activation=activation)


def geometries(config: ZgConfig) -> dict[str, Callable[[np.random.Generator], tuple[Teacher, Teacher]]]:
    """Hard geometries by name: each draws a teacher and the one that its labels allow to be found."""
    return {
        "random": lambda rng: _twice(_drawn(config, rng)),
        "Σa* = 0": lambda rng: _twice(balanced_teacher(config, rng)),
        "3r neurons": lambda rng: _twice(crowded_teacher(config, rng)),
        "one output a thirtieth": lambda rng: _twice(uneven_teacher(config, rng)),
        "w and −w, sum of outputs left": lambda rng: antipodal_teacher(config, 0.5, rng),
        "w and −w, outputs cancel": lambda rng: antipodal_teacher(config, -1.0, rng),
    }


def _twice(teacher: Teacher) -> tuple[Teacher, Teacher]:
    return teacher, teacher


def _drawn(config: ZgConfig, rng: np.random.Generator) -> Teacher:
    size = (config.rank, config.rank, config.teacher_width, config.min_angle, config.min_kappa)
    drawn = random_teacher(*size, seed=rng)
    return _padded(drawn.outputs, drawn.weights, config.dim)


def _padded(outputs: Float[np.ndarray, " m"], rows: Float[np.ndarray, "m r"], dim: int) -> Teacher:
    return Teacher(outputs, np.pad(rows, ((0, 0), (0, dim - rows.shape[1]))))


def _kappa(rows: Float[np.ndarray, "m r"], outputs: Float[np.ndarray, " m"]) -> float:
    return float(np.abs(np.linalg.eigvalsh(rows.T @ (outputs[:, None] * rows))).min())


def _unit(rows: Float[np.ndarray, "n r"]) -> Float[np.ndarray, "n r"]:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
