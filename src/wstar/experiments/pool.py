"""Where the work of a study is done: items go out one by one, and come back in any order."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import TracebackType
from typing import Any


@dataclass(frozen=True)
class Ended:
    """What became of an item: the ``result``, or in words how the process ``died`` that had it; ``deaths`` so far."""

    item: Any
    result: Any = None
    died: str | None = None
    deaths: int = 0


class Pool(ABC):
    """Workers: processes of this machine, or those of a cluster. ``size`` items are worked on at a time."""

    size: int

    @abstractmethod
    def __enter__(self) -> "Pool":
        """Have the workers ready, or on their way."""

    @abstractmethod
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Let no work go on."""

    @property
    @abstractmethod
    def busy(self) -> int:
        """Items that are out."""

    @property
    @abstractmethod
    def room(self) -> int:
        """Items that can be handed out now."""

    @abstractmethod
    def submit(self, item: Any) -> None:
        """Hand out an item."""

    @abstractmethod
    def wait(self, timeout: float) -> list[Ended]:
        """Items that have ended, after at most ``timeout`` seconds.

        Raises:
            ValueError: the workers are gone.
            RuntimeError: the work raised an exception.
        """
