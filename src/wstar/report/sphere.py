"""The sphere to turn by hand: teachers as fixed rings, students as dots, one frame for every epoch.

Coordinates are the principal axes of the teachers' span S_*. Below rank 3 the next axis carries the length of what lies
outside the span, so that a circle (rank 2) or a line (rank 1) sits in the same scene and a stray neuron hovers over it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from wstar.networks.network import TwoLayer
from wstar.report.figures import CONTRAST, INK, MUTED, Figure
from wstar.report.numbers import plotted

_MOST_STUDENTS = 1500
_LIGHTEST = 1e-6
_SMALLEST, _LARGEST = 5.0, 30.0
_LABEL_RADIUS = 1.2
_ZOOM = 1.9
POSITIVE, NEGATIVE = "var(--accent)", CONTRAST


@dataclass(frozen=True)
class Sphere:
    """The figure at the last frame, the dots of every frame, what is said beside them, and what had to be left out."""

    figure: Figure
    frames: list[dict[str, Any]]
    moments: list[dict[str, Any]]
    rank: int
    n_students: int
    n_left_out: int


def sphere(snapshots: xr.Dataset, teacher: TwoLayer, rows: list[dict[str, Any]], rank: int) -> Sphere:
    """The turning sphere of a run; ``rows`` are the epochs of its result, ``rank`` is dim S_*."""
    axes = _principal_axes(teacher.directions)
    masses = snapshots["masses"].values
    heaviest = np.sort(np.argsort(-np.abs(masses).max(axis=0), kind="stable")[:_MOST_STUDENTS])
    scale = max(np.abs(masses).max(initial=0.0), np.abs(teacher.masses).max(initial=0.0)) or 1.0
    axes_in_span = axes @ snapshots["basis"].values.T
    frames = [
        _frame(embedded(directions[heaviest], axes_in_span), mass[heaviest], scale)
        for directions, mass in zip(snapshots["directions"].values, masses, strict=True)
    ]
    ends = embedded(teacher.directions, axes)
    data = [*_globe(len(axes)), *_teacher_marks(ends, teacher.masses, scale), _students(frames[-1])]
    left_out = masses.shape[1] - len(heaviest)
    figure = {"data": data, "layout": _scene(len(axes))}
    return Sphere(figure, frames, _moments(snapshots, rows), rank, len(heaviest), left_out)


def embedded(directions: Float[np.ndarray, "m d"], axes: Float[np.ndarray, "k d"]) -> Float[np.ndarray, "m 3"]:
    """Rows of ``directions`` in the coordinates ``axes``, padded to three by the length outside them and by zero."""
    inside = directions @ axes.T
    if len(axes) == 3:
        return inside
    # good to a pixel, which is all that a picture needs: near zero the difference loses half of the digits
    outside = np.sqrt(np.maximum((directions**2).sum(axis=1) - (inside**2).sum(axis=1), 0.0))
    return np.column_stack([inside, outside, np.zeros((len(directions), 2 - len(axes)))])


def _principal_axes(directions: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "k d"]:
    _, singular, rows = np.linalg.svd(directions, full_matrices=False)
    return rows[:3][singular[:3] > 1e-5 * singular[0]]


def _frame(places: Float[np.ndarray, "m 3"], masses: Float[np.ndarray, " m"], scale: float) -> dict[str, Any]:
    """One frame; a neuron without mass has no dot but keeps its place in the arrays, so that dots can glide."""
    alive = np.abs(masses) > _LIGHTEST * scale
    x, y, z = (plotted(np.where(alive, column, np.nan), 5) for column in places.T)
    return {"x": x, "y": y, "z": z, "mass": plotted(masses, 4), "size": plotted(_sizes(masses, scale), 3)}


def _sizes(masses: Float[np.ndarray, " m"], scale: float) -> Float[np.ndarray, " m"]:
    """Diameters in pixels: area grows with mass, and the lightest dot can still be seen."""
    return _SMALLEST + (_LARGEST - _SMALLEST) * np.sqrt(np.abs(masses) / scale)


def _moments(snapshots: xr.Dataset, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What to say beside each frame; the first is the start, before any epoch."""
    epochs = snapshots["epoch_of_step"].values.astype(int)
    moments = []
    for index, step in enumerate(snapshots["step"].values.tolist()):
        done = int(epochs[index] - epochs[0]) + 1 if index else 0
        row = rows[done - 1] if 0 < done <= len(rows) else {}
        loss = float(snapshots["loss"].values[index])
        decay, angle = row.get("weight_decay"), row.get("largest_heavy_angle")
        moments.append({"epoch": done, "step": step, "loss": loss, "weight_decay": decay, "angle": angle})
    return moments


def _students(frame: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "scatter3d",
        "name": "students",
        "mode": "markers",
        "x": frame["x"],
        "y": frame["y"],
        "z": frame["z"],
        "customdata": frame["mass"],
        "marker": {
            "size": frame["size"],
            "color": [NEGATIVE if mass is not None and mass < 0.0 else POSITIVE for mass in frame["mass"]],
            "opacity": 0.85,
            "line": {"width": 0},
        },
        "hovertemplate": "student neuron<br>mass %{customdata:.3g}<extra></extra>",
    }


def _teacher_marks(
    ends: Float[np.ndarray, "k 3"], masses: Float[np.ndarray, " k"], scale: float
) -> list[dict[str, Any]]:
    """A ring at both ends of every teacher's axis, in the colour of its sign, and the axis as a thin line."""
    both = np.concatenate([ends, -ends])
    names = [f"{sign}{k + 1}" for sign in ("", "−") for k in range(len(ends))]
    axis_line = np.stack([ends, -ends, np.full_like(ends, np.nan)], axis=1).reshape(-1, 3)
    x, y, z = (plotted(column, 5) for column in axis_line.T)
    stroke = {"color": MUTED, "width": 1.5}
    lines = {
        "type": "scatter3d",
        "mode": "lines",
        "name": "axes",
        "x": x,
        "y": y,
        "z": z,
        "line": stroke,
        "hoverinfo": "skip",
    }
    x, y, z = (plotted(column, 5) for column in both.T)
    rings = {
        "type": "scatter3d",
        "name": "teachers",
        "mode": "markers",
        "x": x,
        "y": y,
        "z": z,
        "text": names,
        "customdata": plotted(np.tile(masses, 2), 4),
        "marker": {
            "symbol": "circle-open",
            "size": plotted(np.tile(_sizes(masses, scale) + 6.0, 2), 3),
            "color": [NEGATIVE if mass < 0.0 else POSITIVE for mass in np.tile(masses, 2)],
        },
        "hovertemplate": "hidden direction %{text}<br>mass %{customdata:.3g}<extra></extra>",
    }
    # the page's script moves labels beside their rings, whichever way the sphere is turned
    x, y, z = (plotted(column, 5) for column in _LABEL_RADIUS * both.T)
    labels = {"type": "scatter3d", "mode": "text", "name": "labels", "x": x, "y": y, "z": z, "text": names}
    return [
        lines,
        rings,
        labels | {"textposition": "middle center", "textfont": {"color": INK, "size": 15}, "hoverinfo": "skip"},
    ]


def _globe(rank: int) -> list[dict[str, Any]]:
    """A faint ball with meridians at rank 3, the circle and its plane's half ball's outline below it."""
    turn = np.linspace(0.0, 2.0 * np.pi, 73)
    circle = np.stack([np.cos(turn), np.sin(turn), np.zeros_like(turn)])
    if rank == 3:
        meridians = [
            np.stack([circle[0] * np.cos(a), circle[0] * np.sin(a), circle[1]]) for a in np.pi * np.arange(6) / 6
        ]
        heights = np.radians([-60.0, -30.0, 0.0, 30.0, 60.0])
        curves = meridians + [np.stack([*(np.cos(h) * circle[:2]), np.full_like(turn, np.sin(h))]) for h in heights]
    else:
        curves = [circle]
    gap = np.full((3, 1), np.nan)
    x, y, z = np.concatenate([part for curve in curves for part in (curve, gap)], axis=1)
    wire = {
        "type": "scatter3d",
        "mode": "lines",
        "name": "globe",
        "x": plotted(x, 4),
        "y": plotted(y, 4),
        "z": plotted(z, 4),
        "line": {"color": "var(--graticule)", "width": 1},
        "hoverinfo": "skip",
    }
    return [_ball(), wire] if rank == 3 else [wire]


def _ball() -> dict[str, Any]:
    n_up, n_round = 25, 48
    up, around = np.meshgrid(np.linspace(0.0, np.pi, n_up), np.linspace(0.0, 2.0 * np.pi, n_round + 1), indexing="ij")
    radius = 0.997  # just below the meridians, which would flicker on it
    points = radius * np.stack([np.sin(up) * np.cos(around), np.sin(up) * np.sin(around), np.cos(up)])
    x, y, z = (plotted(part.ravel(), 3) for part in points)
    corner = (np.arange(n_up - 1)[:, None] * (n_round + 1) + np.arange(n_round)).ravel()
    below = corner + n_round + 1
    return {
        "type": "mesh3d",
        "name": "ball",
        "x": x,
        "y": y,
        "z": z,
        "i": np.concatenate([corner, corner + 1]).tolist(),
        "j": np.concatenate([below, below]).tolist(),
        "k": np.concatenate([corner + 1, below + 1]).tolist(),
        "color": "var(--globe)",
        "opacity": 0.12,
        "hoverinfo": "skip",
        "lighting": {"ambient": 0.9, "diffuse": 0.2, "specular": 0.0, "roughness": 1.0, "fresnel": 0.0},
    }


def _scene(rank: int) -> dict[str, Any]:
    hidden = {"visible": False, "range": [-1.2, 1.2], "showspikes": False}
    eye = {3: (0.62, 0.62, 0.42), 2: (0.3, -0.55, 0.8), 1: (0.0, 0.0, 1.0)}[rank]
    up = {"x": 0, "y": 1, "z": 0} if rank == 1 else {"x": 0, "y": 0, "z": 1}
    camera = {"eye": dict(zip("xyz", eye, strict=True)), "up": up, "projection": {"type": "orthographic"}}
    scene = {
        "xaxis": hidden,
        "yaxis": hidden,
        "zaxis": hidden,
        "aspectmode": "manual",
        "aspectratio": dict.fromkeys("xyz", _ZOOM),
        "camera": camera,
    }
    return {
        "scene": {**scene, "dragmode": "orbit", "bgcolor": "rgba(0,0,0,0)"},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 0, "r": 0, "t": 0, "b": 0},
        "showlegend": False,
        "uirevision": "kept",
        "hoverlabel": {"bgcolor": "var(--raised)", "bordercolor": "var(--rule)", "font": {"color": INK}},
    }
