"""Cheap runs for the tests of sweeps, where workers of every sort can import them, and a process that leads a sweep."""

import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from wstar.experiments.study.worker import Task


def marking(marks: Path, seconds: float, runs: Sequence[dict[str, Any]]) -> list[dict[str, float]]:
    """Take a while, then leave a mark for every run that was made."""
    for fields in runs:
        time.sleep(seconds)
        with marks.open("a") as file:
            file.write(f"{fields['seed']}\n")
    return [{"twice": 2.0 * fields["seed"]} for fields in runs]


def failing(marks: Path, bad: int, runs: Sequence[dict[str, Any]]) -> list[dict[str, float]]:
    """Like :func:`marking`, but the run with the seed ``bad`` raises."""
    if any(fields["seed"] == bad for fields in runs):
        raise ArithmeticError(f"no good at\nseed {bad}")
    return marking(marks, 0.0, runs)


def deadly(marks: Path, bad: int, runs: Sequence[dict[str, Any]]) -> list[dict[str, float]]:
    """Like :func:`marking`, but the run with the seed ``bad`` takes its process with it."""
    if any(fields["seed"] == bad for fields in runs):
        os.kill(os.getpid(), signal.SIGKILL)
    return marking(marks, 0.0, runs)


def together(runs: Sequence[dict[str, Any]]) -> list[dict[str, float]]:
    """How many runs came together."""
    return [{"together": float(len(runs))} for _ in runs]


def same_rate(fields: dict[str, Any]) -> float:
    """What makes two runs alike."""
    return float(fields["learning_rate"])


def reciprocal(x: int) -> float:
    """Raises where x is 0."""
    return 1 / x


def threads(_: None) -> tuple[str | None, bool]:
    """How many threads this process is told to compute on."""
    return os.environ.get("NPROC"), "--xla_cpu_multi_thread_eigen=false" in os.environ.get("XLA_FLAGS", "")


def lead(folder: str, marks: str, n: str, seconds: str, scheduler: str = "", most_bytes: str = "") -> None:
    """Lead a sweep of ``n`` runs, on two processes or where ``scheduler`` says; files may be limited in size."""
    if most_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(most_bytes), int(most_bytes)))
    from wstar.experiments.local_pool import LocalPool
    from wstar.experiments.study.cluster import ClusterPool
    from wstar.experiments.study.store import SweepFolder
    from wstar.experiments.study.study import Study
    from wstar.experiments.study.sweep import run_sweep

    study = Study.build(seeds(int(n)))
    task = Task(partial(marking, Path(marks), float(seconds)))
    open_pool = (lambda work: ClusterPool(work, scheduler)) if scheduler else (lambda work: LocalPool(work, 2))
    run_sweep(SweepFolder.start(folder, study), open_pool, task=task)


def seeds(n: int) -> dict[str, Any]:
    """A study with a run for each of ``n`` seeds."""
    return {"experiment": "truncate", "repeats": n}


if __name__ == "__main__":
    lead(*sys.argv[1:])
