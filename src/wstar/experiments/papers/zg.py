"""``wstar reproduce zg``: every experiment that ZG's statements call for, from one config."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from wstar import __version__
from wstar.experiments.config import ZgConfig
from wstar.experiments.papers import zg_first_step, zg_hard, zg_recovery, zg_samples, zg_training
from wstar.experiments.papers.parts import Job, OnProgress, Part, run_parts, told
from wstar.experiments.papers.zg_summary import (
    SPAN_FOUND,
    collapse,
    frozen_summary,
    gap_within_epochs,
    learnt_summary,
    net_fits,
    theorem_two_fits,
    with_shares,
)
from wstar.experiments.papers.zg_teachers import geometries, kappa_teacher, pair_teacher
from wstar.experiments.store import RunFolder
from wstar.networks.teacher import random_teacher

KIND = "zg"
_LISTS = {
    "seeds": 0, "net_ranks": 2, "net_dims": 5, "net_widths": 1, "frozen_ranks": 2, "frozen_widths": 2, "sample_dims": 3,
    "learn_dims": 3, "phase_widths": 4, "phase_ranks": 2,
}  # fmt: skip
_POSITIVE = ("sample_ratios", "learn_ratios", "phase_angles", "phase_decays", "hard_angles", "hard_kappas")


def prepare(config: ZgConfig) -> list[Job]:
    """The parts in order, short ones first.

    Raises:
        ValueError: lists that repeat or hold what is too small, sizes that do not go together, teachers that there
            are not.
    """
    for name in (*_LISTS, *_POSITIVE):
        values, least = getattr(config, name), _LISTS.get(name, 0)
        exact = name in _LISTS
        if len(set(values)) < len(values) or any(v < least or (not exact and v == 0) for v in values):
            wanted = f"whole numbers of at least {least}" if exact else "numbers above 0"
            raise ValueError(f"{name}={values}: different {wanted} are expected")
    for name in ("phase_angles", "hard_angles"):
        if max(getattr(config, name)) > 0.5 * np.pi:
            raise ValueError(f"{name}={getattr(config, name)}: angles modulo sign are at most π/2 rad")
    for name, widths in (("width", [config.width]), ("phase_widths", config.phase_widths)):
        if any(width % 2 for width in widths):
            raise ValueError(f"{name}={getattr(config, name)}: even numbers are expected, the start pairs the neurons")
    most = max(config.rank, *config.frozen_ranks, *config.phase_ranks)
    if config.dim < most:
        raise ValueError(f"dim={config.dim} is below the largest rank, {most}: raise it")
    if config.teacher_width <= config.rank:
        raise ValueError(
            f"teacher_width={config.teacher_width} must be above rank={config.rank}: outputs are solved for"
        )
    if config.width < config.teacher_width:
        raise ValueError(f"width={config.width} is below the teacher's {config.teacher_width} neurons")
    for first in (config.phase_decay, *config.phase_decays):
        if first < config.last_decay:
            raise ValueError(f"last_decay={config.last_decay} is above a first λ, {first}: λ only falls")
    _check_teachers(config)
    return list(_jobs(config))


def _check_teachers(config: ZgConfig) -> None:
    """Draw one teacher of each kind at the ends of its range, so that what does not exist is refused before any work.

    Raises:
        ValueError: naming the setting.
    """
    draws: dict[str, Callable[[], object]] = {}
    for name in ("phase_angles", "hard_angles"):
        draws[name] = partial(pair_teacher, config, max(getattr(config, name)), "equal", np.random.default_rng(0))
    for value in (min(config.hard_kappas), max(config.hard_kappas)):
        draws[f"hard_kappas ({value})"] = partial(kappa_teacher, config, value, np.random.default_rng(0))
    for rank in {*config.phase_ranks, *config.frozen_ranks}:
        size = (rank, rank, rank + 1, config.min_angle, config.min_kappa)
        draws[f"min_angle, min_kappa at rank {rank}"] = partial(random_teacher, *size)
    for name, draw in geometries(config).items():
        draws[f"rank, teacher_width, min_angle, min_kappa ({name})"] = partial(draw, np.random.default_rng(0))
    for name, attempt in draws.items():
        try:
            attempt()
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None


def _jobs(config: ZgConfig) -> Iterator[Job]:
    """Costs are seconds of one core as measured at the full sizes, taken as proportional to the number of runs."""
    for rank in config.net_ranks:
        cost = 3e-5 * config.net_draws * max(config.net_widths)
        yield Job(f"net-rank-{rank}", cost, told(partial(zg_first_step.net, config, rank, zg_first_step.INFINITE)))
    for dim in config.net_dims:
        cost = 3e-5 * config.net_draws * max(config.net_widths)
        rank = sorted(config.net_ranks)[min(1, len(config.net_ranks) - 1)]
        yield Job(f"net-dim-{dim}", cost, told(partial(zg_first_step.net, config, rank, dim)))
    for dim in config.sample_dims:
        rows = sum(config.sample_ratios) * dim**2
        cost = 2.0 + 1e-7 * config.sample_draws * rows * dim
        yield Job(f"samples-{dim}", cost, told(partial(zg_samples.from_samples, config, dim)))
    for dim in config.learn_dims:
        cost = config.learn_draws * sum(2.0 + 2e-3 * ratio * dim**2 for ratio in config.learn_ratios)
        yield Job(f"learnt-{dim}", cost, told(partial(zg_samples.learnt, config, dim)))
    for seed in config.seeds:
        cost = 6.0 + 1e-3 * 1.6**config.n_epochs
        yield Job(f"theorem-2-{seed}", cost, told(partial(zg_training.end_to_end, config, seed)))
    yield from _recovery_jobs(config)


def _recovery_jobs(config: ZgConfig) -> Iterator[Job]:
    for rank in config.frozen_ranks:
        cost = 0.35 * config.frozen_draws * len(config.frozen_widths)
        yield Job(f"frozen-{rank}", cost, told(partial(zg_recovery.against_width, config, rank)))
    each = 0.11 * config.phase_draws * (len(config.phase_widths) + 1)
    for k, angle in enumerate(config.phase_angles):
        yield Job(f"phase-angle-{k}", each, told(partial(zg_recovery.at_angle, config, angle)))
    for rank in config.phase_ranks:
        yield Job(f"phase-rank-{rank}", 0.3 * rank * each, told(partial(zg_recovery.at_rank, config, rank)))
    for k, decay in enumerate(config.phase_decays):
        yield Job(f"phase-decay-{k}", each, told(partial(zg_recovery.at_decay, config, decay)))
    each = 0.5 * config.hard_draws
    for signs in ("equal", "opposite"):
        cost = each * len(config.hard_angles)
        yield Job(f"hard-{signs}", cost, told(partial(zg_hard.parallel, config, signs)))
    yield Job("hard-kappa", each * len(config.hard_kappas), told(partial(zg_hard.degenerate, config)))
    yield Job("hard-geometry", 6.0 * each, told(partial(zg_hard.geometry, config)))
    yield Job("hard-activations", 5.0 * each, told(partial(zg_hard.activations, config)))


def run_zg(config: ZgConfig, jobs: list[Job], run: RunFolder, on_progress: OnProgress = None) -> dict[str, Any]:
    """Compute the parts that the folder still lacks, then write the result, which holds all of them.

    Raises:
        ValueError: a part in the folder that is damaged.
    """
    return run_parts(jobs, run, partial(summarise, config), on_progress)


def summarise(config: ZgConfig, parts: dict[str, Part]) -> dict[str, Any]:
    """The contents of result.json, less the seconds: all parts by what they show, and what follows from them."""
    runs = [parts[f"theorem-2-{seed}"] for seed in config.seeds]
    nets = [parts[f"net-rank-{rank}"] for rank in config.net_ranks]
    samples = [parts[f"samples-{dim}"] for dim in config.sample_dims]
    frozen = [parts[f"frozen-{rank}"] for rank in config.frozen_ranks]
    return {
        "kind": KIND,
        "wstar": __version__,
        "status": "finished",
        "quick": config.quick,
        "sizes": config.model_dump(),
        "theorem_2": {"runs": runs, "fits": theorem_two_fits(runs), "gap": gap_within_epochs(runs)},
        "nets": [part | {"fits": net_fits(part)} for part in nets],
        "net_dims": [parts[f"net-dim-{dim}"] for dim in config.net_dims],
        "samples": {"dims": samples, "collapse": collapse(samples), "found": SPAN_FOUND},
        "learnt": learnt_summary([parts[f"learnt-{dim}"] for dim in config.learn_dims]),
        "frozen": [part | frozen_summary(part) for part in frozen],
        "phases": {
            "angle": [with_shares(parts[f"phase-angle-{k}"]) for k in range(len(config.phase_angles))],
            "rank": [with_shares(parts[f"phase-rank-{rank}"]) for rank in config.phase_ranks],
            "decay": [with_shares(parts[f"phase-decay-{k}"]) for k in range(len(config.phase_decays))],
        },
        "hard": {
            name: [with_shares(row) for row in parts[f"hard-{name}"]["rows"]]
            for name in ("equal", "opposite", "kappa", "geometry", "activations")
        },
    }
