"""What a sweep comes to: an array over its axes that xarray opens, and a table with one row a run."""

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from wstar.experiments.store import replace_file, versions, write_zarr
from wstar.experiments.study.line_log import DONE, FAILED, Record
from wstar.experiments.study.store import SweepFolder
from wstar.experiments.study.study import Study

# cells of a grid that are laid out though most of them may be empty; beyond it, only runs that have ended
_MOST_CELLS = 10_000_000
_STATUS = {"pending": 0, DONE: 1, FAILED: 2}


def collect(folder: SweepFolder) -> dict[str, str]:
    """Write results.zarr and summaries.parquet from all runs that have ended; returns where they are.

    Dimensions of the array are the axes of a grid and ``repeat``, else ``run``; its variables are the numbers of a
    run, NaN where there is none, with ``status`` (0 pending, 1 done, 2 failed) and ``seconds``.
    """
    records = folder.records()
    whole = folder.study.n_runs <= _MOST_CELLS
    runs = np.arange(folder.study.n_runs) if whole else np.array(sorted(records), dtype=np.int64)
    array, table = folder.path / "results.zarr", folder.path / "summaries.parquet"
    write_zarr(array, as_array(folder.study, records, runs, grid=whole and bool(folder.study.grid)))
    frame = as_table(folder.study, records, runs)
    replace_file(table, lambda file: frame.to_parquet(file, index=False))
    return {"array": str(array), "table": str(table)}


def as_array(study: Study, records: dict[int, Record], runs: np.ndarray, *, grid: bool) -> xr.Dataset:
    """The numbers of ``runs`` as arrays; of a ``grid`` all runs, over its axes."""
    shape = [*(len(axis) for axis in study.axes.values()), study.repeats] if grid else [len(runs)]
    dims = [*study.axes, "repeat"] if grid else ["run"]
    place = {int(run): k for k, run in enumerate(runs)}
    columns = {"status": np.zeros(len(runs), np.int8), "seconds": np.full(len(runs), np.nan)}
    for run, record in records.items():
        k = place[run]
        columns["status"][k], columns["seconds"][k] = _STATUS[record["status"]], record["seconds"]
        for name, value in record.get("summary", {}).items():
            name = name if name not in dims else f"measured_{name}"
            if name not in columns:
                columns[name] = np.full(len(runs), np.nan)
            columns[name][k] = np.nan if value is None else value
    quantities = [name for name in columns if name not in ("status", "seconds")]
    said = {"experiment": study.experiment, "study": json.dumps(study.model_dump(mode="json"))}
    said |= {"versions": json.dumps(versions()), "quantities": json.dumps(quantities)}
    found = xr.Dataset(
        {name: (dims, values.reshape(shape)) for name, values in columns.items()},
        coords=_grid_coordinates(study) if grid else _run_coordinates(study, runs),
        attrs=said,
    )
    found["status"].attrs["meaning"] = json.dumps(_STATUS)
    return found


def as_table(study: Study, records: dict[int, Record], runs: np.ndarray) -> pd.DataFrame:
    """One row a run: its number, all its settings, status, seconds, error, and its numbers."""
    return pd.DataFrame([_row(study, int(run), records.get(int(run))) for run in runs])


def _row(study: Study, run: int, record: Record | None) -> dict[str, Any]:
    point, repeat = divmod(run, study.repeats)
    settings = study.of.config.build(study.fields(run)).model_dump(mode="json")
    ended = record or {"status": "pending", "seconds": None}
    # a number that is not finite is null in the log
    found = {name: math.nan if value is None else value for name, value in ended.get("summary", {}).items()}
    return (
        {"run": run, "point": point, "repeat": repeat, "status": ended["status"], "seconds": ended["seconds"]}
        | settings
        | {name if name not in settings else f"measured_{name}": value for name, value in found.items()}
        | {"error": ended.get("error")}
    )


def _grid_coordinates(study: Study) -> dict[str, Any]:
    axes = {name: _coordinate([axis[k] for k in range(len(axis))]) for name, axis in study.axes.items()}
    return axes | {"repeat": np.arange(study.repeats)}


def _run_coordinates(study: Study, runs: np.ndarray) -> dict[str, Any]:
    fields = [study.fields(int(run)) for run in runs]
    repeats = ("run", runs % study.repeats)
    found: dict[str, Any] = {"run": runs, "point": ("run", runs // study.repeats), "repeat_of_point": repeats}
    for name in study.swept:
        default = study.of.config.model_fields[name].default
        found[name] = ("run", _coordinate([one.get(name, default) for one in fields]))
    return found


def _coordinate(values: list[Any]) -> np.ndarray:
    """Numbers as they are, NaN where there is none; anything else as text."""
    if any(isinstance(value, str | list) for value in values):
        return np.array(["" if value is None else str(value) for value in values])
    return np.array([math.nan if value is None else value for value in values])
