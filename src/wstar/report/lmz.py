"""The page of ``wstar reproduce lmz``: Figure 2, rates in d, baselines and infinite width, and all their numbers."""

import base64
import csv
import io
import json
from typing import Any

from rich.console import Console
from rich.table import Table

from wstar.report import lmz_figures as figures
from wstar.report.numbers import count, duration, number, percent, plural
from wstar.report.reading import FinishedRun

Page = dict[str, Any]
Result = dict[str, Any]

_PANELS = (("wide", "left"), ("narrow", "right"))
_DATA = ("samples", "population")
_RATES = (
    ("settled", "Stage 1.1 ends", "d log d"),
    ("plateau_end", "Stage 1.2, the plateau, ends", "d²/log d"),
    ("warm", "Stage 2.1 ends", None),
    ("fitted", "Stage 2.2 ends", None),
    ("loss", "final loss L", "at most 1/d"),
)


def lmz_page(run: FinishedRun) -> Page:
    """Everything that the template ``lmz.html`` shows; KeyError or TypeError where the result is not whole."""
    result = run.result
    limit = result["infinite_width"]
    drawn = {
        f"{name}-{data}": figures.panel(result["panels"][name][data]["runs"]) for name, _ in _PANELS for data in _DATA
    }
    drawn |= {
        "stage-times": figures.stage_times(result["dimensions"], result["exponents"]),
        "final-loss": figures.final_loss(result["dimensions"], result["baselines"], result["exponents"]["loss"]),
        "distance-steps": figures.distance_against_steps(limit),
        "distance-width": figures.distance_against_width(limit),
    }
    return {
        "headline": headline(result),
        "lead": " ".join(stuck_sentences(result)[1:]),
        "eyebrow": "Li, Ma & Zhang 2020",
        "notices": ["These are the quick sizes: for a look, not for the record."] if result["quick"] else [],
        "facts": _facts(result),
        "panels": {name: result["panels"][name] for name, _ in _PANELS},
        "dim": result["dim"],
        "samples": count(result["samples"]),
        "outcomes": [_outcome(result, name, side, data) for name, side in _PANELS for data in _DATA],
        "rates": rates(result),
        "width_factor": result["dimensions"][0]["width"] // result["dimensions"][0]["dim"],
        "best_baseline": _best_baseline(result),
        "limit": _limit(limit),
        "downloads": downloads(result),
        "figures": drawn,
    }


def headline(result: Result) -> str:
    """One sentence on the claim of Figure 2 right."""
    runs = result["panels"]["narrow"]["samples"]
    n, total = runs["stuck"], len(runs["runs"])
    if n:
        return f"The stuck run is seen in {n} of {total} seeds"
    return f"The stuck run is not seen in {plural(total, 'seed')}"


def stuck_sentences(result: Result) -> list[str]:
    """Plainly where the described run is seen and where it is not: the wide network, m = 2d, its population."""
    said = []
    for name, where in (("wide", "the wide network"), ("narrow", "m = 2d")):
        panel = result["panels"][name]
        runs = panel["samples"]
        last = [step for step in runs["last_waiting"] if step is not None]
        said.append(
            f"From samples with {where} (m = {panel['width']}), {runs['stuck']} of {len(runs['runs'])} runs stand as "
            f"the paper describes after {count(panel['steps'])} steps (order 0 below 0.01, orders 2, 4, 6 above 0.1) "
            f"and {runs['waiting']} with orders 4 and 6 alone above 0.1; {runs['found']} have found every direction."
            + (f" Orders 4 and 6 are above 0.1 up to step {_span(last)}, by seed." if last else "")
        )
    exact = result["panels"]["narrow"]["population"]
    last = [step for step in exact["last_waiting"] if step is not None]
    if last:
        said.append(
            f"On the exact population loss the same starts at m = 2d leave the plateau by step {count(max(last))}."
            if exact["waiting"] == 0
            else f"On the population {exact['waiting']} of these starts are on the plateau to the end as well."
        )
    return said


def _span(steps: list[int]) -> str:
    return count(steps[0]) if min(steps) == max(steps) else f"{count(min(steps))} to {count(max(steps))}"


def _facts(result: Result) -> list[tuple[str, str]]:
    wide, fits = result["panels"]["wide"]["samples"]["runs"], result["exponents"]
    least = sorted(run["least_cosine"][-1] for run in wide)
    largest = max(result["dimensions"], key=lambda part: part["dim"])
    facts = [
        (number(least[0]), f"least |cos| with any direction over {plural(len(wide), 'run')} of Figure 2 left"),
        (number(max(largest["dim"] * run["loss"] for run in largest["runs"]), 2), f"d · L at d = {largest['dim']}"),
    ]
    if fits["plateau_end"]:
        facts.append((number(fits["plateau_end"]["exponent"], 3), "exponent of the plateau’s length in d"))
    if fits["loss"]:
        facts.append((number(fits["loss"]["exponent"], 3), "exponent of the final loss in d"))
    return [*facts, (duration(result["seconds"]["compute"]), "computing")]


def _outcome(result: Result, name: str, side: str, data: str) -> list[str]:
    panel = result["panels"][name]
    runs = panel[data]
    total = len(runs["runs"])
    plateau = [run["stage_times"]["plateau_end"] for run in runs["runs"]]
    over = sorted(step for step in plateau if step is not None)
    return [
        f"{side}, m = {panel['width']}, {data}",
        count(panel["steps"]),
        f"{runs['stuck']} of {total}",
        f"{runs['waiting']} of {total}",
        f"{round(over[0]):,} to {round(over[-1]):,}" if over else "not reached",
        f"{runs['fitted']} of {total}",
        f"{runs['found']} of {total}",
    ]


def rates(result: Result) -> list[list[str]]:
    """Fitted exponents with their intervals, and the slope that the paper's form has over the same dimensions."""
    rows = []
    for key, name, form in _RATES:
        fit = result["exponents"][key]
        if fit is None:
            rows.append([name, "too few runs got there", "", form or ""])
            continue
        interval = f"{number(fit['interval'][0])} to {number(fit['interval'][1])}"
        paper = "" if fit["paper"] is None or form is None else f"{form}: {number(fit['paper'])} over these d"
        rows.append([name, number(fit["exponent"]), interval, paper])
    return rows


def _best_baseline(result: Result) -> str:
    """At the largest dimension: how far the best baseline is from truncated descent on the same rows."""
    part = max(result["baselines"], key=lambda p: p["dim"])
    ours = next(row for row in part["rows"] if not row["baseline"])
    best = min((row for row in part["rows"] if row["baseline"]), key=lambda row: row["error"])
    floor = part["floors"]["2"]
    return (
        f"At d = {part['dim']} and N = {count(part['samples'])} the best of them, {best['name']}, has d·L = "
        f"{number(part['dim'] * best['error'], 2)}, {number(best['error'] / ours['error'], 2)} times that of truncated "
        f"descent on the same rows and {number(best['error'] / floor, 2)} times the floor of order 2."
    )


def _limit(limit: dict[str, Any]) -> dict[str, str]:
    fits = limit["exponents"]
    return {
        "dim": count(limit["dim"]),
        "width": count(limit["particles"] * limit["flips"]),
        "particles": count(limit["particles"]),
        "flips": count(limit["flips"]),
        "kept": percent(limit["kept"], 3),
        **{name: f"{number(fit['exponent'])} ({_interval(fit)})" for name, fit in fits.items()},
    }


def _interval(fit: dict[str, Any]) -> str:
    return f"{number(fit['interval'][0])} to {number(fit['interval'][1])}"


def _tables(result: Result) -> dict[str, tuple[list[str], list[list[Any]]]]:
    """Every number of the figures as plain tables."""
    curves = [
        [name, data, run["seed"], step, order, value, run["loss"][i], run["least_cosine"][i], run["median_cosine"][i]]
        for name, _ in _PANELS
        for data in _DATA
        for run in result["panels"][name][data]["runs"]
        for i, step in enumerate(run["step"])
        for order, value in zip(run["order"], run["relative"][i], strict=True)
    ]
    stages = ("settled", "plateau_end", "warm", "fitted", "loss", "roc_area")
    dimensions = [
        [part["dim"], part["width"], part["steps"], run["seed"], *(run[stage] for stage in stages)]
        for part in result["dimensions"]
        for run in part["runs"]
    ]
    baselines = [
        [part["dim"], part["samples"], row["name"], row["error"], row["spread"], part["dim"] * row["error"]]
        for part in result["baselines"]
        for row in [*part["rows"], *_floor_rows(part)]
    ]
    limit = result["infinite_width"]
    distances = [
        [
            row["width"],
            row["networks"],
            step,
            row["distance"][i],
            row["loss"][i],
            limit["own_error"][i],
            limit["loss"][i],
        ]
        for row in limit["rows"]
        for i, step in enumerate(limit["step"])
    ]
    return {
        "figure2": (
            ["panel", "data", "seed", "step", "order", "relative_loss", "loss", "least_cosine", "median_cosine"], curves
        ),
        "dimensions": (["dim", "width", "steps", "seed", *stages], dimensions),
        "baselines": (["dim", "samples", "model", "error", "standard_error", "dim_times_error"], baselines),
        "infinite-width": (
            ["width", "networks", "step", "distance", "loss", "reference_error", "reference_loss"], distances
        ),
    }  # fmt: skip


def _floor_rows(part: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": f"floor of order {p}", "error": value, "spread": 0.0} for p, value in part["floors"].items()]


def downloads(result: Result) -> list[tuple[str, str]]:
    """File names with data addresses: each table as CSV, and everything as JSON."""
    found = []
    for name, (head, rows) in _tables(result).items():
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(rows)
        found.append((f"{name}.csv", _address("text/csv", text.getvalue())))
    return [*found, ("lmz.json", _address("application/json", json.dumps(result)))]


def _address(kind: str, text: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(text.encode()).decode()}"


def print_lmz(console: Console, result: Result) -> None:
    """Figure 2 in words, then the rates."""
    for sentence in (headline(result) + ".", *stuck_sentences(result), _best_baseline(result)):
        console.print(sentence, highlight=False)
    table = Table(title=None, header_style="bold", box=None, pad_edge=False)
    for name in ("against d", "exponent", "interval (95 %)", "paper"):
        table.add_column(name)
    for row in rates(result):
        table.add_row(*row)
    console.print(table)
    fits = result["infinite_width"]["exponents"]
    said = ", ".join(f"{number(fit['exponent'])} at step {count(fit['step'])}" for fit in fits.values())
    console.print(f"distance from the infinite width against m: exponent {said}", highlight=False)
