"""The page of ``wstar claims``: every statement with its verdict, the number that decides, and the plot behind it."""

from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wstar.experiments.claims import read_claims
from wstar.report.claims_figures import claim_picture
from wstar.report.figures import ACCENT, CONTRAST, Figure, axis, layout, line
from wstar.report.numbers import MISSING, duration, number, plotted, plural
from wstar.report.reading import FinishedRun

Page = dict[str, Any]
Row = dict[str, Any]

HOLDS = ("holds", "holds as corrected")
_PAPERS = {"ZG": "Zhou & Ge 2024", "LMZ": "Li, Ma & Zhang 2020"}


def claims_page(run: FinishedRun) -> Page:
    """Everything that the template ``claims.html`` shows; KeyError or TypeError where the result is not whole."""
    rows = read_claims(run.path)["claims"]
    drawn = {f"claim-{k}": figure for k, row in enumerate(rows) if (figure := claim_figure(row)) is not None}
    return {
        "headline": headline(rows),
        "lead": "Each verdict is computed from numbers of this run, and no check says “holds” on a broken input.",
        "eyebrow": ", ".join(_PAPERS[paper] for paper in _PAPERS if any(row["paper"] == paper for row in rows)),
        "notices": [],
        "facts": _facts(run.result, rows),
        "rows": [_cells(k, row) for k, row in enumerate(rows)],
        "figures": drawn,
    }


def headline(rows: list[Row]) -> str:
    """One sentence: how many statements hold, and how the others do not."""
    n = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in {row["verdict"] for row in rows}}
    said = f"{n.get('holds', 0)} of {plural(len(rows), 'statement')} hold as printed"
    rest = {"holds as corrected": "as corrected", "fails": "fail", "not decidable here": "cannot be decided here"}
    if n.get("fails") == 1:
        rest["fails"] = "fails"
    others = [f"{n[verdict]} {words}" for verdict, words in rest.items() if n.get(verdict)]
    return said + (", " + ", ".join(others) if others else "")


def measured_and_bound(row: Row) -> tuple[str, str, str]:
    """The number that decides, what it is compared with, and the interval of a fit."""
    low_high = row["interval"]
    interval = MISSING if low_high is None else f"{number(low_high[0])} to {number(low_high[1])}"
    return number(row["measured"]), number(row["bound"]), interval


def claim_figure(row: Row) -> Figure | None:
    """A rate: its points with both slopes. An inequality: left over right of all instances. A picture: itself."""
    data = row["data"]
    if "figure" in data:
        return claim_picture(data)
    if "claimed" in data:
        return _rate(data)
    if len(data.get("ratios", ())) > 1:
        return _ratios(data["ratios"])
    return None


def _rate(data: dict[str, Any]) -> Figure:
    x, y = np.array(data["x"]), np.array(data["y"])
    ends = np.array([x.min(), x.max()])
    fitted = data["constant"] * ends ** data["exponent"]
    # the claimed slope goes through the middle of the fitted line
    middle = float(np.sqrt(ends[0] * ends[1]))
    claimed = data["constant"] * middle ** data["exponent"] * (ends / middle) ** data["claimed"]
    names = data["axes"]
    points = {
        "type": "scatter", "mode": "markers", "x": plotted(x), "y": plotted(y), "name": "measured",
        "marker": {"color": ACCENT, "size": 7}, "hovertemplate": "%{x:.3g}, %{y:.3g}<extra></extra>",
    }  # fmt: skip
    lines = [
        line(plotted(ends), plotted(fitted), f"fitted {number(data['exponent'])}", ACCENT, hoverinfo="skip"),
        line(plotted(ends), plotted(claimed), f"claimed {number(data['claimed'])}", CONTRAST, hoverinfo="skip",
             line={"dash": "dash"}),
    ]  # fmt: skip
    return {"data": [points, *lines], "layout": layout(axis(names[0], log=x), axis(names[1], log=y))}


def _ratios(ratios: list[float]) -> Figure:
    values = [ratio for ratio in ratios if ratio is not None and ratio > 0.0]
    share = (np.arange(1, len(values) + 1) / max(len(values), 1)).tolist()
    points = {
        "type": "scatter", "mode": "markers", "x": plotted(share), "y": plotted(values), "name": "left / right",
        "marker": {"color": ACCENT, "size": 5}, "hovertemplate": "%{y:.3g}<extra></extra>",
    }  # fmt: skip
    bound = line([0.0, 1.0], [1.0, 1.0], "bound", CONTRAST, line={"dash": "dash"}, hoverinfo="skip")
    shape = layout(axis("share of the instances"), axis("left / right", log=[*values, 1.0]))
    return {"data": [points, bound], "layout": shape}


def _facts(result: dict[str, Any], rows: list[Row]) -> list[tuple[str, str]]:
    facts = [(str(n), verdict) for verdict, n in result["verdicts"].items()]
    sizes = "quick" if result["quick"] else "full"
    spent = duration(sum(row["seconds"] for row in rows))
    return [*facts, (sizes, "sizes"), (spent, "spent on the checks")]


def _cells(k: int, row: Row) -> dict[str, Any]:
    measured, bound, interval = measured_and_bound(row)
    return {
        "id": f"claim-{k}",
        "claim": row["claim"],
        "statement": row["statement"],
        "kind": row["kind"],
        "verdict": row["verdict"],
        "good": row["verdict"] in HOLDS,
        "measured": measured,
        "bound": bound,
        "interval": interval,
        "note": row["note"],
    }


def print_claims(console: Console, result: dict[str, Any]) -> None:
    """The verdicts as a table, then their sum in one sentence."""
    table = Table(title=None, header_style="bold", box=None, pad_edge=False)
    for name in ("claim", "verdict"):
        table.add_column(name)
    for name in ("measured", "bound", "interval"):
        table.add_column(name, justify="right")
    for row in result["claims"]:
        table.add_row(escape(row["claim"]), row["verdict"], *measured_and_bound(row))
    console.print(table)
    for row in result["claims"]:
        if row["verdict"] not in HOLDS:
            console.print(f"{row['claim']}: {row['verdict']}. {row['note']}", highlight=False, markup=False)
    console.print(headline(result["claims"]), highlight=False)
