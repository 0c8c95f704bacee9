"""The workers of a running ``dask.distributed`` cluster, in the place of this machine's processes."""

import contextlib
import importlib
import logging
import queue
import time
import warnings
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import Any

from wstar.experiments.pool import Ended, Pool

_TIMEOUT = 5.0
# a scheduler hands out what waits, so that a second chunk for every worker costs nobody anything
_AHEAD = 2
# after so many a scheduler gives an item up (distributed.scheduler.allowed-failures, unless it is set otherwise)
_DEATHS = 4


class ClusterPool(Pool):
    """Workers that a scheduler at ``address`` knows; each item has a ``name``, which is its key there."""

    def __init__(self, function: Callable[[Any], Any], address: str) -> None:
        """Connect.

        Raises:
            ValueError: dask.distributed is not installed, no scheduler answers, it has no workers, or one of them has
                another version of Python, dask or wstar.
        """
        self.address, self._function = address, function
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._out: dict[str, Any] = {}
        self._client: Any = None
        self._counted = time.monotonic()
        # what goes wrong is said once, by the errors below
        self._loudness = _silence()
        try:
            self._client = _connected(address)
            self.size = self._checked_threads()
        except BaseException:
            self._close()
            raise

    def __enter__(self) -> "ClusterPool":
        """As it is: the connection is there."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Let go of what is out, and disconnect."""
        with contextlib.suppress(Exception):
            self._client.cancel([future for future, _ in self._out.values()], force=True)
        self._close()

    def _close(self) -> None:
        if self._client is not None:
            with contextlib.suppress(Exception):
                self._client.close(timeout=_TIMEOUT)
        for name, level in self._loudness.items():
            logging.getLogger(name).setLevel(level)

    @property
    def busy(self) -> int:
        """Items that are out."""
        return len(self._out)

    @property
    def room(self) -> int:
        """Items that keep all threads of all workers busy."""
        return max(0, _AHEAD * self.size - len(self._out))

    def submit(self, item: Any) -> None:
        """Hand ``item`` to the scheduler."""
        self._refuse_lost()
        future = self._client.submit(self._function, item, key=f"wstar-{item.name}", pure=False)
        self._out[item.name] = (future, item)
        self._watch(item.name)

    def wait(self, timeout: float) -> list[Ended]:
        """Items that have ended, after at most ``timeout`` seconds.

        Raises:
            ValueError: the scheduler is gone.
            RuntimeError: the function raised an exception.
        """
        names = []
        with contextlib.suppress(queue.Empty):
            names.append(self._ended.get(timeout=timeout))
            while True:
                names.append(self._ended.get_nowait())
        if not names:
            self._refuse_lost()
        self._count_again()
        return [ended for name in names if (ended := self._ending(name))]

    def _watch(self, name: str) -> None:
        self._out[name][0].add_done_callback(lambda _: self._ended.put(name))

    def _ending(self, name: str) -> Ended | None:
        """How the item ended; None where its result died with the worker that held it and is made again."""
        future, item = self._out[name]
        if future.status == "finished":
            try:
                result = future.result(timeout=_TIMEOUT)
                del self._out[name]
                return Ended(item, result)
            except TimeoutError:
                pass
            except Exception as lost:
                raise self._lost() from lost
        if future.status in ("finished", "pending", "lost"):
            self._refuse_lost()
            self._watch(name)
            return None
        if future.status != "error":
            raise self._lost()
        del self._out[name]
        error = future.exception()
        if type(error).__name__ == "KilledWorker":
            return Ended(item, died="was killed, and so were those that took over", deaths=_DEATHS)
        raise RuntimeError(f"a worker of {self.address} cannot do the work: {type(error).__name__}: {error}")

    def _count_again(self) -> None:
        """Clusters grow and shrink."""
        if time.monotonic() - self._counted > _TIMEOUT:
            with contextlib.suppress(Exception):
                self.size = max(1, sum(self._client.nthreads().values()))
            self._counted = time.monotonic()

    def _refuse_lost(self) -> None:
        if self._client.status != "running":
            raise self._lost()

    def _lost(self) -> ValueError:
        return ValueError(
            f"the scheduler at {self.address} is gone; what is done is kept, and the same command goes on once there "
            "is a scheduler again"
        )

    def _checked_threads(self) -> int:
        """Threads of all workers, whose versions are those of this process."""
        threads = sum(self._client.nthreads().values())
        if not threads:
            raise ValueError(f"the scheduler at {self.address} has no workers: start some with `dask worker`")
        try:
            found = self._client.get_versions(packages=["wstar"])
        except Exception as error:  # noqa: BLE001 (whatever a scheduler of another version answers)
            raise ValueError(f"the scheduler at {self.address} does not say its version ({error!r})") from None
        ours = _versions(found["client"])
        places = {f"the worker at {worker}": _versions(said) for worker, said in found["workers"].items()}
        # a scheduler runs nothing of wstar's
        places[f"the scheduler at {self.address}"] = _versions(found["scheduler"]) | {"wstar": ours["wstar"]}
        for place, theirs in places.items():
            for name, version in theirs.items():
                if version != ours[name]:
                    raise ValueError(f"{place} has {name} {version}, here it is {ours[name]}: make them the same")
        return threads


def _versions(said: dict[str, Any]) -> dict[str, str | None]:
    """Python up to its minor version, dask and wstar; None for what is not there."""
    packages = said["packages"]
    rest = {name: packages.get(name) for name in ("dask", "distributed", "wstar")}
    return {"python": ".".join(str(packages["python"]).split(".")[:2]), **rest}


def _distributed() -> ModuleType:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise ValueError(
            "--scheduler needs dask.distributed: install wstar[cluster], or leave the option out"
        ) from None


def _silence() -> dict[str, int]:
    """Let the loggers of dask.distributed say nothing; returns the levels that they had."""
    _distributed()
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return levels


def _connected(address: str) -> Any:
    """A client of the scheduler at ``address``."""
    distributed = _distributed()
    try:
        with warnings.catch_warnings():
            # of versions that differ, which are looked at afterwards
            warnings.simplefilter("ignore")
            return distributed.Client(address, timeout=_TIMEOUT, set_as_default=False)
    except (OSError, TimeoutError, ValueError, TypeError, ImportError) as error:
        raise ValueError(
            f"no scheduler answers at {address} ({type(error).__name__}, {_TIMEOUT:g} s): start one with "
            "`dask scheduler`, or leave --scheduler out"
        ) from None
