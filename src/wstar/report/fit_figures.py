"""The figures of a fit: ridge functions with bands, predictions and residuals, the path over the weight decay."""

from typing import Any

import numpy as np

from wstar.report.figures import ACCENT, CONTRAST, INK, MUTED, RULE, Figure, axis, layout, line
from wstar.report.numbers import plain, plotted, thinned

_MOST_POINTS = 600
_MOST_PREDICTIONS = 1500


def ridge(direction: dict[str, Any], target: str, reach: list[float] | None) -> Figure:
    """A ridge function with its band, and what the rest of the model leaves to it."""
    points, curve = direction["points"], direction["curve"]
    kept = thinned(len(points["t"]), _MOST_POINTS)
    dots = _dots(np.asarray(points["t"])[kept], np.asarray(points["value"])[kept], "rows", MUTED, 5, 0.4)
    t = plotted(curve["t"], 5)
    data = [dots]
    if "low" in curve:
        edge = {"line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
        data.append(line(t, plotted(curve["low"], 5), "band, lower", ACCENT, **edge))
        data.append(line(t, plotted(curve["high"], 5), "band, upper", ACCENT, **edge, fill="tonexty", opacity=0.3))
        data[-1]["fillcolor"] = "rgba(60,130,200,0.22)"
    hover = "along the direction %{x:.2f}<br>contribution %{y:.3g}<extra></extra>"
    data.append(line(t, plotted(curve["value"], 5), "ridge function", ACCENT, line={"width": 3}, hovertemplate=hover))
    y = axis(f"part of {plain(target)}", **({"range": reach} if reach else {}))
    x = axis("along the direction, in standard deviations", showgrid=False)
    return {"data": data, "layout": layout(x, y, showlegend=False, margin={"l": 56, "r": 8, "t": 8, "b": 44})}


def common_range(directions: list[dict[str, Any]]) -> list[float] | None:
    """Limits that hold every curve, and all but the farthest hundredth of the dots."""
    if not directions:
        return None
    dots = np.concatenate([np.asarray(one["points"]["value"], dtype=float) for one in directions])
    curves = np.concatenate([np.asarray(one["curve"]["value"], dtype=float) for one in directions])
    low, high = np.quantile(dots, [0.005, 0.995])
    low, high = min(float(low), float(curves.min())), max(float(high), float(curves.max()))
    margin = 0.05 * ((high - low) or 1.0)
    return [low - margin, high + margin]


def predicted_against_observed(predictions: dict[str, list[Any]], target: str) -> Figure:
    """Both kinds of rows and the line on which a prediction is exact."""
    values = [*predictions["observed"], *predictions["predicted"]]
    ends = [min(values), max(values)]
    exact = line(ends, ends, "exact", INK, line={"dash": "dot", "width": 1.5}, hoverinfo="skip", showlegend=False)
    hover = "row %{customdata}<br>observed %{x:.4g}<br>predicted %{y:.4g}<extra></extra>"
    data = [*_both_kinds(predictions, "observed", "predicted", hover), exact]
    return {"data": data, "layout": layout(axis(f"observed {plain(target)}", gridcolor=RULE), axis("predicted"))}


def residuals(predictions: dict[str, list[Any]], target: str) -> Figure:
    """Observed less predicted, against predicted."""
    observed, predicted = (np.asarray(predictions[name], dtype=float) for name in ("observed", "predicted"))
    shown = predictions | {"residual": (observed - predicted).tolist()}
    hover = "row %{customdata}<br>predicted %{x:.4g}<br>missed by %{y:.3g}<extra></extra>"
    ends = [float(predicted.min()), float(predicted.max())]
    zero = line(ends, [0.0, 0.0], "none", INK, line={"dash": "dot", "width": 1.5}, hoverinfo="skip", showlegend=False)
    data = [*_both_kinds(shown, "predicted", "residual", hover), zero]
    x = axis(f"predicted {plain(target)}", gridcolor=RULE)
    return {"data": data, "layout": layout(x, axis("observed − predicted"))}


def path_error(path: list[dict[str, Any]]) -> Figure:
    """Cross-validated R² with standard errors against λ; ridge regression as a level."""
    ridge_score = 1.0 - path[0]["cv_error"]
    decays = [row["weight_decay"] for row in path if row["weight_decay"] is not None]
    data = []
    for refitted, name, color in ((False, "penalised", ACCENT), (True, "refitted without penalty", CONTRAST)):
        rows = [r for r in path if r["refitted"] == refitted and r["weight_decay"] and r["cv_error"] is not None]
        rows.sort(key=lambda row: -row["weight_decay"])
        if not rows:
            continue
        bars = {"type": "data", "array": [r["cv_standard_error"] for r in rows], "color": color, "thickness": 1}
        hover = "λ = %{x:.3g}, %{customdata} bends: R² %{y:.3f}<extra></extra>"
        scores = plotted([1.0 - r["cv_error"] for r in rows], 5)
        mode = "markers" if refitted else "lines+markers"
        trace = line([r["weight_decay"] for r in rows], scores, name, color, mode=mode, error_y=bars)
        data.append({**trace, "hovertemplate": hover, "customdata": [r["n_neurons"] for r in rows]})
    if decays:
        ends = [min(decays), max(decays)]
        level = plotted([ridge_score] * 2, 5)
        data.append(line(ends, level, "linear part alone", MUTED, line={"dash": "dot"}, hoverinfo="skip"))
    chosen = next(row for row in path if row["chosen"])
    if chosen["weight_decay"] is not None:
        ring = {"size": 15, "color": "rgba(0,0,0,0)", "line": {"color": INK, "width": 2}}
        at = plotted([1.0 - chosen["cv_error"]], 5)
        data.append(line([chosen["weight_decay"]], at, "chosen", INK, mode="markers", marker=ring, hoverinfo="skip"))
    x = axis("weight decay λ", log=decays, autorange="reversed", showgrid=False)
    return {"data": data, "layout": layout(x, axis("cross-validated R²"))}


def path_neurons(path: list[dict[str, Any]]) -> Figure:
    """Bends (neurons) against λ."""
    rows = sorted((r for r in path if r["weight_decay"] and not r["refitted"]), key=lambda r: -r["weight_decay"])
    decays = [row["weight_decay"] for row in rows]
    hover = "λ = %{x:.3g}: %{y} bends<extra></extra>"
    counts = [row["n_neurons"] for row in rows]
    data = [line(decays, counts, "bends", ACCENT, mode="lines+markers", line={"shape": "hv"}, hovertemplate=hover)]
    x = axis("weight decay λ", log=decays, autorange="reversed", showgrid=False)
    return {"data": data, "layout": layout(x, axis("bends in the model", rangemode="tozero"), showlegend=False)}


def _both_kinds(rows: dict[str, list[Any]], x: str, y: str, hover: str) -> list[dict[str, Any]]:
    unseen, data = np.asarray(rows["unseen"], dtype=bool), []
    for kind, label, color, opacity in (
        (False, "rows it was fitted to", MUTED, 0.35),
        (True, "unseen rows", ACCENT, 0.8),
    ):
        places = np.flatnonzero(unseen == kind)
        places = places[thinned(len(places), _MOST_PREDICTIONS)] if len(places) else places
        if len(places):
            across, up = (np.asarray(rows[name], dtype=float)[places] for name in (x, y))
            dots = _dots(across, up, label, color, 6 + kind, opacity)
            data.append({**dots, "customdata": [rows["row"][k] for k in places], "hovertemplate": hover})
            data[-1].pop("hoverinfo")
    return data


def _dots(x: np.ndarray, y: np.ndarray, name: str, color: str, size: int, opacity: float) -> dict[str, Any]:
    marker = {"color": color, "size": size, "opacity": opacity}
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": plotted(x, 5),
        "y": plotted(y, 5),
        "marker": marker,
        "hoverinfo": "skip",
    }
