"""The books of a sweep that goes on: which runs have ended, and what of it is safe on the disk."""

from collections.abc import Sequence
from pathlib import Path

from wstar.experiments.study.line_log import DONE, FAILED, LineLog, Record
from wstar.experiments.study.store import SweepFolder


class Book:
    """Which runs have ended; what it enters is in the log, and failures are in their own files."""

    def __init__(self, folder: SweepFolder, log: LineLog, *, again: bool = False) -> None:
        """From the log, and from what workers of a process that was killed have left behind, once they are done."""
        self.folder, self._log, self._taken = folder, log, list[Path]()
        self.done: set[int] = set()
        self.failed: set[int] = set()
        for record in log.read():
            self._count(record)
        for path in folder.left_behind():
            with LineLog(path) as left:
                self.enter(left.read(), path)
        self.tidy()
        if again:
            self.failed.clear()

    @property
    def ended(self) -> int:
        """How many runs have."""
        return len(self.done) + len(self.failed)

    def has(self, run: int) -> bool:
        """Whether a run has ended."""
        return run in self.done or run in self.failed

    def enter(self, records: Sequence[Record], path: Path | None = None) -> None:
        """Put down what is new among ``records``; ``path``, where a worker kept them, is no longer needed then."""
        new = [record for record in records if not self.has(record["run"])]
        for record in new:
            if record["status"] == FAILED:
                self.folder.quarantine(record)
            else:
                self.folder.failure_file(record["run"]).unlink(missing_ok=True)
        safe = self._log.append(new)
        for record in new:
            self._count(record)
        if path:
            self._taken.append(path)
        if safe:
            self.tidy()

    def _count(self, record: Record) -> None:
        if record["status"] == DONE:
            self.failed.discard(record["run"])
            self.done.add(record["run"])
        elif record["run"] not in self.done:
            self.failed.add(record["run"])

    def tidy(self) -> None:
        """Have the log on the disk, and remove what workers kept of its runs."""
        self._log.sync()
        while self._taken:
            self._taken.pop().unlink(missing_ok=True)
