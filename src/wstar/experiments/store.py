"""The run folder: config.toml, checkpoint/, trajectory.zarr, result.json, networks; every piece written atomically."""

import itertools
import json
import os
import platform
import shutil
import tempfile
import time
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from wstar import __version__
from wstar.algorithms.three_stage import Checkpoint
from wstar.experiments.config import Config
from wstar.experiments.plain import plain
from wstar.networks.network import TwoLayer

CHECKPOINT_FORMAT = 1


def versions() -> dict[str, str]:
    """What the run's digits may depend on."""
    names = ("jax", "numpy", "scipy", "scikit-learn")
    return {"wstar": __version__, "python": platform.python_version(), **{n: version(n) for n in names}}


class RunFolder:
    """One run on disk. Nothing is ever half-written: files appear by rename, the trajectory as a whole folder."""

    def __init__(self, path: str | Path) -> None:
        """Of an existing folder; :meth:`create` makes one."""
        self.path = Path(path)

    @classmethod
    def create(cls, path: str | Path, kind: str, config: Config, *, force: bool = False) -> "RunFolder":
        """A new run folder with its config.

        Raises:
            ValueError: the folder exists and ``force`` is off, is not a run folder, or cannot be written.
        """
        path = Path(path)
        if path.exists():
            if not force:
                raise ValueError(
                    f"{path} exists: choose another --out, --force to replace it, or `wstar resume {path}`"
                )
            if not path.is_dir() or (any(path.iterdir()) and not (path / "config.toml").is_file()):
                raise ValueError(f"{path} exists and is not a run folder: it is left alone, choose another --out")
        staging = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            staging = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
            staging.chmod(0o755)
            (staging / "config.toml").write_text(config.to_toml(kind, versions()))
            if path.exists():
                shutil.rmtree(path)
            staging.rename(path)
        except OSError as error:
            if staging is not None:
                shutil.rmtree(staging, ignore_errors=True)
            raise ValueError(f"cannot create {path}: {error.strerror or error}; choose another --out") from None
        return cls(path)

    @classmethod
    def open(cls, path: str | Path) -> "RunFolder":
        """An existing run folder.

        Raises:
            ValueError: there is none at ``path``.
        """
        if not (Path(path) / "config.toml").is_file():
            raise ValueError(f"{path} is not a run folder: it has no config.toml")
        return cls(path)

    def discard_if_bare(self) -> None:
        """Remove a folder that holds nothing but its config: the run never got anywhere."""
        if [entry.name for entry in self.path.iterdir()] == ["config.toml"]:
            shutil.rmtree(self.path)

    @property
    def kind(self) -> str:
        """Which experiment made the folder."""
        return str(tomllib.loads((self.path / "config.toml").read_text()).get("kind"))

    @classmethod
    def unused(cls, kind: str, parent: str | Path = "runs") -> Path:
        """The first path of ``runs/KIND-1``, ``runs/KIND-2`` and so on that is free."""
        return next(p for i in itertools.count(1) if not (p := Path(parent) / f"{kind}-{i}").exists())

    @property
    def finished(self) -> bool:
        """Whether the result is there."""
        return (self.path / "result.json").is_file()

    def checkpoint(self, min_seconds: float = 1.0) -> "FileCheckpoint":
        """Where this run keeps its state."""
        return FileCheckpoint(self.path / "checkpoint", min_seconds)

    def write_network(self, name: str, network: TwoLayer) -> None:
        """``name``.npz."""
        replace_file(self.path / f"{name}.npz", lambda file: np.savez(file, allow_pickle=False, **network.to_arrays()))

    def write_trajectory(self, dataset: xr.Dataset) -> None:
        """trajectory.zarr."""
        write_zarr(self.path / "trajectory.zarr", dataset)

    def write_result(self, result: dict[str, Any]) -> None:
        """result.json, last of all: a folder that has it is finished."""
        write_json(self.path / "result.json", result)

    def read_result(self) -> dict[str, Any]:
        """The result of a finished run.

        Raises:
            ValueError: the run has not finished or the file is damaged.
        """
        if not self.finished:
            raise ValueError(f"{self.path} has no result yet: finish it with `wstar resume {self.path}`")
        try:
            return json.loads((self.path / "result.json").read_text())
        except ValueError as error:
            raise ValueError(f"{self.path / 'result.json'} is damaged ({error}): run again with --force") from None

    def read_trajectory(self) -> xr.Dataset:
        """The recorded trajectory.

        Raises:
            ValueError: there is none.
        """
        if not (self.path / "trajectory.zarr").is_dir():
            raise ValueError(f"{self.path} has no trajectory.zarr: finish it with `wstar resume {self.path}`")
        return xr.open_zarr(self.path / "trajectory.zarr", consolidated=True, zarr_format=2, chunks=None)


class FileCheckpoint(Checkpoint):
    """A checkpoint on disk: one .npz, replaced by rename, so that a kill leaves the one before."""

    def __init__(self, folder: Path, min_seconds: float = 1.0) -> None:
        """``min_seconds`` between two saves; a later call within them is skipped."""
        self.folder, self.min_seconds, self._last = folder, min_seconds, -np.inf

    def load(self) -> dict[str, np.ndarray] | None:
        """What was saved last, or None.

        Raises:
            ValueError: the file is damaged or was written by another version.
        """
        path = self.folder / "state.npz"
        if not path.is_file():
            return None
        try:
            with np.load(path, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            found = (str(arrays.pop("wstar")), int(arrays.pop("format")))
        except Exception as error:  # noqa: BLE001 (zipfile, zlib, KeyError, EOF: any of them means damage)
            raise ValueError(f"{path} is damaged ({type(error).__name__}): delete it to start the run over") from None
        if found != (__version__, CHECKPOINT_FORMAT):
            raise ValueError(
                f"{path} was written by wstar {found[0]} (format {found[1]}), this is {__version__} "
                f"(format {CHECKPOINT_FORMAT}): resume with that version, or delete it to start over"
            )
        return arrays

    def save(self, arrays: Callable[[], dict[str, np.ndarray]]) -> None:
        """Replace the state; within ``min_seconds`` of the last save the call is skipped."""
        if time.monotonic() - self._last < self.min_seconds:
            return
        stamped = arrays() | {"wstar": np.array(__version__), "format": np.array(CHECKPOINT_FORMAT)}
        self.folder.mkdir(exist_ok=True)
        replace_file(self.folder / "state.npz", lambda file: np.savez(file, allow_pickle=False, **stamped))
        self._last = time.monotonic()


def write_zarr(path: Path, dataset: xr.Dataset) -> None:
    """``dataset`` as a zarr folder at ``path``; one that is there is replaced as a whole."""
    staging = Path(tempfile.mkdtemp(prefix=f".{path.stem}.", dir=path.parent))
    try:
        dataset.to_zarr(staging / "new", mode="w", consolidated=True, zarr_format=2)
        if path.exists():
            path.rename(staging / "old")
        (staging / "new").rename(path)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """``value`` as JSON at ``path``, by rename; a number that is not finite becomes null."""
    text = json.dumps(plain(value), indent=1, allow_nan=False)
    replace_file(path, lambda file: file.write(text.encode()))


def replace_file(path: Path, write: Callable[[Any], Any]) -> None:
    """``path`` as ``write(file)`` fills it, by rename: whoever reads sees the old file or the whole new one."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
