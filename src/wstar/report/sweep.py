"""The page of ``wstar sweep``: what the runs found against every field that was swept, and which of them failed."""

import json
from typing import Any

import numpy as np
import xarray as xr

from wstar.experiments.study.axes import Draw, Range
from wstar.experiments.study.study import Study
from wstar.report import sweep_figures as figures
from wstar.report.numbers import count, duration, number, plural
from wstar.report.reading import FinishedRun

Page = dict[str, Any]

_MOST_FAILURES = 200
_MOST_LISTED = 6


def sweep_page(run: FinishedRun) -> Page:
    """Everything that the template ``sweep.html`` shows; KeyError or TypeError where the result is not whole."""
    study = Study.load(run.path / "config.toml")
    found = xr.open_zarr(run.path / "results.zarr", consolidated=True, zarr_format=2, chunks=None).load()
    shown = [name for name in quantities(found) if _varies(found[name].values)]
    drawn: dict[str, figures.Figure] = {}
    sections = []
    for name in shown:
        ids = {}
        for axis in study.swept:
            ids[f"{name}-{axis}"] = f"{name} against {axis}"
            drawn[f"{name}-{axis}"] = figures.against(found, name, axis, study)
        if study.grid and len(study.grid) == 2:
            ids[f"{name}-map"] = f"{name} over both fields"
            drawn[f"{name}-map"] = figures.heat_map(found, name, *study.grid)
        sections.append({"name": name, "figures": ids})
    return {
        "headline": headline(run.result),
        "lead": f"{described(study)} {_spread(study)}".strip(),
        "eyebrow": f"Sweep of {study.experiment}",
        "notices": [],
        "facts": _facts(run.result, study),
        "sections": sections,
        "numbers": [_five_numbers(name, found[name].values) for name in quantities(found)],
        "swept": study.swept,
        "failures": [_failure(study, failure) for failure in run.result["failures"][:_MOST_FAILURES]],
        "more_failures": count(max(0, len(run.result["failures"]) - _MOST_FAILURES) or None),
        "figures": drawn,
    }


def quantities(found: xr.Dataset) -> list[str]:
    """What the runs found, in their own order, ``seconds`` last."""
    return [*json.loads(found.attrs["quantities"]), "seconds"]


def headline(result: dict[str, Any]) -> str:
    """One sentence: how many runs there are, and how many failed."""
    said = f"{plural(result['runs'], 'run')} of {result['experiment']}"
    return said + (f", {count(result['failed'])} of them failed" if result["failed"] else "")


def described(study: Study) -> str:
    """What was swept, in a sentence."""
    parts = [f"{name} {_axis_words(axis)}" for name, axis in study.axes.items()]
    if study.runs:
        parts = [f"{plural(len(study.runs), 'point')} one by one, in {', '.join(study.swept)}"]
    said = ("; ".join(parts) or "the same settings in every run") + "."
    return said + (f" Every point with {study.repeats} seeds." if study.repeats > 1 else "")


def _axis_words(axis: Any) -> str:
    if isinstance(axis, Range | Draw):
        low, high = (axis.start, axis.stop) if isinstance(axis, Range) else (axis.low, axis.high)
        how = "on a log scale" if axis.spacing == "log" else ""
        values = f", {plural(len(axis), 'value')}" if isinstance(axis, Range) else ", at random"
        return f"from {figures.label(low)} to {figures.label(high)} {how}".strip() + values
    listed = ", ".join(figures.label(value) for value in axis[:_MOST_LISTED])
    return listed if len(axis) <= _MOST_LISTED else f"{listed} and {len(axis) - _MOST_LISTED} more"


def _facts(result: dict[str, Any], study: Study) -> list[tuple[str, str]]:
    facts = [(count(result["done"]), "runs done"), (count(result["failed"]), "failed")]
    if study.swept:
        facts.append((count(len(study.swept)), "fields swept"))
    facts.append((count(study.n_points), "points"))
    return [*facts, (count(study.repeats), "seeds each"), (duration(result["seconds"]), "spent on the runs")]


def _spread(study: Study) -> str:
    """What a mark and its bar stand for."""
    if not study.grid:
        return "One mark a run."
    over = "seeds" if study.repeats > 1 else ""
    if len(study.grid) > 2 or (len(study.grid) == 2 and max(len(axis) for axis in study.axes.values()) > figures.LINES):
        over += (" and " if over else "") + "the fields that are not shown"
    return f"Marks are medians over {over}, bars reach from the lower to the upper quartile." if over else ""


def _varies(values: np.ndarray) -> bool:
    finite = values[np.isfinite(values)]
    return finite.size > 0 and bool(finite.max() > finite.min())


def _five_numbers(name: str, values: np.ndarray) -> list[str]:
    finite = values[np.isfinite(values)]
    if not finite.size:
        return [name, count(0), *["–"] * 5]
    return [name, count(finite.size), *(number(float(q)) for q in np.quantile(finite, (0.0, 0.25, 0.5, 0.75, 1.0)))]


def _failure(study: Study, failure: dict[str, Any]) -> dict[str, Any]:
    fields = study.fields(failure["run"])
    return {
        "run": failure["run"],
        "address": f"failures/{failure['run']}.txt",
        "settings": [figures.label(fields.get(name)) for name in study.swept],
        "error": failure["error"],
    }
