"""The figures of a run of LMZ's Algorithm 1, over shaded stages."""

from typing import Any

import numpy as np
import xarray as xr

from wstar.report.figures import ACCENT, CONTRAST, INK, MUTED, Figure, axis, layout, line
from wstar.report.numbers import plotted, thinned

_HOVER = "step %{x:,}<br>%{y:.3g}"
_MOST_PAIRS = 1500
_BAND_NAMES = (("settled", "1.1"), ("plateau_end", "1.2"), ("warm", "2.1"), ("fitted", "2.2"))


def bands(times: dict[str, Any], last_step: int) -> list[dict[str, Any]]:
    """Every second stage shaded, each with its number; a stage that is not reached ends with the run."""
    shapes, start = [], 1.0
    for k, (key, name) in enumerate(_BAND_NAMES):
        end = times[key]
        reached = end is not None and np.isfinite(end)
        stop = float(end) if reached else float(last_step)
        if stop > start:
            shapes.append(
                {
                    "type": "rect", "yref": "paper", "x0": start, "x1": stop, "y0": 0, "y1": 1, "layer": "below",
                    "fillcolor": MUTED, "opacity": 0.12 if k % 2 == 0 else 0.04, "line": {"width": 0},
                    "label": {"text": name, "textposition": "bottom left", "font": {"size": 11, "color": INK}},
                }
            )  # fmt: skip
            start = stop
        if not reached:
            break
    return shapes


def _against_steps(
    data: list[dict[str, Any]], shapes: list[dict[str, Any]], steps: np.ndarray, y: dict[str, Any], **settings: Any
) -> Figure:
    x = axis("gradient step", log=steps, showgrid=False)
    return {"data": data, "layout": layout(x, y, shapes=shapes, meta="steps", **settings)}


def order_lines(steps: list[int], values: np.ndarray, orders: list[int]) -> list[dict[str, Any]]:
    """One line an order, darker with the order."""
    drawn = []
    for k, order in enumerate(orders):
        stroke = {"color": f"var(--order-{min(k + 1, 5)})"}
        hover = f"order {order}, {_HOVER}<extra></extra>"
        drawn.append(line(steps, plotted(values[:, k]), str(order), "", line=stroke, hovertemplate=hover))
    return drawn


def tensor_losses(trajectory: xr.Dataset, shapes: list[dict[str, Any]]) -> Figure:
    """Relative tensor loss of every order; beside it the levels that LMZ read off their Figure 2."""
    steps, values = trajectory["step"].values, trajectory["relative_tensor_loss"].values
    data = order_lines(steps.tolist(), values, trajectory["order"].values.tolist())
    figure = _against_steps(data, shapes, steps, axis("relative tensor loss", log=values))
    figure["layout"]["legend"]["title"] = {"text": "order "}
    return figure


def loss_by_order(trajectory: xr.Dataset, shapes: list[dict[str, Any]]) -> Figure:
    """The loss, and what each order adds to it."""
    steps, values = trajectory["step"].values, trajectory["weighted_tensor_loss"].values
    total = trajectory["loss"].values
    data = order_lines(steps.tolist(), values, trajectory["order"].values.tolist())
    data.append(line(steps.tolist(), plotted(total), "L", CONTRAST, hovertemplate=f"L, {_HOVER}<extra></extra>"))
    figure = _against_steps(data, shapes, steps, axis("part of the loss", log=np.append(values, total)))
    figure["layout"]["legend"]["title"] = {"text": "order "}
    return figure


def cosines(trajectory: xr.Dataset, shapes: list[dict[str, Any]]) -> Figure:
    """The best |cos| of any neuron with each direction: a thin line each, worst and middle one in front."""
    steps, values = trajectory["step"].values, trajectory["best_cosine"].values
    thin = {"color": MUTED, "width": 0.7}
    data = [
        line(steps.tolist(), plotted(values[:, k], 4), f"direction {k + 1}", "", line=thin, opacity=0.5,
             showlegend=False, hovertemplate=f"direction {k + 1}, {_HOVER}<extra></extra>")
        for k in range(values.shape[1])
    ]  # fmt: skip
    for name, color, row in (("least", CONTRAST, values.min(axis=1)), ("median", ACCENT, np.median(values, axis=1))):
        data.append(
            line(steps.tolist(), plotted(row, 4), name, color, hovertemplate=f"{name}, {_HOVER}<extra></extra>")
        )
    return _against_steps(data, shapes, steps, axis("best |cos| with a direction", range=[0.0, 1.02]))


def norms(trajectory: xr.Dataset, shapes: list[dict[str, Any]]) -> Figure:
    """Quantiles of ‖w‖ over the neurons, and how many are frozen."""
    steps, values = trajectory["step"].values, trajectory["norms"].values
    data = []
    for share, name, color in (
        (0.0, "least", MUTED),
        (0.5, "median", ACCENT),
        (0.9, "9 in 10", INK),
        (1.0, "largest", CONTRAST),
    ):
        row = plotted(np.quantile(values, share, axis=1))
        data.append(line(steps.tolist(), row, name, color, hovertemplate=f"{name}, {_HOVER}<extra></extra>"))
    return _against_steps(data, shapes, steps, axis("‖w‖ of the neurons", log=values))


def basis_like(trajectory: xr.Dataset, shapes: list[dict[str, Any]]) -> Figure:
    """Share of neurons and of mass within |cos| ≥ 0.95 of a direction, and share of frozen neurons."""
    steps, width = trajectory["step"].values, trajectory.sizes["neuron"]
    rows = [
        ("of the neurons", ACCENT, trajectory["basis_like_neurons"].values),
        ("of the mass", CONTRAST, trajectory["basis_like_mass"].values),
    ]
    frozen = trajectory["frozen"].values / width
    if frozen.any():
        rows.append(("frozen", MUTED, frozen))
    data = [
        line(steps.tolist(), plotted(row, 4), name, color, hovertemplate=f"{name}, {_HOVER}<extra></extra>")
        for name, color, row in rows
    ]
    return _against_steps(data, shapes, steps, axis("basis-like share", range=[-0.02, 1.02]))


def mass_errors(trajectory: xr.Dataset, shapes: list[dict[str, Any]]) -> Figure:
    """|Δ|, δ₊ and δ₋."""
    steps = trajectory["step"].values
    rows = {
        "|Δ|": (MUTED, np.abs(trajectory["mass_error"].values)),
        "δ₊": (ACCENT, trajectory["largest_excess"].values),
        "δ₋": (CONTRAST, trajectory["largest_deficit"].values),
    }
    data = [
        line(steps.tolist(), plotted(row), name, color, hovertemplate=f"{name}, {_HOVER}<extra></extra>")
        for name, (color, row) in rows.items()
    ]
    everything = np.concatenate([row for _, row in rows.values()])
    return _against_steps(data, shapes, steps, axis("error of the masses", log=everything))


def gradients(trajectory: xr.Dataset, shapes: list[dict[str, Any]]) -> Figure:
    """Root mean square over neurons of the gradient of each order's part of the population loss."""
    steps, values = trajectory["step"].values, trajectory["order_gradient_norm"].values
    rest = trajectory["rest_gradient_norm"].values
    data = order_lines(steps.tolist(), values, trajectory["order"].values.tolist())
    stroke = {"color": CONTRAST, "dash": "dot"}
    data.append(
        line(steps.tolist(), plotted(rest), "beyond", "", line=stroke, hovertemplate=f"beyond, {_HOVER}<extra></extra>")
    )
    figure = _against_steps(data, shapes, steps, axis("gradient of a neuron", log=np.append(values, rest)))
    figure["layout"]["legend"]["title"] = {"text": "order "}
    return figure


def tickets(trajectory: xr.Dataset, threshold: float | None) -> Figure:
    """Every pair of neuron and direction: squared coordinate at the start against |cos| at the end."""
    squares, cosine = trajectory["start_square"].values.ravel(), trajectory["end_cosine"].values
    nearest = (np.arange(cosine.shape[1]) == cosine.argmax(axis=1)[:, None]).ravel()
    cosine = cosine.ravel()
    serving = np.flatnonzero(nearest & (cosine >= 0.95))
    others = np.setdiff1d(np.arange(len(cosine)), serving)
    data = []
    for name, color, chosen in (("not serving", MUTED, others), ("serving", ACCENT, serving)):
        kept = chosen[thinned(len(chosen), _MOST_PAIRS)] if len(chosen) else chosen
        marks = {"mode": "markers", "marker": {"size": 5, "color": color, "opacity": 0.6}}
        hover = "(w·w*)² at the start %{x:.2g}<br>|cos| at the end %{y:.3f}<extra></extra>"
        data.append(
            line(plotted(squares[kept], 4), plotted(cosine[kept], 4), name, color, hovertemplate=hover, **marks)
        )
    shapes = []
    if threshold is not None:
        stroke = {"color": CONTRAST, "width": 1.5, "dash": "dash"}
        label = {"text": "Γ", "textposition": "end", "font": {"color": CONTRAST}}
        rule = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": threshold, "x1": threshold}
        shapes = [{**rule, "line": stroke, "label": label}]
    x, y = axis("(w·w*)² at the start"), axis("|cos| at the end", range=[-0.02, 1.05])
    return {"data": data, "layout": layout(x, y, shapes=shapes)}
