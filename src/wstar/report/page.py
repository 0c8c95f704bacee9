"""One self-contained page from a run folder; it opens without a network."""

import json
import os
import tempfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from wstar.report.claims import claims_page
from wstar.report.fit import fit_page
from wstar.report.lmz import lmz_page
from wstar.report.reading import FinishedRun, one_line, read_run
from wstar.report.recover import recover_page
from wstar.report.sweep import sweep_page
from wstar.report.truncate import truncate_page
from wstar.report.zg import zg_page

# a new kind of run gets a page by one entry here and one template of its name
_PAGES: dict[str, Callable[[FinishedRun], dict[str, Any]]] = {
    "recover": recover_page,
    "fit": fit_page,
    "truncate": truncate_page,
    "lmz": lmz_page,
    "zg": zg_page,
    "claims": claims_page,
    "sweep": sweep_page,
}


def write_report(run: Path) -> Path:
    """Write ``report.html`` into the run folder ``run`` and return its path; an older one is replaced at once.

    Raises:
        ValueError: the folder is not a finished run, or one of its files is missing, damaged or not whole.
    """
    folder = read_run(Path(run))
    text = render(folder)
    target = folder.path / "report.html"
    handle, partial = tempfile.mkstemp(dir=folder.path, prefix=".report-", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(partial, 0o644)
        os.replace(partial, target)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
    return target


def render(run: FinishedRun) -> str:
    """The page of ``run`` as HTML.

    Raises:
        ValueError: ``result.json`` or the trajectory does not hold what a page of its kind shows.
    """
    try:
        page = _PAGES[run.kind](run)
        data = {
            "figures": page.pop("figures"),
            "frames": page.pop("frames", []),
            "labels": page.pop("frame_labels", []),
        }
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"run folder {run.path} is not whole: {type(error).__name__}: {one_line(error)}") from error
    environment = Environment(
        loader=PackageLoader("wstar.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(f"{run.kind}.html").render(
        page=page,
        drawn=frozenset(data["figures"]),
        config=run.config,
        version=run.result.get("wstar", ""),
        data=_script_json(data),
        style=_asset("page.css"),
        script=_asset("page.js"),
        plotly=get_plotlyjs(),
    )


def _asset(name: str) -> str:
    return files("wstar.report").joinpath("templates", name).read_text(encoding="utf-8")


def _script_json(data: dict[str, Any]) -> str:
    """JSON that cannot end the script element it stands in, whatever a column is called."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
