"""ZG Appendix J: the first step, and the whole of Algorithm 1, from N samples."""

from functools import lru_cache

import numpy as np
from jaxtyping import Float

from wstar.algorithms.stages import first_step
from wstar.algorithms.three_stage import three_stage
from wstar.experiments.config import ZgConfig
from wstar.experiments.papers.parts import Part, Within
from wstar.experiments.papers.zg_training import local_decay
from wstar.kernels.angles import angles
from wstar.networks.student import symmetric_start
from wstar.networks.teacher import Teacher, random_teacher
from wstar.risks.empirical import EmpiricalRisk
from wstar.theory.alignment import recovery_report

# neurons of the start whose step is taken from samples, and the rank of its teacher
SAMPLE_WIDTH, _SAMPLE_RANK = 64, 2
# a run from samples is judged within this angle, rad; its epochs, and what each may take
LEARNT_WITHIN, _EPOCHS, _STEPS = 0.1, 6, 3000


@lru_cache(maxsize=1)
def _hidden(rank: int) -> Teacher:
    # one teacher in all dimensions: only d may change
    return random_teacher(rank, rank, rank + 1, 0.4, 0.3, seed=0)


def _embedded(dim: int) -> Teacher:
    hidden = _hidden(_SAMPLE_RANK)
    return Teacher(hidden.outputs, np.pad(hidden.weights, ((0, 0), (0, dim - _SAMPLE_RANK))))


def from_samples(config: ZgConfig, dim: int, within: Within) -> Part:
    """The first step taken on N rows: how far its neurons and their common span are from the teacher's.

    The labels are preprocessed on the same rows. For each data set, ``neuron`` is the median angle of a neuron to the
    teacher's span, ``span`` the largest principal angle between that and the r leading singular directions of all
    neurons together, ``nearest`` the largest angle of a teacher neuron to its nearest neuron.
    """
    teacher, rows = _embedded(dim), []
    for k, ratio in enumerate(sorted(config.sample_ratios)):
        n_rows = max(dim + 2, round(ratio * dim**2))
        row: Part = {"ratio": ratio, "samples": n_rows, "neuron": [], "span": [], "nearest": []}
        for draw in range(config.sample_draws):
            within((k + draw / config.sample_draws) / len(config.sample_ratios))
            rng = np.random.default_rng([dim, k, draw])
            X = rng.standard_normal((n_rows, dim))
            stepped = first_step(EmpiricalRisk(X, teacher(X)), symmetric_start(SAMPLE_WIDTH, dim, rng))
            outside = np.linalg.norm(stepped.directions[:, _SAMPLE_RANK:], axis=1)
            row["neuron"].append(float(np.median(np.arcsin(np.minimum(outside, 1.0)))))
            row["span"].append(principal_angle(stepped.weights, _SAMPLE_RANK))
            row["nearest"].append(float(angles(stepped.directions, teacher.directions).min(axis=0).max()))
        rows.append(row)
    return {"dim": dim, "rank": _SAMPLE_RANK, "width": SAMPLE_WIDTH, "rows": rows}


def principal_angle(weights: Float[np.ndarray, "m d"], rank: int) -> float:
    """Largest angle between the first ``rank`` axes and the span of the leading singular directions of ``weights``."""
    leading = np.linalg.svd(weights, full_matrices=False)[2][:rank]
    # its sine, the part outside, has no loss of digits at small angles
    outside = float(np.linalg.svd(leading[:, rank:], compute_uv=False)[0])
    return float(np.arcsin(min(outside, 1.0)))


def learnt(config: ZgConfig, dim: int, within: Within) -> Part:
    """Algorithm 1 whole on N rows without noise; recovered where every mass stands, to 5 %, within 0.1 rad.

    Gradient descent on the empirical risk: six epochs of at most 3,000 steps, λ from where the teacher allows.
    """
    teacher, rows = _embedded(dim), []
    first = local_decay(teacher, config.weight_decay)
    for k, ratio in enumerate(sorted(config.learn_ratios)):
        n_rows = max(dim + 2, round(ratio * dim**2))
        row: Part = {"ratio": ratio, "samples": n_rows, "recovered": [], "angle": []}
        for draw in range(config.learn_draws):
            within((k + draw / config.learn_draws) / len(config.learn_ratios))
            X = np.random.default_rng([dim, k, draw, 7]).standard_normal((n_rows, dim))
            student = three_stage(
                EmpiricalRisk(X, teacher(X)),
                SAMPLE_WIDTH,
                draw,
                first,
                _EPOCHS,
                max_steps=_STEPS,
                certify=False,
                orders=(),
                records_per_decade=1,
            ).student
            report = recovery_report(student, teacher, LEARNT_WITHIN)
            row["recovered"].append(report.recovered)
            row["angle"].append(report.largest_heavy_angle)
        rows.append(row)
    return {"dim": dim, "width": SAMPLE_WIDTH, "within": LEARNT_WITHIN, "rows": rows}
