"""What a worker does with a chunk of runs, on this machine or on a cluster."""

import time
import traceback
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wstar import __version__
from wstar.experiments.study.line_log import DONE, FAILED, LineLog, Record

Fields = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """What a run is: ``measure`` turns settings into numbers; several at a time where ``alike`` says the same."""

    measure: Callable[[Sequence[Fields]], Sequence[dict[str, float]]]
    alike: Callable[[Fields], Hashable] | None = None


@dataclass(frozen=True)
class Chunk:
    """Runs that go to a worker together: number and settings of each."""

    name: str
    runs: tuple[tuple[int, Fields], ...]


@dataclass(frozen=True)
class Work:
    """What the workers of a sweep are told once.

    Attributes:
        task: what a run is.
        folder: of the sweep; a worker that does not see it leaves all writing to the process that leads.
        word: of the process that leads, as in its ``lead_file``; where that says another one, work is stopped.
        version: of wstar.
    """

    task: Task
    folder: Path
    word: str
    version: str = __version__

    def __call__(self, chunk: Chunk) -> list[Record]:
        """Make the runs of ``chunk`` and return their records; each is written down as soon as there is one.

        A chunk that was begun before, by a worker that is gone, goes on where that one was. A run that raises has the
        status "failed" and its traceback. Where another process leads by now, the records are those made so far.
        """
        if self.version != __version__:
            raise RuntimeError(f"a worker has wstar {__version__}, the sweep is of {self.version}")
        with ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            log = self._log(chunk, stack)
            records = log.read() if log else []
            seen = {record["run"] for record in records}
            for batch in _batches([run for run in chunk.runs if run[0] not in seen], self.task.alike):
                if log and not self._leads():
                    break
                made = _attempt(self.task, batch)
                records += made
                if log and not _written(log, made):
                    log = None
        return records

    def _log(self, chunk: Chunk, stack: ExitStack) -> LineLog | None:
        try:
            return stack.enter_context(LineLog(self.folder / "chunks" / f"{chunk.name}.jsonl"))
        except OSError:
            return None

    def _leads(self) -> bool:
        try:
            return (self.folder / "lead").read_text().startswith(self.word)
        except OSError:
            return False


def _written(log: LineLog, records: list[Record]) -> bool:
    """Whether the disk took them; where it is full, the process that leads will say so."""
    try:
        log.append(records)
    except OSError:
        return False
    return True


def _attempt(task: Task, batch: list[tuple[int, Fields]]) -> list[Record]:
    """Records of a batch; where it raises, its runs are made one by one, so that only the guilty ones fail."""
    began = time.perf_counter()
    try:
        summaries = task.measure([fields for _, fields in batch])
    except Exception as error:  # noqa: BLE001 (one run that fails must not take the others with it)
        if len(batch) > 1:
            return [record for one in batch for record in _attempt(task, [one])]
        seconds = time.perf_counter() - began
        return [failed(batch[0][0], f"{type(error).__name__}: {error}", traceback.format_exc(), seconds)]
    each = (time.perf_counter() - began) / len(batch)
    return [
        {"run": run, "status": DONE, "seconds": each, "summary": dict(summary)}
        for (run, _), summary in zip(batch, summaries, strict=True)
    ]


def failed(run: int, error: str, where: str, seconds: float) -> Record:
    """The record of a run that failed: ``error`` in one line, and ``where`` in many."""
    return {"run": run, "status": FAILED, "seconds": seconds, "error": " ".join(error.split()), "traceback": where}


def _batches(
    runs: Sequence[tuple[int, Fields]], alike: Callable[[Fields], Hashable] | None
) -> Iterator[list[tuple[int, Fields]]]:
    """Neighbours that are alike together, the others alone."""
    batch: list[tuple[int, Fields]] = []
    last: Hashable = None
    for run in runs:
        key = alike(run[1]) if alike else None
        if batch and (key is None or key != last):
            yield batch
            batch = []
        batch.append(run)
        last = key
    if batch:
        yield batch
