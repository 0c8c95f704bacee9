"""``wstar fit``: few directions in a table's columns that a target depends on, and how well they predict it."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from wstar import __version__
from wstar.experiments.config import FitConfig
from wstar.experiments.store import RunFolder, replace_file
from wstar.experiments.table.result import describe
from wstar.experiments.table.training import Prepared, in_units, prepare, train

KIND = "fit"
__all__ = ["KIND", "Prepared", "fit_table", "prepare"]


def fit_table(
    config: FitConfig,
    prepared: Prepared,
    run: RunFolder | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Fit what :func:`prepare` made of ``config``; writes all of the run folder but its page.

    Nothing is kept on the way, since it is a matter of seconds: a run that was killed starts over when it is resumed.
    Returns the result as it stands in result.json. columns.json and network.npz are what predictions need.
    """
    began = time.perf_counter()
    fitted = train(config, prepared, on_progress)
    result = {"kind": KIND, "wstar": __version__, "status": "finished"} | describe(config, prepared, fitted)
    result["seconds"] = {"total": time.perf_counter() - began}
    if run:
        arrays = in_units(fitted).to_arrays()
        replace_file(run.path / "network.npz", lambda file: np.savez(file, allow_pickle=False, **arrays))
        rules = prepared.encoding.model_dump_json(indent=1).encode()
        replace_file(run.path / "columns.json", lambda file: file.write(rules))
        run.write_result(result)
    return result
