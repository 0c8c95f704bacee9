"""The figures of the reproduction of ZG on training, the net after one step, and samples."""

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
    shade_of,
    uneven_bars,
)
from wstar.report.numbers import number, plotted

_MOST_EPOCHS = 6


def loss_against_time(runs: list[dict[str, Any]]) -> Figure:
    """Excess loss against Σηt, one line a run; dotted, the slope −½ that Theorem 2's time allows."""
    data, shown, times, named = [], [], [], set()
    for run in runs:
        kept = [k for k, t in enumerate(run["curve"]["time"]) if t > 0.0]
        time, loss = ([run["curve"][name][k] for k in kept] for name in ("time", "loss"))
        shown += loss
        times += time
        kind = "recovered" if run["recovered"] else "not recovered"
        hover = f"seed {run['seed']}, ηt = %{{x:.3g}}<br>L = %{{y:.2e}}<extra></extra>"
        looks = {"line": {"width": 1.2}, "opacity": 0.75, "legendgroup": kind, "showlegend": kind not in named}
        named.add(kind)
        shade = ACCENT if run["recovered"] else CONTRAST
        data.append(line(plotted(time), plotted(loss), kind, shade, hovertemplate=hover, **looks))
    ends = [float(np.exp(np.quantile(np.log(times), 0.4))), max(times)]
    top = float(np.median([np.interp(ends[0], run["curve"]["time"], run["curve"]["loss"]) for run in runs]))
    allowed = [top, top * (ends[1] / ends[0]) ** -0.5]
    data.append(_guide(ends, allowed, "allowed: L ∝ t<sup>−1/2</sup>"))
    return {"data": data, "layout": layout(axis("ηt, Stage 3", log=times), axis("excess loss L", log=shown))}


def _guide(x: list[float], y: list[float], name: str) -> dict[str, Any]:
    return line(plotted(x), plotted(y), name, MUTED, line={"dash": "dot", "width": 1.5}, hoverinfo="skip")


def time_against_accuracy(runs: list[dict[str, Any]], fit: dict[str, Any] | None) -> Figure:
    """ηT until the loss is ε, at the ends of epochs, with the fitted power and the proved one."""
    x, y = [], []
    for run in runs:
        total = 0.0
        for row in run["epochs"]:
            total += row["n_steps"] * row["learning_rate"]
            if run["recovered"] and row["loss"] > 0.0 and total > 0.0:
                x.append(1.0 / row["loss"])
                y.append(total)
    if not x:
        return _empty("1/ε", "ηT in all")
    data = [points(x, y, "epochs’ ends", ACCENT, "1/ε = %{x:.2e}<br>ηT = %{y:.3g}<extra></extra>"), *_power(x, fit)]
    ends = [min(x), 30.0 * min(x)]
    low = min(y)
    data.append(_guide(ends, [low, low * 900.0], "proved: T ∝ ε<sup>−2</sup>"))
    return {"data": data, "layout": layout(axis("1/ε", log=x), axis("ηT in all", log=y))}


def _power(x: list[float], fit: dict[str, Any] | None) -> list[dict[str, Any]]:
    return power_line(x, fit, INK)


def _empty(x: str, y: str) -> Figure:
    return {"data": [], "layout": layout(axis(x), axis(y))}


def against_decay(runs: list[dict[str, Any]], key: str, title: str, fit: dict[str, Any] | None, guide: int) -> Figure:
    """A quantity at the ends of epochs against λ, a line a run, and a dotted power of λ beside it."""
    data, shown, decays = [], [], []
    for run in runs:
        rows = [row for row in run["epochs"] if row[key]]
        if not rows:
            continue
        x, y = [row["weight_decay"] for row in rows], [row[key] for row in rows]
        shown += y
        decays += x
        shade = ACCENT if run["recovered"] else CONTRAST
        hover = f"seed {run['seed']}, λ = %{{x:.2e}}<br>%{{y:.2e}}<extra></extra>"
        looks = {"mode": "lines+markers", "marker": {"size": 5}, "line": {"width": 1}, "showlegend": False}
        data.append(line(x, plotted(y), f"seed {run['seed']}", shade, hovertemplate=hover, **looks))
    if not data:
        return _empty("weight decay λ", title)
    data += _power(decays, fit)
    ends = [min(decays), max(decays)]
    top = float(np.median([y for x, y in zip(decays, shown, strict=True) if x >= 0.2 * max(decays)]))
    power = f"λ<sup>{guide}</sup>" if guide > 1 else "λ"
    data.append({**_guide(ends, [top * (ends[0] / ends[1]) ** guide, top], f"∝ {power}"), "showlegend": True})
    return {"data": data, "layout": layout(axis("weight decay λ", log=decays), axis(title, log=shown))}


def gap_within_epochs(gap: dict[str, Any] | None) -> Figure:
    """ζ within epochs against the share of the epoch's time: as seen, and as Lemma 6 alone would have it."""
    if gap is None or not gap["epochs"]:
        return _empty("share of the epoch’s time", "optimality gap ζ")
    picked = np.unique(np.linspace(0, len(gap["epochs"]) - 1, _MOST_EPOCHS).round().astype(int))
    data, shown = [], []
    for k, index in enumerate(picked):
        epoch = gap["epochs"][index]
        length = max(epoch["time"])
        time = plotted(np.array(epoch["time"]) / length)
        name, shade = f"λ = {number(epoch['weight_decay'], 2)}", shade_of(k, len(picked))
        hover = f"{name}, %{{x:.2f}} of ηT = {number(length)}<br>ζ = %{{y:.2e}}<extra></extra>"
        data.append(line(time, plotted(epoch["zeta"]), name, shade, hovertemplate=hover))
        looks = {"line": {"dash": "dot", "width": 1.5}, "showlegend": False, "hoverinfo": "skip"}
        data.append(line(time, plotted(epoch["proved"]), f"{name}, Lemma 6", shade, **looks))
        shown += epoch["zeta"] + epoch["proved"]
    x = axis("share of the epoch’s time", showgrid=False)
    return {"data": data, "layout": layout(x, axis("optimality gap ζ", log=shown), legend=legend_below(-0.2))}


def geometric_rates(fits: dict[str, Any]) -> Figure:
    """Rate at which ζ falls late in an epoch against λ, beside the rate Cλ⁴ of Lemma 6 at ζ = λ²."""
    known = [rate for rate in fits["rates"] if rate["rate"] and rate["rate"] > 0.0]
    if not known:
        return _empty("weight decay λ", "ν")
    x, y = [rate["weight_decay"] for rate in known], [rate["rate"] for rate in known]
    data = [points(x, y, "seen", ACCENT, "λ = %{x:.2e}<br>ν = %{y:.2e}<extra></extra>"), *_power(x, fits["rate"])]
    shown = list(y)
    if fits["lemma6_constant"]:
        ends = [min(x), max(x)]
        proved = [fits["lemma6_constant"] * end**4 for end in ends]
        shown += proved
        data.append(_guide(ends, proved, "by Lemma 6: Cλ<sup>4</sup>"))
    return {"data": data, "layout": layout(axis("weight decay λ", log=x), axis("ν: ζ ∝ exp(−νηt)", log=shown))}


def nets(parts: list[dict[str, Any]], key: str, title: str, *, uniform: bool) -> Figure:
    """Median angle over draws against the number of directions, a curve for each r; quartiles as bars."""
    data, shown, counts = [], [], []
    for k, part in enumerate(parts):
        counts = [row["directions"] for row in part["rows"]]
        quartiles = np.quantile([row[key] for row in part["rows"]], [0.25, 0.5, 0.75], axis=1)
        shade, name = shade_of(k, len(parts)), f"r = {part['rank']}"
        hover = f"{name}, %{{x:,}} directions<br>%{{y:.3g}} rad<extra></extra>"
        data.append(_with_bars(counts, quartiles, name, shade, hover))
        data += power_line(counts, part["fits"][key], shade)
        shown += quartiles.ravel().tolist()
        if uniform:
            middle = np.median([row[f"uniform_{key}"] for row in part["rows"]], axis=1)
            looks = {"line": {"dash": "dot", "width": 1.5}, "showlegend": False, "hovertemplate": f"uniform, {hover}"}
            data.append(line(counts, plotted(middle), f"{name}, uniform", shade, **looks))
            shown += middle.tolist()
    return {"data": data, "layout": layout(_counts("first-layer directions m/2", counts), axis(title, log=shown))}


def net_dims(parts: list[dict[str, Any]]) -> Figure:
    """The cover radius and nearest angle at finite d beside infinite d."""
    data, shown, counts = [], [], []
    ordered = sorted(parts, key=lambda part: part["dim"])
    for k, part in enumerate(ordered):
        counts = [row["directions"] for row in part["rows"]]
        quartiles = np.quantile([row["teacher"] for row in part["rows"]], [0.25, 0.5, 0.75], axis=1)
        name = "d = ∞" if part["dim"] >= 10**8 else f"d = {part['dim']:,}"
        hover = f"{name}, %{{x:,}} directions<br>%{{y:.3g}} rad<extra></extra>"
        data.append(_with_bars(counts, quartiles, name, shade_of(k, len(ordered)), hover))
        shown += quartiles.ravel().tolist()
    x = _counts("first-layer directions m/2", counts)
    return {"data": data, "layout": layout(x, axis("angle to the nearest, rad", log=shown))}


def _with_bars(x: list[Any], quartiles: np.ndarray, name: str, shade: str, hover: str) -> dict[str, Any]:
    low, middle, high = quartiles
    bars = uneven_bars(low, middle, high, shade, 0)
    looks = {"mode": "lines+markers", "line": {"width": 1}, "marker": {"size": 6}}
    return line(x, plotted(middle), name, shade, error_y=bars, hovertemplate=hover, **looks)


def _counts(title: str, counts: list[int]) -> dict[str, Any]:
    ticks = counts[:: max(1, len(counts) // 6)]
    return axis(title, log=counts, showgrid=False, tickvals=ticks, ticktext=[f"{n:,}" for n in ticks])


def sample_angles(parts: list[dict[str, Any]], key: str, title: str, level: float) -> Figure:
    """Median angle over data sets against N/d², a curve for each d; dotted, the angle that counts as found."""
    data, shown, ratios = [], [level], []
    for k, part in enumerate(parts):
        ratios = [row["ratio"] for row in part["rows"]]
        quartiles = np.quantile([row[key] for row in part["rows"]], [0.25, 0.5, 0.75], axis=1)
        hover = f"d = {part['dim']}, N = %{{x:.3g}}d²<br>%{{y:.3g}} rad<extra></extra>"
        data.append(_with_bars(ratios, quartiles, f"d = {part['dim']}", shade_of(k, len(parts)), hover))
        shown += quartiles.ravel().tolist()
    data.append({**_guide([min(ratios), max(ratios)], [level, level], "found"), "showlegend": False})
    return {"data": data, "layout": layout(axis("N/d²", log=ratios), axis(title, log=shown))}


def samples_needed(collapse: dict[str, Any]) -> Figure:
    """N at which half of the data sets are found, against d, by neuron and by span, with the fitted powers."""
    names = {"neuron": ("by single neurons", ACCENT), "span": ("by the span of all", CONTRAST)}
    data, shown, dims = [], [], []
    for key, (name, shade) in names.items():
        halves = [half for half in collapse[key]["halves"] if half["half"]]
        if not halves:
            continue
        x, y = [half["dim"] for half in halves], [half["half"] for half in halves]
        dims += x
        shown += y
        data.append(points(x, y, name, shade, f"{name}: d = %{{x}}, N = %{{y:,.0f}}<extra></extra>"))
        data += power_line(x, collapse[key]["fit"], shade)
    if not data:
        return _empty("dimension d", "N for half of the data sets")
    ticks = sorted(set(dims))
    x_axis = axis("dimension d", log=dims, showgrid=False, tickvals=ticks, ticktext=[str(dim) for dim in ticks])
    return {"data": data, "layout": layout(x_axis, axis("N for half of the data sets", log=shown))}
