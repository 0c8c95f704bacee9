"""Figures as plotly's own JSON, coloured by name: the page's style sheet decides what a name looks like.

A colour is written ``var(--accent)``; the page's script puts in the value, light or dark. Building the JSON directly
keeps plotly's slow Python objects out of a run that is over in seconds; the tests hold every figure to their schema.
"""

from typing import Any

import numpy as np
import xarray as xr

from wstar.report.numbers import plotted, thinned

Figure = dict[str, Any]

ACCENT, CONTRAST, INK, MUTED, RULE = (f"var(--{name})" for name in ("accent", "contrast", "ink", "muted", "rule"))
_MOST_STEPS = 3000
_MOST_MARKED_EPOCHS = 40


def axis(title: str, *, log: np.ndarray | list[Any] | None = None, **settings: Any) -> dict[str, Any]:
    """One axis in the house style; logarithmic if the values to be shown are given as ``log``."""
    kind = {} if log is None else {"type": "log", "exponentformat": "power", **_decades(log)}
    look = {"gridcolor": RULE, "zeroline": False, "linecolor": RULE, "ticks": "", "automargin": True}
    return {"title": {"text": title, "standoff": 8, "font": {"size": 13}}, **look, **kind, **settings}


def _decades(values: np.ndarray | list[Any]) -> dict[str, Any]:
    """Ticks at whole powers of ten, not too many; also at 2 and 5 where the values span less than one."""
    shown = np.asarray([value for value in np.ravel(np.asarray(values, dtype=float)) if value > 0.0])
    span = float(np.log10(shown.max()) - np.log10(shown.min())) if len(shown) else 0.0
    return {"dtick": int(np.ceil(span / 7.0))} if span >= 1.0 else {"dtick": "D2", "tickformat": "~g"}


def layout(x: dict[str, Any], y: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """A plain chart with the legend, if any, above it."""
    return {
        "xaxis": x,
        "yaxis": y,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": MUTED, "size": 13},
        "margin": {"l": 56, "r": 12, "t": 34, "b": 46},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"color": INK}},
        "hoverlabel": {"bgcolor": "var(--raised)", "bordercolor": RULE, "font": {"color": INK}},
        "hovermode": "closest",
        **settings,
    }


def line(x: list[Any], y: list[Any], name: str, color: str, **settings: Any) -> dict[str, Any]:
    """One line of a chart."""
    stroke = {"color": color, "width": 2, **settings.pop("line", {})}
    return {"type": "scatter", "mode": "lines", "x": x, "y": y, "name": name, "line": stroke, **settings}


def points(x: list[Any], y: list[Any], name: str, color: str, hover: str, **settings: Any) -> dict[str, Any]:
    """Dots of a chart."""
    marker = {"size": 7, "color": color}
    return line(x, plotted(y), name, color, mode="markers", marker=marker, hovertemplate=hover, **settings)


def uneven_bars(low: np.ndarray, middle: np.ndarray, high: np.ndarray, color: str, width: int) -> dict[str, Any]:
    """Error bars from ``low`` to ``high`` around ``middle``, with caps of ``width``: the ``error_y`` of a line."""
    ends = {"array": plotted(high - middle), "arrayminus": plotted(middle - low)}
    return {"type": "data", "symmetric": False, "color": color, "thickness": 1, "width": width, **ends}


def power_line(x: list[Any], fit: dict[str, Any] | None, color: str) -> list[dict[str, Any]]:
    """``constant·x^exponent`` across the range of ``x`` as a thin line; nothing where nothing was fitted."""
    if fit is None:
        return []
    ends = [min(x), max(x)]
    y = [fit["constant"] * end ** fit["exponent"] for end in ends]
    return [line(ends, plotted(y), "", color, line={"width": 1}, showlegend=False, hoverinfo="skip")]


def shade_of(k: int, total: int) -> str:
    """A colour for the k-th of ``total`` ordered curves, from light to strong."""
    return f"var(--order-{1 + round(4 * k / max(total - 1, 1))})"


def legend_below(y: float) -> dict[str, Any]:
    """A legend of many entries stands under the chart, at ``y`` of its height."""
    return {"orientation": "h", "x": 0, "y": y, "yanchor": "top", "font": {"color": INK, "size": 11}}


def losses(trajectory: xr.Dataset) -> Figure:
    """Loss and regularised loss against steps, with a thin line where an epoch begins."""
    kept = thinned(trajectory.sizes["step"], _MOST_STEPS)
    steps = trajectory["step"].values[kept].tolist()
    hover = "step %{x:,}<br>%{y:.3g}"
    names = {"objective": ("L<sub>λ</sub>, with weight decay", MUTED), "loss": ("L", ACCENT)}
    data = [
        line(steps, plotted(trajectory[variable].values[kept]), name, color, hovertemplate=hover)
        for variable, (name, color) in names.items()
    ]
    return {"data": data, "layout": _against_steps("mean squared error", trajectory, trajectory["loss"].values)}


def tensor_losses(trajectory: xr.Dataset) -> Figure | None:
    """Relative tensor loss of every recorded order against steps; None where the run recorded none."""
    if "tensor_loss" not in trajectory or not np.isfinite(trajectory["tensor_loss"].values).any():
        return None
    kept = thinned(trajectory.sizes["step"], _MOST_STEPS)
    steps = trajectory["step"].values[kept].tolist()
    data = []
    for position, order in enumerate(trajectory["order"].values.tolist()):
        values = plotted(trajectory["tensor_loss"].values[kept, position])
        # orders 0 and 1 belong to the affine part, which is fitted beside the neurons
        stroke = {"color": f"var(--order-{min(position, 5)})", "dash": "dot" if order < 2 else "solid"}
        hover = f"order {order}, step %{{x:,}}<br>%{{y:.3g}}"
        data.append(line(steps, values, str(order), "", line=stroke, hovertemplate=hover + "<extra></extra>"))
    shape = _against_steps("relative tensor loss", trajectory, trajectory["tensor_loss"].values)
    shape["legend"]["title"] = {"text": "order "}
    return {"data": data, "layout": shape}


def _against_steps(y_title: str, trajectory: xr.Dataset, values: np.ndarray) -> dict[str, Any]:
    first = _first_steps(trajectory)
    marks = [] if len(first) > _MOST_MARKED_EPOCHS else first
    rule = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "layer": "below", "line": {"color": RULE, "width": 1}}
    return layout(
        axis("gradient step", log=trajectory["step"].values, showgrid=False),
        axis(y_title, log=values),
        shapes=[{**rule, "x0": step, "x1": step} for step in marks],
        meta="steps",
    )


def _first_steps(trajectory: xr.Dataset) -> list[int]:
    ends = np.cumsum(trajectory["n_steps"].values.astype(int))
    return [int(step) for step in ends[:-1]]


def epochs(rows: list[dict[str, Any]]) -> Figure:
    """Weight decay and, where a teacher is known, the largest angle of a heavy neuron after each epoch."""
    done = list(range(1, len(rows) + 1))
    marked = {"mode": "lines+markers", "hovertemplate": "after epoch %{x}: %{y:.2e}<extra></extra>"}
    decay, angles = (
        plotted([_or_nan(row.get(name)) for row in rows]) for name in ("weight_decay", "largest_heavy_angle")
    )
    data = [line(done, decay, "weight decay λ", MUTED, line={"dash": "dot"}, **marked)]
    if any(value is not None for value in angles):
        data.append(line(done, angles, "largest angle of a heavy neuron, rad", ACCENT, **marked))
    shown = [value for value in decay + angles if value is not None]
    return {"data": data, "layout": layout(_epoch_axis(len(rows)), axis("", log=shown))}


def optimality_gap(rows: list[dict[str, Any]]) -> Figure:
    """ζ at the end of every epoch, with its error bar, beside λ²."""
    done = list(range(1, len(rows) + 1))
    zeta, squares = [_or_nan(row["zeta"]) for row in rows], [row["weight_decay"] ** 2 for row in rows]
    errors = [_or_nan(row["zeta_error"]) for row in rows]
    bars = {"type": "data", "array": errors, "color": MUTED, "thickness": 1}
    hover = "after epoch %{x}: ζ = %{y:.2e}<extra></extra>"
    data = [
        line(done, plotted(squares), "λ²", MUTED, line={"dash": "dot"}),
        line(done, plotted(zeta), "ζ", ACCENT, mode="lines+markers", error_y=bars, hovertemplate=hover),
        line(
            done,
            plotted([z / s for z, s in zip(zeta, squares, strict=True)]),
            "ζ/λ²",
            CONTRAST,
            mode="lines+markers",
            hovertemplate="after epoch %{x}: ζ/λ² = %{y:.2g}<extra></extra>",
        ),
    ]
    return {"data": data, "layout": layout(_epoch_axis(len(rows)), axis("", log=[*zeta, *squares]))}


def gradient_against_gap(trajectory: xr.Dataset) -> Figure:
    """``‖∇L_λ‖²`` against ``ζ⁴/λ²`` at every recorded step of which ζ is known to a tenth (ZG Lemma 6)."""
    decay = trajectory["weight_decay"].values[trajectory["epoch_of_step"].values.astype(int)]
    zeta, slope = trajectory["zeta"].values, trajectory["gradient_norm"].values ** 2
    known = (trajectory["zeta_error"].values <= 0.1 * zeta) & (slope > 0.0)
    bound = (zeta**4 / decay**2)[known]
    kept = thinned(int(known.sum()), _MOST_STEPS)
    x, y = bound[kept], slope[known][kept]
    points = line(plotted(x), plotted(y), "recorded steps", ACCENT, mode="markers", marker={"size": 5})
    points["hovertemplate"] = "ζ⁴/λ² = %{x:.2e}<br>‖∇L<sub>λ</sub>‖² = %{y:.2e}<extra></extra>"
    ends = [float(x.min(initial=1.0)), float(x.max(initial=1e-300))]
    equal = line(ends, ends, "equal", MUTED, line={"dash": "dot"})
    shape = layout(axis("ζ⁴/λ²", log=x), axis("‖∇L<sub>λ</sub>‖²", log=[*x, *y]))
    return {"data": [points, equal], "layout": shape}


def steps_per_epoch(rows: list[dict[str, Any]]) -> Figure:
    """Steps of each epoch as bars, told apart by the reason for stopping."""
    data = []
    others = (color for color in (CONTRAST, MUTED))
    for reason in _reasons(rows):
        color = ACCENT if reason == "converged" else next(others, MUTED)
        x = [k for k, row in enumerate(rows, 1) if row["reason"] == reason]
        y = [row["n_steps"] for row in rows if row["reason"] == reason]
        hover = f"epoch %{{x}}: %{{y:,}} steps, {reason}<extra></extra>"
        bar = {"type": "bar", "x": x, "y": y, "name": reason, "marker": {"color": color}, "hovertemplate": hover}
        data.append({**bar, "showlegend": True})
    shape = layout(_epoch_axis(len(rows)), axis("gradient steps", tickformat="~s"), bargap=0.35)
    return {"data": data, "layout": shape}


def _reasons(rows: list[dict[str, Any]]) -> list[str]:
    """The reasons for stopping, ``converged`` first as the one that is hoped for."""
    return sorted({str(row["reason"]) for row in rows}, key=lambda reason: (reason != "converged", reason))


def _epoch_axis(n: int) -> dict[str, Any]:
    return axis("epoch", showgrid=False, dtick=max(1, round(n / 12)), range=[0.4, n + 0.6])


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else float(value)
