"""The figures of the reproduction of ZG on widths, phase diagrams and hard teachers."""

from typing import Any

import numpy as np

from wstar.report.figures import (
    ACCENT,
    CONTRAST,
    INK,
    Figure,
    axis,
    layout,
    legend_below,
    line,
    power_line,
    shade_of,
    uneven_bars,
)
from wstar.report.numbers import number, plotted

_KINDS = {
    "random": ("frozen: random", "var(--order-1)", "dot"),
    "random in the span": ("random in the span", "var(--order-3)", "dash"),
    "one step": ("after one step", CONTRAST, "solid"),
    "trained before": ("trained to λ = {before}", "var(--order-2)", "solid"),
    "trained": ("trained to λ = {last}", ACCENT, "solid"),
}


def widths(part: dict[str, Any]) -> Figure:
    """Median loss against first-layer directions: frozen ones with the best masses, and trained on."""
    n, data, shown = [row["width"] for row in part["rows"]], [], []
    for kind, (pattern, shade, dash) in _KINDS.items():
        name = pattern.format(before=number(part["weight_decay_before"], 2), last=number(part["weight_decay"], 2))
        values = part["medians"][kind]
        shown += [value for value in values if value]
        hover = f"{name}: %{{x}} directions<br>L = %{{y:.2e}}<extra></extra>"
        looks = {"mode": "lines+markers", "marker": {"size": 6}, "line": {"dash": dash, "width": 1.5}}
        shown_values = plotted([value if value else np.nan for value in values])
        data.append(line(n, shown_values, name, shade, hovertemplate=hover, **looks))
        data += power_line(n, part["fits"].get(kind), shade)
    ticks = axis("first-layer directions", log=n, showgrid=False, tickvals=n, ticktext=[str(width) for width in n])
    return {"data": data, "layout": layout(ticks, axis("median loss L", log=shown), legend=legend_below(-0.26))}


def phase(rows: list[dict[str, Any]], key: str, title: str) -> Figure:
    """Share of recoveries as colour: the row's quantity up, width across, the optimum of any width last."""
    ordered = sorted(rows, key=lambda row: row[key])
    names = [str(cell["width"]) for cell in ordered[0]["cells"]] + ["any"]
    shares = [[*(cell["share"] for cell in row["cells"]), row["optimum_share"]] for row in ordered]
    labels = [f"{row[key]:g}" for row in ordered]
    spans = [[f"{number(s['interval'][0], 2)} to {number(s['interval'][1], 2)}" for s in row] for row in shares]
    heat = {
        "type": "heatmap",
        "name": "share recovered",
        "x": names,
        "y": labels,
        "z": [[round(s["share"], 4) for s in row] for row in shares],
        "text": [[f"{s['found']}/{s['total']}" for s in row] for row in shares],
        "customdata": spans,
        "texttemplate": "%{text}",
        "hovertemplate": f"m = %{{x}}, {title} %{{y}}<br>%{{text}} recovered (95 %: %{{customdata}})<extra></extra>",
        "zmin": 0,
        "zmax": 1,
        "xgap": 2,
        "ygap": 2,
        "colorscale": [[0, "var(--raised)"], [0.5, "var(--order-3)"], [1, "var(--order-4)"]],
        "showscale": False,
    }
    x = axis("neurons m at the start", showgrid=False, type="category")
    return {"data": [heat], "layout": layout(x, axis(title, showgrid=False, type="category"))}


def shares(curves: dict[str, list[dict[str, Any]]], title: str) -> Figure:
    """Share of recoveries against a geometry's quantity, with 95 % intervals; dotted, the optimum of any width."""
    data, values = [], []
    for (name, rows), shade in zip(curves.items(), (ACCENT, CONTRAST, INK), strict=False):
        x = [row["value"] for row in rows]
        values += x
        hover = f"{name}: {title} %{{x:.3g}}<br>%{{y:.0%}} recovered<extra></extra>"
        data.append(_with_intervals(x, [row["share"] for row in rows], name, shade, hover))
        best = [row["optimum_share"]["share"] for row in rows]
        dotted = {"line": {"dash": "dot", "width": 1.5}, "hovertemplate": f"optimum, {hover}"}
        data.append(line(x, plotted(best), f"{name}, optimum of any width", shade, **dotted))
    return {"data": data, "layout": layout(axis(title, log=values), _share_axis(), legend=legend_below(-0.2))}


def learnt(parts: list[dict[str, Any]]) -> Figure:
    """Share of whole runs from samples that recover, against N/d², a curve for each d."""
    data, ratios = [], []
    for k, part in enumerate(parts):
        x = [row["ratio"] for row in part["rows"]]
        ratios += x
        hover = f"d = {part['dim']}, N = %{{x:.3g}}d²<br>%{{y:.0%}} recovered<extra></extra>"
        shade = shade_of(k, len(parts))
        data.append(_with_intervals(x, [row["share"] for row in part["rows"]], f"d = {part['dim']}", shade, hover))
    return {"data": data, "layout": layout(axis("N/d²", log=ratios), _share_axis())}


def _with_intervals(x: list[float], found: list[dict[str, Any]], name: str, shade: str, hover: str) -> dict[str, Any]:
    y = np.array([share["share"] for share in found])
    low, high = (np.array([share["interval"][k] for share in found]) for k in (0, 1))
    bars = uneven_bars(low, y, high, shade, 3)
    looks = {"mode": "lines+markers", "marker": {"size": 7}, "line": {"width": 1.5}}
    return line(x, plotted(y), name, shade, error_y=bars, hovertemplate=hover, **looks)


def _share_axis() -> dict[str, Any]:
    return axis("share recovered", range=[-0.05, 1.08], tickformat=".0%")
