"""A finished run as its page needs it, or one line that says what is missing or broken in its folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Int

from wstar.experiments.store import RunFolder
from wstar.networks.network import TwoLayer
from wstar.report.numbers import thinned

_RESULT = {
    "recover": ("teacher", "recovery", "stages", "epochs", "loss", "seconds"),
    "claims": ("verdicts", "quick", "seconds"),
    "sweep": ("experiment", "runs", "done", "failed", "failures", "seconds"),
    "lmz": ("panels", "dimensions", "exponents", "baselines", "infinite_width", "quick", "seconds"),
    "zg": ("theorem_2", "nets", "net_dims", "frozen", "samples", "learnt", "phases", "hard", "sizes", "seconds"),
    "truncate": ("teacher", "stages", "stage_times", "cosines", "tickets", "loss", "notices", "samples", "seconds"),
    "fit": ("target", "columns", "preprocessing", "scores", "directions", "linear", "predictions", "path", "seconds"),
}
_STAGE_THREE = ("step", "loss", "objective", "epoch_of_step", "masses", "directions", "basis", "n_steps")
_TENSORS = ("relative_tensor_loss", "weighted_tensor_loss", "order_gradient_norm", "rest_gradient_norm")
# what is read of a trajectory; kinds that are not here have none
_TRAJECTORY = {
    "recover": _STAGE_THREE,
    "truncate": ("step", "loss", "norms", "frozen", "best_cosine", "start_square", "end_cosine", *_TENSORS),
}
_MOST_SNAPSHOTS = 60


@dataclass(frozen=True)
class FinishedRun:
    """What a run left behind.

    Attributes:
        path: the run folder.
        config: its settings, as text.
        result: the contents of result.json.
        trajectory: what was recorded at every step, less the neurons.
        snapshots: the whole record at the start and at the end of epochs only: neurons at every step may not fit.
        teacher: the hidden network of ``recover``.
    """

    path: Path
    config: str
    result: dict[str, Any]
    trajectory: xr.Dataset
    snapshots: xr.Dataset
    teacher: TwoLayer | None

    @property
    def kind(self) -> str:
        """Which experiment made it, as in ``"recover"``."""
        return str(self.result["kind"])


def read_run(path: Path) -> FinishedRun:
    """The run in folder ``path``.

    Raises:
        ValueError: no such folder, a file of it missing or unreadable, an unknown kind, or an entry missing.
    """
    if not path.is_dir():
        raise ValueError(f"run folder {path} does not exist: give the folder that wstar recover or wstar fit wrote")
    folder = RunFolder.open(path)
    result = folder.read_result()
    kind = result.get("kind") if isinstance(result, dict) else None
    if kind not in _RESULT:
        raise ValueError(f"{path / 'result.json'} is of kind {kind!r}: pages are made of {' and '.join(_RESULT)}")
    _require(path / "result.json", _RESULT[kind], result)
    trajectory, snapshots = _read_trajectory(folder, kind) if kind in _TRAJECTORY else (xr.Dataset(), xr.Dataset())
    return FinishedRun(
        path=path,
        config=(path / "config.toml").read_text(encoding="utf-8"),
        result=result,
        trajectory=trajectory,
        snapshots=snapshots,
        teacher=_read_network(path / "teacher.npz") if kind == "recover" else None,
    )


def epoch_ends(epoch_of_step: Int[np.ndarray, " step"]) -> Int[np.ndarray, " kept"]:
    """Positions of the start and of the last record of each epoch; of many epochs evenly spaced ones."""
    _, from_behind = np.unique(epoch_of_step[::-1], return_index=True)
    ends = len(epoch_of_step) - 1 - from_behind
    return np.unique([0, *ends[thinned(len(ends), _MOST_SNAPSHOTS)]])


def _require(path: Path, names: tuple[str, ...], present: Any) -> None:
    missing = [name for name in names if name not in present]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}: it is not whole, or another version of wstar wrote it")


def _read_trajectory(folder: RunFolder, kind: str) -> tuple[xr.Dataset, xr.Dataset]:
    where = folder.path / "trajectory.zarr"
    try:
        whole = folder.read_trajectory()
        _require(where, _TRAJECTORY[kind], whole.variables)
        if "epoch_of_step" not in whole:
            return whole.drop_vars("weights", errors="ignore").load(), xr.Dataset()
        snapshots = whole.isel(step=epoch_ends(whole["epoch_of_step"].values.astype(int))).load()
        return whole.drop_vars(["masses", "directions"]).load(), snapshots
    except ValueError as error:
        raise ValueError(one_line(error)) from None
    except Exception as error:  # noqa: BLE001 (zarr, a codec, the file system: any of their errors means damage)
        raise ValueError(f"{where} cannot be read: {one_line(error)}") from None


def _read_network(path: Path) -> TwoLayer:
    if not path.is_file():
        raise ValueError(f"run folder {path.parent} holds no {path.name}")
    try:
        with np.load(path, allow_pickle=False) as stored:
            return TwoLayer.from_arrays({name: stored[name] for name in stored.files})
    except Exception as error:  # noqa: BLE001 (zipfile, zlib, KeyError, EOF: any of them means damage)
        raise ValueError(f"{path} cannot be read: {one_line(error)}") from None


def one_line(error: BaseException) -> str:
    """The first line of what ``error`` says, or its type."""
    return (str(error).splitlines() or [""])[0] or type(error).__name__
