"""Run a study: hand out what is left, put down what comes back, and go on whatever is killed."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from wstar import __version__
from wstar.experiments import registry
from wstar.experiments.pool import Pool
from wstar.experiments.store import write_json
from wstar.experiments.study.book import Book
from wstar.experiments.study.plan import Plan
from wstar.experiments.study.store import SweepFolder
from wstar.experiments.study.study import KIND
from wstar.experiments.study.tables import collect
from wstar.experiments.study.worker import Task, Work

_PAUSE = 0.25


@dataclass(frozen=True)
class SweepProgress:
    """How many runs have ended, how many of these failed, of how many, and how many end in a second."""

    ended: int
    failed: int
    total: int
    rate: float


OnProgress = Callable[[SweepProgress], None] | None


def run_sweep(
    folder: SweepFolder,
    open_pool: Callable[[Work], Pool],
    *,
    again: bool = False,
    task: Task | None = None,
    on_progress: OnProgress = None,
) -> dict[str, Any]:
    """Make the runs that ``folder`` lacks, then its tables; returns the numbers that end up in result.json.

    Args:
        folder: of the sweep.
        open_pool: makes of the work that is to be done the workers that do it.
        again: also make the runs again that have failed.
        task: what a run is; None for the study's experiment.
        on_progress: called a few times a second.

    Raises:
        ValueError: another process leads the sweep, a file of it is damaged, or the workers are gone.
        OSError: the disk is full, or cannot be written; what has ended is safe.
    """
    kind = folder.study.experiment
    task = task or Task(partial(registry.measure, kind), partial(registry.alike, kind))
    with folder.lead() as word, folder.log() as log:
        book = Book(folder, log, again=again)
        plan = Plan(book, task)
        if plan.left:
            with open_pool(Work(task, folder.path.resolve(), word)) as pool:
                _work_off(book, plan, pool, on_progress)
        book.tidy()
        collect(folder)
        said = folder.describe()
        if said["pending"] == 0:
            write_json(folder.path / "result.json", _result(said))
    return said


def _result(said: dict[str, Any]) -> dict[str, Any]:
    return {"kind": KIND, "wstar": __version__, "status": "finished"} | said


def _work_off(book: Book, plan: Plan, pool: Pool, on_progress: OnProgress) -> None:
    began, before = time.perf_counter(), book.ended
    while plan.left or pool.busy:
        while pool.room and (chunk := plan.next(pool.size)):
            pool.submit(chunk)
        for ended in pool.wait(_PAUSE):
            plan.settle(ended)
        if on_progress:
            rate = (book.ended - before) / max(time.perf_counter() - began, 1e-9)
            on_progress(SweepProgress(book.ended, len(book.failed), book.folder.study.n_runs, rate))
