"""``wstar reproduce lmz``: LMZ's figures and rates; each part is on disk as it is done, so a killed run goes on."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from wstar import __version__
from wstar.algorithms.truncated.run import TruncatedProgress
from wstar.algorithms.truncated.truncation import stage_one_steps, stage_two_steps
from wstar.experiments.config import LmzConfig
from wstar.experiments.papers import lmz_parts
from wstar.experiments.papers.parts import Job, OnProgress, Part, Within, run_parts, whole
from wstar.experiments.store import FileCheckpoint, RunFolder
from wstar.theory.claims.verdict import fit_exponent

KIND = "lmz"
STAGES = ("settled", "plateau_end", "warm", "fitted")


def prepare(config: LmzConfig) -> list[Job]:
    """The parts in order, short ones first.

    Raises:
        ValueError: seeds that repeat or are negative, widths that do not divide the widest, sizes below 2.
    """
    for name in ("seeds", "dim_seeds", "dims", "baseline_dims", "limit_widths"):
        values, least = getattr(config, name), 0 if name.endswith("seeds") else 2
        if len(set(values)) < len(values) or min(values) < least:
            raise ValueError(f"{name}={values}: different whole numbers of at least {least} are expected")
    most = max(config.limit_widths)
    for width in config.limit_widths:
        if most % width:
            raise ValueError(f"limit_widths={config.limit_widths}: {width} does not divide the widest, {most}")
    return list(_jobs(config))


def _jobs(config: LmzConfig) -> Iterator[Job]:
    panels = (("wide", config.wide, config.wide_steps), ("narrow", config.narrow, config.narrow_steps))
    rate = config.learning_rate
    for name, width, steps in panels:
        cost = 1.0 * len(config.seeds) * steps * width * (width + config.dim)
        yield Job(f"{name}-population", cost, whole(partial(lmz_parts.on_population, config, width, steps)))
    length = 4.0 * stage_one_steps(config.limit_dim, rate)
    cost = length * (config.limit_particles + max(config.limit_widths)) * config.limit_particles * config.limit_dim
    yield Job("infinite-width", cost, whole(partial(lmz_parts.against_infinite_width, config)))
    for dim in config.dims:
        length = 1.5 * (stage_one_steps(dim, rate) + stage_two_steps(dim, rate))
        cost = len(config.dim_seeds) * length * config.width_factor * (config.width_factor + 1) * dim**2
        yield Job(f"dimension-{dim}", cost, whole(partial(lmz_parts.at_dimension, config, dim)))
    for dim in config.baseline_dims:
        rows = config.samples_per_square * dim**2
        # beside the matrix, the penalty is chosen by an eigendecomposition of at most 2,000 rows
        cost = 30.0 * rows**2 + 5.0 * min(rows, 2000) ** 3
        yield Job(f"baselines-{dim}", cost, whole(partial(lmz_parts.against_baselines, config, dim)))
    for name, width, steps in panels:
        for seed in config.seeds:
            cost = 0.4 * steps * width * config.samples
            yield Job(f"{name}-samples-{seed}", cost, partial(_on_samples, config, width, steps, seed))


def _on_samples(
    config: LmzConfig, width: int, steps: int, seed: int, checkpoint: FileCheckpoint, within: Within
) -> Part:
    def tell(progress: TruncatedProgress) -> None:
        within(progress.step / max(progress.n_steps, 1))

    return lmz_parts.on_samples(config, width, steps, seed, checkpoint, tell)


def run_lmz(config: LmzConfig, jobs: list[Job], run: RunFolder, on_progress: OnProgress = None) -> dict[str, Any]:
    """Compute the parts that the folder still lacks, then write the result, which holds all of them.

    Raises:
        ValueError: a part in the folder that is damaged.
    """
    return run_parts(jobs, run, partial(summarise, config), on_progress)


def summarise(config: LmzConfig, parts: dict[str, Part]) -> dict[str, Any]:
    """The contents of result.json, less the seconds: all parts by what they show, and what follows from them."""
    panels = {}
    for name, width, steps in (
        ("wide", config.wide, config.wide_steps),
        ("narrow", config.narrow, config.narrow_steps),
    ):
        samples = [parts[f"{name}-samples-{seed}"] for seed in config.seeds]
        panels[name] = {
            "width": width,
            "steps": steps,
            "samples": {"runs": samples} | describe(samples),
            "population": {"runs": parts[f"{name}-population"]["runs"]} | describe(parts[f"{name}-population"]["runs"]),
        }
    dimensions = [parts[f"dimension-{dim}"] for dim in config.dims]
    limit = parts["infinite-width"]
    return {
        "kind": KIND,
        "wstar": __version__,
        "status": "finished",
        "quick": config.quick,
        "dim": config.dim,
        "samples": config.samples,
        "learning_rate": config.learning_rate,
        "panels": panels,
        "dimensions": dimensions,
        "exponents": exponents(dimensions),
        "baselines": [parts[f"baselines-{dim}"] for dim in config.baseline_dims],
        "infinite_width": limit | {"exponents": width_exponents(limit)},
    }


def describe(runs: list[Part]) -> dict[str, Any]:
    """Where LMZ's account of a stuck run (order 0 below 0.01; orders 2, 4 and 6 above 0.1) holds, run by run.

    ``stuck`` counts runs of which it holds at the last step, ``last_stuck`` is the last recorded step of each run at
    which it does, ``last_waiting`` the last at which it does without asking for order 2; null where at none.
    """
    last: list[int | None] = []
    waiting: list[int | None] = []
    stuck = 0
    for run in runs:
        losses = dict(zip(run["order"], np.array(run["relative"]).T, strict=True))
        waits = (losses[0] < 1e-2) & (losses[4] > 0.1) & (losses[6] > 0.1)
        held = waits & (losses[2] > 0.1)
        stuck += bool(held[-1])
        for where, found in ((last, held), (waiting, waits)):
            where.append(run["step"][int(np.flatnonzero(found)[-1])] if found.any() else None)
    return {
        "stuck": stuck,
        "waiting": sum(bool(step == run["step"][-1]) for step, run in zip(waiting, runs, strict=True)),
        "last_stuck": last,
        "last_waiting": waiting,
        "fitted": sum(max(run["relative"][-1]) <= 0.01 for run in runs),
        "found": sum(run["least_cosine"][-1] >= 0.95 for run in runs),
    }


def exponents(dimensions: list[Part]) -> dict[str, Any]:
    """Fitted exponents in d of stage times and final loss, and the slope that the paper's form has over the same d."""
    dims = np.array([part["dim"] for part in dimensions], dtype=float)
    forms = {"settled": dims * np.log(dims), "plateau_end": dims**2 / np.log(dims), "loss": 1.0 / dims}
    fits = {}
    for name in (*STAGES, "loss"):
        fit = _fit(dimensions, name)
        form = forms.get(name)
        slope = None if form is None else float(np.polyfit(np.log(dims), np.log(form), 1)[0])
        fits[name] = None if fit is None else fit | {"paper": slope}
    return fits


def _fit(dimensions: list[Part], name: str) -> dict[str, Any] | None:
    """Over all runs that got there; None where they are too few or at too few dimensions."""
    pairs = [(part["dim"], run[name]) for part in dimensions for run in part["runs"] if run[name]]
    if len({dim for dim, _ in pairs}) < 4:
        return None
    fit = fit_exponent([dim for dim, _ in pairs], [value for _, value in pairs])
    return {"exponent": fit.exponent, "constant": fit.constant, "interval": list(fit.interval), "points": len(pairs)}


def width_exponents(limit: Part) -> dict[str, Any]:
    """The exponent of ξ in m at the end of Stage 1.1, of Stage 1 and of the run."""
    widths = [row["width"] for row in limit["rows"]]
    found = {}
    for name, step in limit["marks"].items():
        at = limit["step"].index(step)
        fit = fit_exponent(widths, [row["distance"][at] for row in limit["rows"]])
        found[name] = {"step": step, "exponent": fit.exponent, "constant": fit.constant, "interval": list(fit.interval)}
    return found
