"""What a run shows on the terminal: a progress bar with time to go, and a short table at the end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from wstar.algorithms.three_stage import RunProgress
from wstar.theory.alignment import MASS_TOLERANCE

# an epoch takes about this many times the steps of the one before: the slowest modes decay at a rate ∝ λ
_GROWTH = 1.6


@contextmanager
def drawn_bar(
    console: Console, label: str, how_far: str = "{task.percentage:>3.0f} %"
) -> Iterator[Callable[..., None]]:
    """A bar from 0 to 1: ``label``, ``how_far``, time passed and time to go; what it yields updates it."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn(how_far),
        TimeElapsedColumn(),
        TextColumn("to go"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield partial(bar.update, bar.add_task(label, total=1.0))


@contextmanager
def progress_bar(console: Console, *, shown: bool) -> Iterator[Callable[[RunProgress], None] | None]:
    """A callback for ``on_progress`` that draws stage, epoch and time to go; None where nothing is to be shown."""
    if not shown:
        yield None
        return
    with drawn_bar(console, "Stage 1") as draw:
        highest: dict[tuple[int, int], float] = {}

        def update(progress: RunProgress) -> None:
            label = f"Stage {progress.stage}"
            if progress.stage == 3:
                label += f", epoch {min(progress.epoch + 1, progress.n_epochs)} of {progress.n_epochs}"
            draw(description=label, completed=_fraction(progress, highest))

        yield update


def _fraction(progress: RunProgress, highest: dict[tuple[int, int], float]) -> float:
    """Share of the work done: within an epoch by how far the logarithm of the gradient norm has come."""
    if progress.stage < 3 or not np.isfinite(progress.norm):
        return 0.0
    top = highest.setdefault((progress.stage, progress.epoch), progress.norm)
    way = np.log(max(top, 1e-300) / max(progress.tolerance, 1e-300))
    within = np.log(max(top, 1e-300) / max(progress.norm, 1e-300)) / way if way > 0.0 else 1.0
    weights = _GROWTH ** np.arange(max(progress.n_epochs, 1))
    done = weights[: progress.epoch].sum() + weights[min(progress.epoch, len(weights) - 1)] * np.clip(within, 0.0, 1.0)
    return float(done / weights.sum())


def print_recovery(console: Console, result: dict[str, Any]) -> None:
    """The recovery report as a table, one row a teacher neuron."""
    recovery = result["recovery"]
    table = Table(title=None, header_style="bold", box=None, pad_edge=False)
    for name in ("teacher", "a*", "mass found", "error", "nearest angle", "average neuron", "neurons"):
        table.add_column(name, justify="right")
    for row in recovery["neurons"]:
        table.add_row(
            str(row["teacher"] + 1),
            f"{row['mass']:+.4f}",
            f"{row['gathered_mass']:+.4f}",
            f"{100 * row['mass_error']:.2g} %",
            _small(row["nearest_angle"]),
            _small(row["average_neuron_error"]),
            str(row["n_students"]),
        )
    console.print(table)
    found = sum(row["mass_error"] < MASS_TOLERANCE for row in recovery["neurons"])
    console.print(
        f"{found} of {len(recovery['neurons'])} hidden directions found; largest heavy-neuron angle "
        f"{_small(recovery['largest_heavy_angle'])}, mass elsewhere {_small(recovery['leftover_mass'])}, "
        f"loss {_small(result['loss'])}"
    )
    epochs = result["epochs"]
    if epochs:
        steps = sum(e["n_steps"] for e in epochs)
        console.print(
            f"{len(epochs)} epochs, λ {epochs[0]['weight_decay']:.2g} → {epochs[-1]['weight_decay']:.2g}, "
            f"{steps:,} steps in {result['seconds']['compute']:.1f} s; last epoch: {epochs[-1]['reason']}"
        )
        inserted = sum(e["inserted"] for e in epochs)
        if inserted:
            console.print(f"{inserted} neurons inserted where an epoch had ended in a local optimum")
        if epochs[-1]["zeta"] is not None:
            console.print(
                f"optimality gap at the last λ: {_small(epochs[-1]['zeta'])} ± {_small(epochs[-1]['zeta_error'])} "
                "above the best network of any width"
            )
    if result["samples"]:
        console.print(
            f"from {result['samples']['n']:,} samples: test error over variance "
            f"{result['samples']['test_error_over_variance']:.2e}"
        )


def _small(value: float | None) -> str:
    return "–" if value is None or not np.isfinite(value) else f"{value:.2g}"
