"""The figures of the reproduction of LMZ."""

from typing import Any

import numpy as np

from wstar.report.figures import (
    ACCENT,
    CONTRAST,
    INK,
    MUTED,
    Figure,
    axis,
    layout,
    legend_below,
    line,
    points,
    power_line,
)
from wstar.report.numbers import plotted

_ORDERS = tuple(f"var(--order-{k})" for k in range(1, 6))
_STAGES = {
    "settled": ("1.1: orders 0 and 2 have fallen", MUTED),
    "plateau_end": ("1.2: the plateau is over", CONTRAST),
    "warm": ("2.1: every order below 0.1", "var(--order-3)"),
    "fitted": ("2.2: every order below 0.01", ACCENT),
}


def panel(runs: list[dict[str, Any]]) -> Figure:
    """Relative tensor losses against steps: a thin line each run and order, a thick one for the median of the runs."""
    orders, data, shown = runs[0]["order"], [], []
    for k, order in enumerate(orders):
        color = _ORDERS[min(k, 4)]
        for run in runs:
            values = [row[k] for row in run["relative"]]
            shown += values
            stroke = {"color": color, "width": 0.8}
            thin = {"line": stroke, "opacity": 0.45, "showlegend": False, "hoverinfo": "skip"}
            data.append(line(run["step"], plotted(values, 4), f"order {order}", color, **thin))
    n = min(len(run["step"]) for run in runs)
    for k, order in enumerate(orders):
        middle = np.median([[row[k] for row in run["relative"][:n]] for run in runs], axis=0)
        hover = f"order {order}, step %{{x:,}}<br>median %{{y:.3g}}<extra></extra>"
        stroke = {"width": 2.5}
        data.append(
            line(
                runs[0]["step"][:n],
                plotted(middle, 4),
                str(order),
                _ORDERS[min(k, 4)],
                line=stroke,
                hovertemplate=hover,
            )
        )
    levels = [
        {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": level, "y1": level, "layer": "below",
         "line": {"color": MUTED, "width": 1, "dash": "dot"}}
        for level in (0.1, 0.01)
    ]  # fmt: skip
    steps = [step for run in runs for step in run["step"]]
    shape = layout(
        axis("gradient step", log=steps, showgrid=False),
        axis("relative tensor loss", log=shown),
        shapes=levels,
        meta="steps",
    )
    shape["legend"]["title"] = {"text": "order "}
    return {"data": data, "layout": shape}


def stage_times(dimensions: list[dict[str, Any]], fits: dict[str, Any]) -> Figure:
    """Steps at which each stage ends against d, all runs, with the fitted powers."""
    data, shown = [], []
    for key, (name, color) in _STAGES.items():
        pairs = [(part["dim"], run[key]) for part in dimensions for run in part["runs"] if run[key]]
        if not pairs:
            continue
        x, y = (list(column) for column in zip(*pairs, strict=True))
        shown += y
        hover = f"{name}: d = %{{x}}, step %{{y:,.0f}}<extra></extra>"
        data.append(points(x, y, name, color, hover))
        data += power_line(x, fits.get(key), color)
    shape = layout(_dims(dimensions), axis("gradient steps", log=shown), legend=legend_below(-0.28))
    return {"data": data, "layout": shape}


def final_loss(dimensions: list[dict[str, Any]], baselines: list[dict[str, Any]], fit: dict[str, Any] | None) -> Figure:
    """The loss times d, against d: truncated descent, every baseline, and the floors of order p."""
    x = [part["dim"] for part in dimensions for _ in part["runs"]]
    y = [part["dim"] * run["loss"] for part in dimensions for run in part["runs"]]
    hover = "{}: d = %{{x}}, d·L = %{{y:.3g}}<extra></extra>"
    data = [points(x, y, "truncated descent, population", ACCENT, hover.format("population"))]
    if fit is not None:
        data += power_line(x, fit | {"exponent": fit["exponent"] + 1.0}, ACCENT)
    dims, shown = [part["dim"] for part in baselines], list(y)
    for k, row in enumerate(baselines[0]["rows"]):
        values = [part["dim"] * part["rows"][k]["error"] for part in baselines]
        shown += values
        ours = not row["baseline"]
        name = row["name"].replace("descent", "descent, samples") if ours else row["name"]
        look: dict[str, Any] = {"mode": "lines+markers", "marker": {"symbol": k % 12, "size": 7}}
        look["hovertemplate"] = hover.format(name)
        color = ACCENT if ours else _ORDERS[(k - 1) % 5]
        data.append(line(dims, plotted(values), name, color, line={"width": 2 if ours else 1.2}, **look))
    ends = [min(x + dims), max(x + dims)]
    for order, value in baselines[0]["floors"].items():
        level = dims[0] * value
        shown.append(level)
        stroke: dict[str, Any] = {"dash": "dot", "width": 1.2}
        said = f"beyond order {order}: {level:.3g}<extra></extra>"
        first = {"legendgroup": "floors", "showlegend": order == "0"}
        data.append(
            line(ends, [level] * 2, "floors of order 0, 2, 4, 6", CONTRAST, line=stroke, hovertemplate=said, **first)
        )
    return {"data": data, "layout": layout(_dims(dimensions), axis("d · L", log=shown), legend=legend_below(-0.14))}


def distance_against_steps(limit: dict[str, Any]) -> Figure:
    """ξ against steps for every width, and the uncertainty of the reference."""
    data, shown = [], []
    for k, row in enumerate(limit["rows"]):
        hover = f"m = {row['width']}, step %{{x:,}}<br>ξ = %{{y:.3g}}<extra></extra>"
        data.append(
            line(
                limit["step"], plotted(row["distance"]), f"m = {row['width']}", _ORDERS[min(k, 4)], hovertemplate=hover
            )
        )
        shown += row["distance"]
    own = limit["own_error"]
    hover = "reference, step %{x:,}<br>%{y:.3g}<extra></extra>"
    data.append(
        line(limit["step"], plotted(own), "the reference itself", CONTRAST, line={"dash": "dot"}, hovertemplate=hover)
    )
    shown += own
    shape = layout(axis("gradient step", log=limit["step"], showgrid=False), axis("ξ", log=shown), meta="steps")
    return {"data": data, "layout": shape}


def distance_against_width(limit: dict[str, Any]) -> Figure:
    """ξ against m at the ends of stages, with the fitted powers."""
    widths, data, shown = [row["width"] for row in limit["rows"]], [], []
    names = {"settled": ("end of 1.1", MUTED), "stage_one": ("end of Stage 1", ACCENT), "end": ("end of the run", INK)}
    for key, (name, color) in names.items():
        fit = limit["exponents"][key]
        y = [row["distance"][limit["step"].index(fit["step"])] for row in limit["rows"]]
        shown += y
        data.append(points(widths, y, name, color, f"{name}: m = %{{x}}, ξ = %{{y:.3g}}<extra></extra>"))
        data += power_line(widths, fit, color)
    x = axis("width m", log=widths, showgrid=False, tickvals=widths, ticktext=[str(width) for width in widths])
    return {"data": data, "layout": layout(x, axis("ξ", log=shown))}


def _dims(dimensions: list[dict[str, Any]]) -> dict[str, Any]:
    dims = [part["dim"] for part in dimensions]
    return axis("dimension d", log=dims, showgrid=False, tickvals=dims, ticktext=[str(dim) for dim in dims])
