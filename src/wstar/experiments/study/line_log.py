"""A file of JSON lines that only grows: what is in it stays, whatever is killed and however full the disk is."""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from wstar.experiments.plain import plain

# what is said of one run: its number as run, its status, seconds, and its summary or its error and traceback
Record = dict[str, Any]
DONE, FAILED = "done", "failed"
# a kill loses nothing that was written, only a machine that fails what is not yet on the disk
_SYNC_SECONDS = 2.0


class LineLog:
    """One process writes at a time: another one waits until the first has closed the file, or is gone."""

    def __init__(self, path: Path) -> None:
        """Of a file that is made when the log is entered."""
        self.path, self._file, self._synced = path, -1, time.monotonic()

    def __enter__(self) -> "LineLog":
        """Open the file, wait for whoever writes it, and cut off a line that was left half-written."""
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        text = self.path.read_bytes()
        whole = text.rfind(b"\n") + 1
        if whole < len(text):
            os.ftruncate(self._file, whole)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the file, which lets others have it."""
        os.close(self._file)

    def append(self, records: Sequence[Record]) -> bool:
        """Add ``records``, all or none; whether all of the file is on the disk by now, which it is every two seconds.

        Raises:
            OSError: the disk is full, or the file cannot be written.
        """
        lines = "".join(json.dumps(plain(record), allow_nan=False) + "\n" for record in records).encode()
        before = os.fstat(self._file).st_size
        try:
            while lines:
                lines = lines[os.write(self._file, lines) :]
        except OSError:
            os.ftruncate(self._file, before)
            raise
        if time.monotonic() - self._synced < _SYNC_SECONDS:
            return False
        self.sync()
        return True

    def sync(self) -> None:
        """Have all of it on the disk."""
        os.fsync(self._file)
        self._synced = time.monotonic()

    def read(self) -> list[Record]:
        """All records."""
        return list(read_lines(self.path))


def read_lines(path: Path) -> Iterator[Record]:
    """The records of a log that somebody may be writing: a line without an end is left out.

    Raises:
        ValueError: a line that is not JSON.
    """
    if not path.is_file():
        return
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.endswith(b"\n"):
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise ValueError(f"{path}, line {number} is damaged ({error}): delete that line") from None
