"""ZG Lemma 3: the net that one gradient step leaves."""

import numpy as np
from jaxtyping import Float

from wstar.experiments.config import ZgConfig
from wstar.experiments.papers.parts import Part, Within
from wstar.kernels.angles import angles
from wstar.networks.span import span_basis
from wstar.networks.teacher import random_teacher
from wstar.theory.claims.first_step import start_and_step

# the sphere of the span is probed at so many random points; at so large a d nothing of the step leaves the span
_PROBES, INFINITE = 2000, 10**8
# least κ of the teachers: below it one axis of H is hardly seen
_KAPPA = 0.2


def net(config: ZgConfig, rank: int, dim: int, within: Within) -> Part:
    """How far the nearest of n first-step directions is: from the teacher neurons, and from any point of their sphere.

    One start of the most neurons gives all widths, since the step moves every neuron by itself; uniform directions of
    the span stand beside it. The cover radius is that at random probes, so a lower bound.
    """
    widths = sorted(config.net_widths)
    rows: list[Part] = [
        {"directions": width, "teacher": [], "cover": [], "uniform_teacher": [], "uniform_cover": []}
        for width in widths
    ]
    for draw in range(config.net_draws):
        within(draw / config.net_draws)
        rng = np.random.default_rng([rank, draw])
        teacher = random_teacher(rank + 1, rank, rank + 1, 0.3, _KAPPA, seed=rng)
        basis = span_basis(teacher.weights)
        probes = _sphere(rng, _PROBES, rank) @ basis
        stepped = start_and_step(rng, teacher, float(dim), 2 * widths[-1])
        directions = stepped.directions[: widths[-1]]
        uniform = _sphere(rng, widths[-1], rank) @ basis
        for kind, seen in (("", directions), ("uniform_", uniform)):
            near = np.minimum.accumulate(angles(seen, teacher.weights), axis=0).max(axis=1)
            cover = _cover(seen, probes, widths)
            for row, radius in zip(rows, cover, strict=True):
                row[f"{kind}teacher"].append(float(near[row["directions"] - 1]))
                row[f"{kind}cover"].append(radius)
    return {"rank": rank, "dim": dim, "rows": rows}


def _sphere(rng: np.random.Generator, n: int, rank: int) -> Float[np.ndarray, "n r"]:
    rows = rng.standard_normal((n, rank))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def _cover(seen: Float[np.ndarray, "n d"], probes: Float[np.ndarray, "p d"], widths: list[int]) -> list[float]:
    """The largest angle of a probe to the nearest of the first n directions, modulo sign, for each n of ``widths``."""
    closest, found, start = np.zeros(len(probes)), [], 0
    for width in widths:
        closest = np.maximum(closest, np.abs(seen[start:width] @ probes.T).max(axis=0))
        # these radii are far above the rounding of arccos
        found.append(float(np.arccos(np.minimum(closest.min(), 1.0))))
        start = width
    return found
