"""A study made of parts: each part is on disk as soon as it is done, so a killed run goes on with what is missing."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from wstar.experiments.store import FileCheckpoint, RunFolder, write_json

Part = dict[str, Any]
# told how far the part is, from 0 to 1
Within = Callable[[float], None]


@dataclass(frozen=True)
class PartProgress:
    """Which part runs, and how much of all the work is done."""

    name: str
    done: float
    total: float


OnProgress = Callable[[PartProgress], None] | None


@dataclass(frozen=True)
class Job:
    """One part: its name is its file's; ``cost`` is about proportional to its time."""

    name: str
    cost: float
    compute: Callable[[FileCheckpoint, Within], Part]


def packaged_config(paper: str, *, quick: bool) -> Path:
    """The settings of a reproduction that come with the package."""
    name = f"{paper}-quick.toml" if quick else f"{paper}.toml"
    return Path(str(files("wstar.experiments.papers").joinpath("configs", name)))


def whole(part: Callable[[], Part]) -> Callable[[FileCheckpoint, Within], Part]:
    """A part that is short enough to be begun again."""
    return lambda checkpoint, within: part()


def told(part: Callable[[Within], Part]) -> Callable[[FileCheckpoint, Within], Part]:
    """A part that says how far it is, and is begun again after a kill."""
    return lambda checkpoint, within: part(within)


def run_parts(
    jobs: Sequence[Job],
    run: RunFolder,
    summarise: Callable[[dict[str, Part]], dict[str, Any]],
    on_progress: OnProgress = None,
) -> dict[str, Any]:
    """Compute the parts that the folder still lacks, then write what ``summarise`` makes of all of them, by name.

    Raises:
        ValueError: a part in the folder that is damaged.
    """
    began, folder, checkpoints = time.perf_counter(), run.path / "parts", run.path / "checkpoint"
    folder.mkdir(exist_ok=True)
    checkpoints.mkdir(exist_ok=True)
    total, done = sum(job.cost for job in jobs), 0.0
    for job in jobs:
        file = folder / f"{job.name}.json"
        if not file.is_file():

            def within(share: float, job: Job = job, done: float = done) -> None:
                if on_progress is not None:
                    on_progress(PartProgress(job.name, done + share * job.cost, total))

            within(0.0)
            started = time.perf_counter()
            part = job.compute(FileCheckpoint(checkpoints / job.name, min_seconds=5.0), within)
            write_json(file, part | {"seconds": time.perf_counter() - started})
        done += job.cost
    parts = {job.name: _read(folder / f"{job.name}.json") for job in jobs}
    result = summarise(parts)
    result["seconds"] = {
        "compute": sum(part["seconds"] for part in parts.values()),
        "total": time.perf_counter() - began,
    }
    run.write_result(result)
    # as it stands on disk, where what is not a number is null
    return run.read_result()


def _read(file: Path) -> Part:
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except ValueError as error:
        raise ValueError(f"{file} is damaged ({error}): delete it and run again") from None
