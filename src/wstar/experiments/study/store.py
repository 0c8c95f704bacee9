"""The folder of a sweep: the study, one line for every run that has ended, and what is made of them.

``sweep.json`` says the format and the study, ``runs.jsonl`` holds a line for every run that has ended, written by the
one process that leads the sweep, and ``chunks/`` what workers have done that this process has not yet taken over.
"""

import fcntl
import json
import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wstar import __version__
from wstar.experiments.store import RunFolder, versions, write_json
from wstar.experiments.study.line_log import FAILED, LineLog, Record, read_lines
from wstar.experiments.study.study import KIND, Study

FORMAT = 1


class SweepFolder:
    """A sweep on disk. Nothing that is done is ever lost, and two processes never lead one sweep."""

    def __init__(self, path: Path, study: Study) -> None:
        """Of an existing folder; :meth:`start` makes one, :meth:`open` finds one."""
        self.path, self.study = path, study

    @classmethod
    def start(cls, path: str | Path, study: Study) -> "SweepFolder":
        """A new folder, or the one that is there if it holds this very study.

        Raises:
            ValueError: the folder holds something else, or :meth:`open` refuses it.
        """
        path = Path(path)
        if (path / "sweep.json").is_file():
            folder = cls.open(path)
            if _identity(folder.study) != _identity(study):
                raise ValueError(f"{path} holds another study: choose another --out")
            return folder
        # a folder without it was left by a process that was killed as it made it
        bare = path.is_dir() and sorted(entry.name for entry in path.iterdir()) == ["config.toml"]
        if path.exists() and not (bare and RunFolder.open(path).kind == KIND):
            raise ValueError(f"{path} exists and is no sweep: it is left alone, choose another --out")
        RunFolder.create(path, KIND, study, force=bare)
        said = {"format": FORMAT, "wstar": __version__, "versions": versions(), "n_runs": study.n_runs}
        write_json(path / "sweep.json", said | {"study": study.model_dump(mode="json")})
        return cls(path, study)

    @classmethod
    def open(cls, path: str | Path) -> "SweepFolder":
        """The sweep in ``path``.

        Raises:
            ValueError: there is none, it is damaged, or a newer version of wstar wrote it.
        """
        path = Path(path)
        file = path / "sweep.json"
        if not file.is_file():
            raise ValueError(f"{path} is not the folder of a sweep: it has no sweep.json")
        try:
            said = json.loads(file.read_text())
            found, by, study = int(said["format"]), said["wstar"], said["study"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{file} is damaged ({error!r}): start over in another folder") from None
        if found > FORMAT:
            raise ValueError(
                f"{path} was written by wstar {by} in format {found}; this is wstar {__version__}, which reads formats "
                f"up to {FORMAT}: use that version, or a newer one"
            )
        return cls(path, Study.build(study, str(file)))

    @property
    def chunks(self) -> Path:
        """Where workers keep what has not been taken over."""
        return self.path / "chunks"

    @property
    def lead_file(self) -> Path:
        """Which process leads the sweep; empty when none does."""
        return self.path / "lead"

    @contextmanager
    def lead(self) -> Iterator[str]:
        """Lead the sweep, with a word that is this process's alone; workers of another one stop at their next run.

        Raises:
            ValueError: another live process does, or another version of wstar began the sweep.
        """
        begun = json.loads((self.path / "sweep.json").read_text())["wstar"]
        if begun != __version__:
            raise ValueError(f"{self.path} was begun by wstar {begun}, this is {__version__}: go on with that version")
        file = os.open(self.lead_file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                who = os.read(file, 1000).decode().partition(" ")[2].strip() or "another process"
                raise ValueError(f"{self.path} is being run by {who}: wait for it or stop it, then try again") from None
            word = uuid.uuid4().hex
            os.ftruncate(file, 0)
            os.pwrite(file, f"{word} process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
            os.fsync(file)
            try:
                yield word
            finally:
                os.ftruncate(file, 0)
        finally:
            os.close(file)

    def log(self) -> LineLog:
        """The lines of runs that have ended, to be written by the process that leads."""
        return LineLog(self.path / "runs.jsonl")

    def left_behind(self) -> list[Path]:
        """Files of chunks that nobody has taken over."""
        self.chunks.mkdir(exist_ok=True)
        return sorted(self.chunks.glob("*.jsonl"))

    def records(self) -> dict[int, Record]:
        """Number → last word on every run that has ended, also while the sweep goes on; done beats failed."""
        found: dict[int, Record] = {}
        for path in (self.path / "runs.jsonl", *sorted(self.chunks.glob("*.jsonl"))):
            for record in read_lines(path):
                before = found.get(record["run"])
                if before is None or before["status"] == FAILED:
                    found[record["run"]] = record
        return found

    def failure_file(self, run: int) -> Path:
        """Where the traceback of a failed run is."""
        return self.path / "failures" / f"{run}.txt"

    def quarantine(self, record: Record) -> None:
        """Write down why a run failed, with its settings."""
        file = self.failure_file(record["run"])
        file.parent.mkdir(exist_ok=True)
        config = self.study.of.config.build(self.study.fields(record["run"]))
        settings = config.to_toml(self.study.experiment, versions())
        file.write_text(f"{record['error']}\n\n{record['traceback']}\n\nThe settings:\n\n{settings}", encoding="utf-8")

    def describe(self) -> dict[str, Any]:
        """How far the sweep is: numbers of runs, and seconds spent on them."""
        records = self.records()
        failed = sorted(run for run, record in records.items() if record["status"] == FAILED)
        return {
            "experiment": self.study.experiment,
            "runs": self.study.n_runs,
            "done": len(records) - len(failed),
            "failed": len(failed),
            "pending": self.study.n_runs - len(records),
            "seconds": sum(record["seconds"] for record in records.values()),
            "failures": [{"run": run, "error": records[run]["error"]} for run in failed],
        }


def _identity(study: Study) -> str:
    """What makes two studies the same; the order of axes counts, since runs are numbered by it."""
    said = study.model_dump(mode="json")
    return json.dumps(said | {"base": dict(sorted(said["base"].items()))})
