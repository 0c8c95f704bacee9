"""What a sweep costs beside its runs: two workers against one, 1 s a run, and 10,000 runs of 50 ms.

    python benchmarks/sweep.py [scaling|overhead|many] [--runs N]

The last two take sleep for work, so that they measure the sweep alone.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import xarray as xr

from wstar.experiments.local_pool import LocalPool
from wstar.experiments.study.store import SweepFolder
from wstar.experiments.study.study import Study
from wstar.experiments.study.sweep import SweepProgress, run_sweep
from wstar.experiments.study.worker import Task, Work

WORKERS = 2


def sleep(seconds: float, runs: Sequence[dict[str, Any]]) -> list[dict[str, float]]:
    """A run that does nothing for a while."""
    time.sleep(seconds)
    return [{"slept": seconds} for _ in runs]


class Clock:
    """Callback that notes how many runs had ended at what time."""

    def __init__(self) -> None:
        """Started now."""
        self.times, self.ended = [time.perf_counter()], [0]

    def __call__(self, progress: SweepProgress) -> None:
        """Note one look at the sweep."""
        self.times.append(time.perf_counter())
        self.ended.append(progress.ended)

    def steady(self) -> tuple[float, int]:
        """Seconds and runs from when every worker had ended one to the end."""
        first = next(k for k, ended in enumerate(self.ended) if ended >= WORKERS)
        return self.times[-1] - self.times[first], self.ended[-1] - self.ended[first]

    def longest_pause(self) -> float:
        """Longest time without a look, once the workers were up."""
        first = next(k for k, ended in enumerate(self.ended) if ended)
        return max(b - a for a, b in zip(self.times[first:-1], self.times[first + 1 :], strict=True))


def swept(study: dict[str, Any], workers: int, task: Task | None = None) -> tuple[float, Clock, Path]:
    """Seconds that a sweep takes with everything, and its clock."""
    folder = SweepFolder.start(Path(tempfile.mkdtemp()) / "sweep", Study.build(study))
    clock, began = Clock(), time.perf_counter()
    run_sweep(folder, lambda work: _pool(work, workers), task=task, on_progress=clock)
    return time.perf_counter() - began, clock, folder.path


def _pool(work: Work, workers: int) -> LocalPool:
    return LocalPool(work, workers)


def scaling(runs: int) -> None:
    """Runs of truncated descent, each by itself, on one worker and on two."""
    study = {
        "experiment": "truncate",
        "base": {"dim": 20, "width": 60, "n_steps": 20_000},
        "grid": {"learning_rate": {"start": 0.05, "stop": 0.1, "num": runs}},
    }
    seconds = {workers: swept(study, workers)[0] for workers in (1, WORKERS)}
    print(f"{runs} runs of truncate: {seconds[1]:.1f} s on one worker, {seconds[WORKERS]:.1f} s on two, ratio "
          f"{seconds[1] / seconds[WORKERS]:.2f}")  # fmt: skip


def overhead(runs: int) -> None:
    """Time that passes beside runs of one second."""
    study = {"experiment": "truncate", "grid": {"seed": {"start": 0, "stop": runs - 1, "num": runs}}}
    _, clock, _ = swept(study, WORKERS, Task(partial(sleep, 1.0)))
    seconds, ended = clock.steady()
    print(f"{runs} runs of 1 s on {WORKERS} workers: {100 * (WORKERS * seconds / ended - 1):.2f} % beside them")


def many(runs: int) -> None:
    """Very many short runs: throughput, longest pause between two looks, memory, and the tables at the end."""
    study = {"experiment": "truncate", "grid": {"seed": {"start": 0, "stop": runs - 1, "num": runs}}}
    total, clock, path = swept(study, WORKERS, Task(partial(sleep, 0.05)))
    seconds, ended = clock.steady()
    assert xr.open_zarr(path / "results.zarr").slept.notnull().all()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    beside = 100 * (WORKERS * seconds / ended / 0.05 - 1)
    print(f"{runs:,} runs of 50 ms on {WORKERS} workers: {beside:.1f} % beside them, {total:.0f} s in all")
    print(f"longest pause between two looks {clock.longest_pause():.2f} s, at most {memory:.0f} MB")
    began = time.perf_counter()
    SweepFolder.open(path).describe()
    print(f"status of {runs:,} runs: {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", choices=("scaling", "overhead", "many"))
    parser.add_argument("--runs", type=int)
    chosen = parser.parse_args()
    for part, usual in ((scaling, 40), (overhead, 40), (many, 10_000)):
        if chosen.part in (None, part.__name__):
            part(chosen.runs or usual)
