"""ZG Figures 1–3 and LMZ Figure 2, drawn from the curves that the claims computed."""

from typing import Any

from wstar.report.figures import ACCENT, CONTRAST, INK, MUTED, Figure, axis, layout, line

_COLORS = {"value": ACCENT, "bound": CONTRAST, "teacher": INK, "to its teacher neuron": ACCENT, "to zero": MUTED}


def claim_picture(data: dict[str, Any]) -> Figure:
    """The figure of a picture claim; KeyError where the data are not those of one."""
    return _DRAW[data["figure"]](data)


def _descent(data: dict[str, Any]) -> Figure:
    """Figure 1: teacher directions as rays, and an arrow from every neuron to where the descent direction sends it."""
    drawn, named = [], set()
    for curve in data["curves"]:
        role = curve["role"]
        first = role not in named
        named.add(role)
        ray = role == "teacher"
        looks: dict[str, Any] = {
            "line": {"width": 1 if ray else 2, "dash": "dot" if ray else "solid"},
            "mode": "lines" if ray else "lines+markers",
            "hovertemplate": f"{curve['name']}: %{{x:.3f}}, %{{y:.3f}}<extra></extra>",
            "legendgroup": role,
            "showlegend": first,
        }
        if not ray:
            looks["marker"] = {"symbol": ["circle", "arrow"], "size": [6, 12], "angleref": "previous"}
        name = "teacher direction" if ray else role
        drawn.append(line(curve["x"], curve["y"], name, _COLORS[role], **looks))
    names = data["axes"]
    return {
        "data": drawn,
        "layout": layout(axis(names[0], constrain="domain"), axis(names[1], scaleanchor="x", scaleratio=1)),
    }


def _lines(data: dict[str, Any]) -> Figure:
    """Figures 2 and 3: curves against the angle."""
    drawn = []
    for k, curve in enumerate(data["curves"]):
        color = _COLORS[curve["role"]]
        hover = f"{curve['name']}: %{{y:.3f}} at %{{x:.3f}} rad<extra></extra>"
        if curve["role"] == "teacher":
            marker = {"color": color, "size": 9, "symbol": "circle-open", "line": {"width": 2}}
            points = {"type": "scatter", "mode": "markers", "x": curve["x"], "y": curve["y"], "name": curve["name"]}
            drawn.append({**points, "marker": marker, "hovertemplate": hover})
        else:
            dash = "dash" if curve["role"] == "bound" else "dot" if k == 0 and data["figure"] == "spike" else "solid"
            drawn.append(line(curve["x"], curve["y"], curve["name"], color, line={"dash": dash}, hovertemplate=hover))
    return {"data": drawn, "layout": layout(axis(data["axes"][0]), axis(data["axes"][1]))}


def _orders(data: dict[str, Any]) -> Figure:
    """LMZ Figure 2: tensor losses along a run; low orders solid, high orders dashed."""
    drawn = []
    for k, curve in enumerate(data["curves"]):
        low = curve["role"] == "low order"
        looks = {"dash": "solid" if low else "dash", "width": 1 if k % 2 else 2}
        hover = f"{curve['name']}: 10^%{{y:.2f}} at step 10^%{{x:.2f}}<extra></extra>"
        color = ACCENT if low else CONTRAST
        drawn.append(line(curve["x"], curve["y"], curve["name"], color, line=looks, hovertemplate=hover))
    return {"data": drawn, "layout": layout(axis(data["axes"][0]), axis(data["axes"][1]))}


_DRAW = {"descent": _descent, "certificate": _lines, "spike": _lines, "orders": _orders}
