"""Processes that work off items one by one; one that is killed takes only its own item with it."""

import contextlib
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any

from threadpoolctl import threadpool_limits

from wstar.experiments.pool import Ended, Pool

_READY, _DONE, _RAISED = "ready", "done", "raised"
_MOST_STILLBORN = 3
# XLA sizes its thread pool by NPROC, and its matrix products by the flag
_SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NPROC": "1"}
_XLA_FLAG = "--xla_cpu_multi_thread_eigen=false"


@dataclass
class _Worker:
    process: BaseProcess
    channel: Connection
    item: Any = None
    occupied: bool = False
    ready: bool = False

    @property
    def idle(self) -> bool:
        return self.ready and not self.occupied


class LocalPool(Pool):
    """``size`` processes that each run ``function(item)`` with one thread; a killed one is replaced.

    Processes are spawned, for JAX cannot be forked, and die with this one.
    """

    def __init__(self, function: Callable[[Any], Any], size: int) -> None:
        """``function`` goes to the processes by pickle; with ``size`` below 1 a ValueError is raised."""
        if size < 1:
            raise ValueError(f"workers={size} must be at least 1")
        self.size, self._function = size, function
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []
        self._stillborn = 0

    def __enter__(self) -> "LocalPool":
        """Start the processes."""
        self._workers = [self._start() for _ in range(self.size)]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the processes, whatever they are at."""
        for worker in self._workers:
            worker.channel.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join()
        self._workers = []

    @property
    def busy(self) -> int:
        """Items that are out."""
        return sum(worker.occupied for worker in self._workers)

    @property
    def room(self) -> int:
        """Processes that are up and idle; one item a process, so that none ever waits behind a long one."""
        return sum(worker.idle for worker in self._workers)

    def submit(self, item: Any) -> None:
        """Hand ``item`` to an idle process."""
        worker = next(worker for worker in self._workers if worker.idle)
        worker.item, worker.occupied = item, True
        # a process that has just died is found out by wait
        with contextlib.suppress(OSError):
            worker.channel.send(item)

    def wait(self, timeout: float) -> list[Ended]:
        """Items that have ended, after at most ``timeout`` seconds.

        Raises:
            RuntimeError: the function raised an exception, or processes cannot even start.
        """
        channels = {worker.channel: k for k, worker in enumerate(self._workers)}
        return [ended for c in wait(list(channels), timeout) if (ended := self._hear(channels[c])) is not None]  # type: ignore[index]

    def _hear(self, k: int) -> Ended | None:
        worker = self._workers[k]
        try:
            word, value = worker.channel.recv()
        except (EOFError, OSError):
            return self._replace(k)
        if word == _READY:
            worker.ready, self._stillborn = True, 0
            return None
        if word == _RAISED:
            raise RuntimeError(value)
        worker.occupied = False
        return Ended(worker.item, value)

    def _replace(self, k: int) -> Ended | None:
        worker = self._workers[k]
        worker.channel.close()
        worker.process.join()
        how = _how(worker.process.exitcode)
        self._stillborn += not worker.ready
        if self._stillborn > _MOST_STILLBORN:
            raise RuntimeError(f"the processes do not start: the last one {how}")
        self._workers[k] = self._start()
        return Ended(worker.item, died=how, deaths=1) if worker.occupied else None

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        # not an argument of the process: what the function imports shall find the environment that _serve makes
        with contextlib.suppress(OSError):
            ours.send(self._function)
        return _Worker(process, ours)


def _serve(channel: Connection) -> None:
    """In a process: work off what comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's, which ends its processes
    _die_with_parent()
    single_threaded(os.environ)
    # the parent has closed its end: there is no more to do
    with contextlib.suppress(EOFError, OSError):
        function = channel.recv()
        # for what the main module of the parent has imported before
        threadpool_limits(limits=1, user_api="blas")
        channel.send((_READY, None))
        while True:
            channel.send(_answer(function, channel.recv()))


def _answer(function: Callable[[Any], Any], item: Any) -> tuple[str, Any]:
    try:
        return _DONE, function(item)
    except Exception as error:  # noqa: BLE001 (told to the parent, which raises it)
        return _RAISED, f"{type(error).__name__}: {error}\n{traceback.format_exc()}"


def single_threaded(environment: MutableMapping[str, str]) -> None:
    """Have libraries that are imported later compute on one thread: there is a process a core."""
    environment.update(_SINGLE_THREADED)
    environment["XLA_FLAGS"] = f"{environment.get('XLA_FLAGS', '')} {_XLA_FLAG}".strip()


def _die_with_parent() -> None:
    """A killed parent cannot tell its processes: each watches for it, lest they work on for nobody."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        assert parent is not None  # a spawned process has one
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was killed by signal {-code} ({signal.Signals(-code).name})"
    return f"ended with exit code {code}"
