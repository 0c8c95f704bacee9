"""What a sweep does next: the runs that are left, in chunks that are worth handing out."""

import time
from collections import deque
from collections.abc import Hashable, Iterator
from statistics import median_low

from wstar.experiments.pool import Ended
from wstar.experiments.study.book import Book
from wstar.experiments.study.line_log import LineLog
from wstar.experiments.study.worker import Chunk, Task, failed

# a chunk takes about this long, so that handing it out costs nothing beside it and a kill costs little
_CHUNK_SECONDS = 0.5
_MOST_IN_CHUNK = 200
# runs of equal shape that go together, at most; beyond that they gain nothing more
_MOST_TOGETHER = 32
# a run that took its worker with it so many times is given up
_MOST_DEATHS = 3


class Plan:
    """The runs that are left, in chunks of about half a second; runs that are alike go together."""

    def __init__(self, book: Book, task: Task) -> None:
        """Of all runs that are not in ``book``; none is listed before its turn."""
        self._book, self._task, self._study = book, task, book.folder.study
        self._coming: Iterator[int] = (run for run in range(self._study.n_runs) if not book.has(run))
        self._ahead = next(self._coming, None)
        self._alone: deque[int] = deque()
        self._deaths: dict[int, int] = {}
        self._recent: deque[float] = deque(maxlen=15)
        self._n_chunks = 0

    @property
    def left(self) -> bool:
        """Whether there is anything to hand out."""
        return self._ahead is not None or bool(self._alone)

    def next(self, workers: int) -> Chunk | None:
        """The next chunk; None where nothing is left."""
        if self._alone:
            return self._chunk([self._alone.popleft()])
        if self._ahead is None:
            return None
        # towards the end chunks get smaller, lest one worker be left with many runs and the others with none
        share = max(1, (self._study.n_runs - self._book.ended) // workers)
        usual = round(_CHUNK_SECONDS / max(median_low(self._recent), 1e-9)) if self._recent else 1
        wanted, together = max(1, min(usual, _MOST_IN_CHUNK, share // 2)), min(_MOST_TOGETHER, share)
        runs: list[int] = []
        key: Hashable = None
        while self._ahead is not None:
            last, key = key, self._key(self._ahead)
            same = key is not None and key == last
            if len(runs) >= (max(wanted, together) if same else wanted):
                break
            runs.append(self._ahead)
            self._ahead = next(self._coming, None)
        return self._chunk(runs)

    def settle(self, ended: Ended) -> None:
        """Put down what became of a chunk; what its worker did not get to comes again, run by run."""
        chunk: Chunk = ended.item
        path = self._book.folder.chunks / f"{chunk.name}.jsonl"
        if ended.died is None:
            self._recent.append(sum(record["seconds"] for record in ended.result) / max(len(ended.result), 1))
            self._book.enter(ended.result, path)
        else:
            with LineLog(path) as left:
                self._book.enter(left.read(), path)
        rest = [run for run, _ in chunk.runs if not self._book.has(run)]
        if rest and ended.died is None:
            raise ValueError(f"{self._book.folder.lead_file} no longer names this process: another one leads the sweep")
        if ended.died and len(chunk.runs) == 1:
            self._blame(rest, ended)
        self._alone.extend(run for run in rest if not self._book.has(run))

    def _blame(self, rest: list[int], ended: Ended) -> None:
        for run in rest:
            self._deaths[run] = self._deaths.get(run, 0) + ended.deaths
            if self._deaths[run] >= _MOST_DEATHS:
                error = f"the worker {ended.died}, {self._deaths[run]} times in a row, while it made this run"
                self._book.enter([failed(run, error, "(no traceback: the process was gone)", 0.0)])

    def _chunk(self, runs: list[int]) -> Chunk:
        self._n_chunks += 1
        first = f"{time.time_ns():x}-{self._n_chunks}"
        return Chunk(first, tuple((run, self._study.fields(run)) for run in runs))

    def _key(self, run: int) -> Hashable:
        return self._task.alike(self._study.fields(run)) if self._task.alike else None
