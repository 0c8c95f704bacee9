"""Predictions of a fitted run for the rows of another table, by the rules and the network in its folder."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float

from wstar.experiments.store import RunFolder
from wstar.experiments.table.columns import as_numbers
from wstar.experiments.table.encoding import Encoding
from wstar.experiments.table.files import read_frame, require
from wstar.experiments.table.index_model import IndexModel
from wstar.experiments.table.scores import r_squared


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions for a table.

    Attributes:
        frame: the table as it was read, with one more column.
        values: (n,), that column.
        notes: what the rows held that the training rows did not, and R² where the target is there.
    """

    frame: pd.DataFrame
    values: Float[np.ndarray, " n"]
    notes: tuple[str, ...]


def predict_table(run: RunFolder, path: str | Path) -> Predictions:
    """Predictions of the finished fit ``run`` for the table at ``path``; the target need not be there.

    Empty cells are filled, rare texts joined and values beyond the training range moved to its limit, as when the
    model was fitted.

    Raises:
        ValueError: not a finished fit, a damaged folder, a table that cannot be read, has no rows or lacks a column.
    """
    if run.kind != "fit":
        raise ValueError(f"{run.path} is of kind {run.kind!r}: give the folder of a `wstar fit`")
    target = str(run.read_result()["target"])
    encoding, model = _read_model(run)
    path = Path(path)
    frame = read_frame(path)
    require(frame, encoding.sources, path.name)
    if frame.empty:
        raise ValueError(f"{path.name} has no rows: nothing to predict")
    X = encoding(frame)
    values = model(X)
    notes = [
        *_strange(encoding, frame),
        *(
            f"{name} is beyond the range that was fitted in {_plural(int(count), 'row')}: it counts as the limit there."
            for name, count in zip(encoding.columns, model.outside(X), strict=True)
            if count
        ),
        *_score(frame, target, values),
    ]
    name = f"predicted {target}"
    if name in frame.columns:
        raise ValueError(f"{path.name} has a column {name!r} already: rename it")
    return Predictions(frame.assign(**{name: values}), values, tuple(notes))


def _read_model(run: RunFolder) -> tuple[Encoding, IndexModel]:
    try:
        encoding = Encoding.model_validate_json((run.path / "columns.json").read_text())
        with np.load(run.path / "network.npz", allow_pickle=False) as stored:
            model = IndexModel.from_arrays({name: stored[name] for name in stored.files})
    except FileNotFoundError as error:
        raise ValueError(f"{run.path} holds no {Path(str(error.filename)).name}: run the fit again") from None
    except Exception as error:  # noqa: BLE001 (zipfile, zlib, pydantic, KeyError: any of them means damage)
        raise ValueError(f"{run.path} cannot be read ({type(error).__name__}): run the fit again") from None
    return encoding, model


def _strange(encoding: Encoding, frame: pd.DataFrame) -> list[str]:
    notes = []
    for part in encoding.parts:
        count = part.strange(frame[part.name])
        if count:
            what = "a rare or unknown text" if part.kind == "text" else f"no {part.kind}, so count as empty"
            notes.append(f"{part.name} holds in {_plural(count, 'row')} {what}.")
    return notes


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _score(frame: pd.DataFrame, target: str, values: Float[np.ndarray, " n"]) -> list[str]:
    if target not in frame.columns:
        return []
    observed = as_numbers(frame[target])
    known = ~np.isnan(observed)
    score = r_squared(observed[known], values[known])
    if score is None:
        return []
    error = float(np.mean(np.abs(observed[known] - values[known])))
    return [f"R² {score:.3f} on the {int(known.sum()):,} rows with {target}, missed by {error:.3g} on average."]
