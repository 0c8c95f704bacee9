"""The page of ``wstar fit``: how well the table is predicted, and the directions and curves that do it."""

from typing import Any

import numpy as np

from wstar.report import figures
from wstar.report.figures import ACCENT, CONTRAST, INK, MUTED, RULE, Figure, axis, layout, line
from wstar.report.numbers import count, duration, number, percent, plain, plotted, plural, thinned
from wstar.report.reading import FinishedRun

_MOST_DIRECTIONS = 8
_MOST_BARS = 8
_MOST_POINTS = 600
_MOST_PREDICTIONS = 2000

Page = dict[str, Any]


def fit_page(run: FinishedRun) -> Page:
    """Everything that the template ``fit.html`` shows; KeyError or TypeError where the result is not whole."""
    result, rows = run.result, run.result["epochs"]
    shown = result["directions"][:_MOST_DIRECTIONS]
    drawn: dict[str, Figure] = {}
    reach = _common_range(shown)
    for k, direction in enumerate(shown, 1):
        drawn[f"ridge-{k}"] = _ridge(direction, result["target"], reach)
        drawn[f"bars-{k}"] = _bars(direction["weights"], result["columns"], unit=True)
    drawn["linear-part"] = _bars(result["linear"]["weights"], result["columns"], unit=False)
    if result["predictions"]["observed"]:
        drawn["predictions"] = _predictions(result["predictions"], result["target"])
    if rows:
        drawn |= {"loss": figures.losses(run.trajectory), "steps-per-epoch": figures.steps_per_epoch(rows)}
    return {
        "headline": headline(result["scores"], result["n_test"]),
        "lead": _lead(result),
        "eyebrow": f"{result['table']} · {result['target']}",
        "notices": [],
        "facts": _facts(result),
        "directions": [_direction(k, direction, result["columns"]) for k, direction in enumerate(shown, 1)],
        "rest": _rest(result["directions"][_MOST_DIRECTIONS:]),
        "points": _points_caption(shown),
        "intercept": number(result["linear"]["intercept"]),
        "preprocessing": result["preprocessing"],
        "target": result["target"],
        "epochs": [_epoch(k, row) for k, row in enumerate(rows, 1)],
        "figures": drawn,
    }


def headline(scores: dict[str, float | None], n_test: int) -> str:
    """One sentence: R² on unseen rows, beside the plain linear fit."""
    score, plain_fit = scores["r2_test"], scores["r2_linear_test"]
    if score is None:
        return f"R² {number(scores['r2_train'], 2)} on the rows it was fitted to; none were held back"
    rows = plural(n_test, "unseen row")
    if plain_fit is None:
        return f"R² {number(score, 2)} on {rows}"
    if score > plain_fit:
        return f"R² {number(score, 2)} on {rows}, where a linear fit reaches {number(plain_fit, 2)}"
    return f"R² {number(score, 2)} on {rows}, no better than a linear fit’s {number(plain_fit, 2)}"


def _lead(result: dict[str, Any]) -> str:
    n = len(result["directions"])
    if not n:
        return (
            f"No direction was found beyond the linear part: the model predicts {result['target']} by a weighted sum."
        )
    first = result["directions"][0]
    heaviest = _heaviest(first["weights"])[:2]
    named = " and ".join(result["columns"][k] for k in heaviest)
    return (
        f"The model predicts {result['target']} by a linear part and {plural(n, 'direction')} through "
        f"{plural(len(result['columns']), 'column')}. The most important carries {percent(first['importance'])} of "
        f"what the directions explain and is mainly {named}."
    )


def _facts(result: dict[str, Any]) -> list[tuple[str, str]]:
    scores = result["scores"]
    return [
        (number(scores["r2_test"]), "R² on unseen rows"),
        (number(scores["r2_linear_test"]), "R² of the linear fit on them"),
        (number(scores["r2_train"]), "R² on the rows it was fitted to"),
        (count(result["n_train"]), f"rows to fit, {count(result['n_test'])} held back"),
        (number(result["target_sd"]), f"standard deviation of {result['target']}"),
        (duration(result["seconds"]["total"]), "in all"),
    ]


def _direction(k: int, direction: dict[str, Any], columns: list[str]) -> dict[str, Any]:
    hidden = _heaviest(direction["weights"])[_MOST_BARS:]
    rest = ""
    if len(hidden):
        share = float(np.square(np.asarray(direction["weights"])[hidden]).sum())
        rest = f"The other {plural(len(hidden), 'column')} hold {percent(share)} of its squared length."
    named = ", ".join(columns[j] for j in _heaviest(direction["weights"])[:2])
    return {"k": k, "importance": percent(direction["importance"]), "named": named, "rest": rest}


def _rest(directions: list[dict[str, Any]]) -> str:
    if not directions:
        return ""
    share = sum(direction["importance"] for direction in directions)
    further = plural(len(directions), "further direction")
    return f"{further}, with {percent(share)} together, not drawn; all are in result.json."


def _points_caption(directions: list[dict[str, Any]]) -> str:
    n = max((len(direction["points"]["t"]) for direction in directions), default=0)
    return f"Dots: {count(_MOST_POINTS)} of the {count(n)} rows." if n > _MOST_POINTS else "Dots: the rows."


def _heaviest(weights: list[float]) -> list[int]:
    return [int(k) for k in np.argsort(-np.abs(np.asarray(weights, dtype=float)), kind="stable")]


def _common_range(directions: list[dict[str, Any]]) -> list[float] | None:
    values = [v for d in directions for v in (*d["points"]["value"], *d["curve"]["value"]) if v is not None]
    if not values:
        return None
    low, high = min(values), max(values)
    margin = 0.05 * ((high - low) or 1.0)
    return [low - margin, high + margin]


def _ridge(direction: dict[str, Any], target: str, reach: list[float] | None) -> Figure:
    points, curve = direction["points"], direction["curve"]
    kept = thinned(len(points["t"]), _MOST_POINTS)
    dots = {
        "type": "scatter",
        "mode": "markers",
        "name": "rows",
        "x": plotted(np.asarray(points["t"], dtype=float)[kept], 4),
        "y": plotted(np.asarray(points["value"], dtype=float)[kept], 4),
        "marker": {"color": MUTED, "size": 5, "opacity": 0.45},
        "hoverinfo": "skip",
    }
    hover = "along the direction %{x:.2f}<br>contribution %{y:.3g}<extra></extra>"
    t, value = plotted(curve["t"], 5), plotted(curve["value"], 5)
    fitted = line(t, value, "ridge function", ACCENT, line={"width": 3}, hovertemplate=hover)
    y = axis(f"part of {plain(target)}", **({"range": reach} if reach else {}))
    shape = layout(
        axis("along the direction", showgrid=False), y, showlegend=False, margin={"l": 56, "r": 8, "t": 8, "b": 44}
    )
    return {"data": [dots, fitted], "layout": shape}


def _bars(weights: list[float], columns: list[str], *, unit: bool) -> Figure:
    """Weights as labelled bars, heaviest on top; ``unit`` fixes the scale to that of a unit vector."""
    top = _heaviest(weights)[: _MOST_BARS if unit else 2 * _MOST_BARS][::-1]
    values = [float(weights[k]) for k in top]
    data = {
        "type": "bar",
        "orientation": "h",
        "x": plotted(values, 4),
        # positions, not names: two columns whose shortened names agree stay two bars
        "y": list(range(len(top))),
        "marker": {"color": [ACCENT if v >= 0.0 else CONTRAST for v in values]},
        "customdata": [plain(columns[k], 80) for k in top],
        "hovertemplate": "%{customdata}: %{x:.3f}<extra></extra>",
    }
    x = axis("weight", range=[-1.05, 1.05], tickvals=[-1, -0.5, 0, 0.5, 1]) if unit else axis("weight")
    x |= {"zeroline": True, "zerolinecolor": MUTED}
    y = axis(
        "", showgrid=False, tickvals=data["y"], ticktext=[plain(columns[k], 16) for k in top], tickfont={"color": INK}
    )
    margin = {"l": 8, "r": 8, "t": 8, "b": 44}
    return {"data": [data], "layout": layout(x, y, bargap=0.4, showlegend=False, margin=margin)}


def _predictions(predictions: dict[str, list[float]], target: str) -> Figure:
    kept = thinned(len(predictions["observed"]), _MOST_PREDICTIONS)
    observed, predicted = (np.asarray(predictions[name], dtype=float)[kept] for name in ("observed", "predicted"))
    low, high = float(min(observed.min(), predicted.min())), float(max(observed.max(), predicted.max()))
    dots = {
        "type": "scatter",
        "mode": "markers",
        "name": "unseen rows",
        "x": plotted(observed, 5),
        "y": plotted(predicted, 5),
        "marker": {"color": ACCENT, "size": 7, "opacity": 0.6},
        "hovertemplate": "observed %{x:.3g}<br>predicted %{y:.3g}<extra></extra>",
    }
    diagonal = line([low, high], [low, high], "exact", MUTED, line={"dash": "dot", "width": 1.5}, hoverinfo="skip")
    shape = layout(axis(f"observed {plain(target)}", gridcolor=RULE), axis("predicted"), showlegend=False)
    return {"data": [diagonal, dots], "layout": shape}


def _epoch(k: int, row: dict[str, Any]) -> list[str]:
    cells = [str(k), number(row["weight_decay"], 2), count(row["n_steps"]), str(row["reason"])]
    return [*cells, number(row["loss"], 2), number(row["objective"], 2), count(row["living"])]
