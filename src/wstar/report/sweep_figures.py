"""The figures of a sweep: one quantity against one field, or over two."""

from typing import Any

import numpy as np
import xarray as xr

from wstar.experiments.study.study import Study
from wstar.report.figures import ACCENT, INK, MUTED, Figure, axis, layout, line, uneven_bars
from wstar.report.numbers import number, plotted

# a second field is told apart by lines as long as there are no more
LINES = 5


def against(found: xr.Dataset, name: str, field: str, study: Study) -> Figure:
    """``name`` against ``field``: a mark a run, or on a grid medians and quartiles over all but one other field."""
    traces = _medians(found[name], field, study) if study.grid else [_runs(found, name, field)]
    x = axis(field, log=_log(found[field].values), showgrid=False)
    shape = layout(x, axis(name, log=_log(found[name].values), exponentformat="power"))
    if len(traces) > 1:
        shape["legend"]["title"] = {"text": f"{_other(field, study)} "}
    return {"data": traces, "layout": shape}


def heat_map(found: xr.Dataset, name: str, first: str, second: str) -> Figure:
    """The median of ``name`` over the grid of two fields; colours are on a log scale where it spans decades."""
    values = _quantile(found[name], 0.5, (second, first))
    logs = _log(values) is not None
    heights = np.log10(np.where(values > 0.0, values, np.nan)) if logs else values
    said = [[number(float(v)) for v in row] for row in values]
    bar: dict[str, Any] = {"thickness": 12, "outlinewidth": 0, "tickfont": {"color": MUTED}}
    finite = heights[np.isfinite(heights)]
    if logs and finite.size:
        powers = np.arange(np.ceil(finite.min()), np.floor(finite.max()) + 1)
        bar |= {"tickvals": powers.tolist(), "ticktext": [number(10.0**p, 1) for p in powers]}
    trace = {
        "type": "heatmap",
        "x": _labels(found[first].values),
        "y": _labels(found[second].values),
        "z": [plotted(row) for row in heights],
        "text": said,
        "hovertemplate": f"{first} %{{x}}, {second} %{{y}}<br>{name} %{{text}}<extra></extra>",
        "colorscale": [[0.0, "var(--rule)"], [1.0, ACCENT]],
        "xgap": 1,
        "ygap": 1,
        "colorbar": bar,
    }
    categories: dict[str, Any] = {"type": "category", "showgrid": False}
    return {"data": [trace], "layout": layout(axis(first, **categories), axis(second, **categories))}


def _medians(values: xr.DataArray, field: str, study: Study) -> list[dict[str, Any]]:
    other = _other(field, study)
    if other is None:
        return [_median_line(values, field, "", ACCENT)]
    levels = _labels(values[other].values)
    colors = [f"var(--order-{5 - k})" for k in range(len(levels))][::-1] if len(levels) > 2 else [ACCENT, INK]
    return [
        _median_line(values.isel({other: k}), field, level, colors[k], f"{other} {level}, ")
        for k, level in enumerate(levels)
    ]


def _median_line(values: xr.DataArray, field: str, name: str, color: str, where: str = "") -> dict[str, Any]:
    low, middle, high = (_quantile(values, q, (field,)) for q in (0.25, 0.5, 0.75))
    x = _places(values[field].values)
    hover = f"{where}{field} %{{x}}: %{{y:.3g}}<extra></extra>"
    look: dict[str, Any] = {
        "mode": "lines+markers",
        "marker": {"size": 6},
        "hovertemplate": hover,
        "line": {"width": 1.5},
    }
    if len(values.dims) > 1 and (high > low).any():
        look["error_y"] = uneven_bars(low, middle, high, color, 3)
    return line(x, plotted(middle), name, color, **look)


def _runs(found: xr.Dataset, name: str, field: str) -> dict[str, Any]:
    hover = f"run %{{text}}, {field} %{{x}}: %{{y:.3g}}<extra></extra>"
    marks: dict[str, Any] = {
        "mode": "markers",
        "marker": {"size": 6, "color": ACCENT, "opacity": 0.7},
        "hovertemplate": hover,
    }
    marks["text"] = found["run"].values.tolist()
    return line(_places(found[field].values), plotted(found[name].values), "", ACCENT, **marks)


def _quantile(values: xr.DataArray, q: float, kept: tuple[str, ...]) -> np.ndarray:
    """A quantile over all dimensions but ``kept``, of the runs that have the number."""
    rest = [dim for dim in values.dims if dim not in kept]
    ordered = values.transpose(*kept, *rest).values.reshape(*(values.sizes[dim] for dim in kept), -1)
    empty = ~np.isfinite(ordered).any(axis=-1)
    filled = np.where(empty[..., None], 0.0, ordered)
    return np.where(empty, np.nan, np.nanquantile(filled, q, axis=-1))


def _other(field: str, study: Study) -> str | None:
    """The field that lines tell apart: the first other one with few values."""
    return next((name for name, values in study.axes.items() if name != field and 1 < len(values) <= LINES), None)


def _log(values: np.ndarray) -> np.ndarray | None:
    """The values, where a log scale shows them better: all above 0, and more than a decade apart."""
    if values.dtype.kind not in "fiu":
        return None
    finite = values[np.isfinite(values)]
    return finite if finite.size and finite.min() > 0.0 and finite.max() > 10.0 * finite.min() else None


def label(value: Any) -> str:
    """A setting as it is written in a file, floats to four digits."""
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)


def _places(values: np.ndarray) -> list[Any]:
    """Where a field's values stand on an axis: numbers as they are, others by name."""
    return plotted(values) if values.dtype.kind in "fiu" else _labels(values)


def _labels(values: np.ndarray) -> list[str]:
    return [label(value) for value in values.tolist()]
