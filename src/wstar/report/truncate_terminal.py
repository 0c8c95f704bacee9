"""What ``wstar truncate`` shows on the terminal: a bar of steps, then the stages and what was found."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from wstar.algorithms.truncated.run import TruncatedProgress
from wstar.report.numbers import count, number, percent
from wstar.report.terminal import drawn_bar
from wstar.report.truncate import STAGES, headline


@contextmanager
def step_bar(console: Console, *, shown: bool) -> Iterator[Callable[[TruncatedProgress], None] | None]:
    """A callback for ``on_progress`` that draws stage, steps and time to go; None where nothing is to be shown."""
    if not shown:
        yield None
        return
    with drawn_bar(console, "Stage 1", "{task.completed:,.0f} of {task.total:,.0f} steps") as draw:

        def update(progress: TruncatedProgress) -> None:
            stage = f"Stage {progress.stage}"
            draw(description=stage, completed=progress.step, total=max(progress.n_steps, 1))

        yield update


def print_truncation(console: Console, result: dict[str, Any]) -> None:
    """When each stage ended, then the directions found, the loss, and how well the start foretold the end."""
    table = Table(title=None, header_style="bold", box=None, pad_edge=False)
    table.add_column("stage")
    table.add_column("ends at step", justify="right")
    table.add_column("when")
    for key, name, rule in STAGES:
        table.add_row(name, _step(result["stage_times"][key]), rule)
    console.print(table)
    cosines = np.array(result["cosines"])
    said = f"{headline(result)}; |cos| least {cosines.min():.4f}, median {np.median(cosines):.4f}"
    console.print(said, highlight=False)
    loss = f"loss {number(result['loss'], 2)}, times d {number(result['loss'] * result['teacher']['dim'], 2)}"
    if result["samples"]:
        loss += f" on the samples, {number(result['samples']['population_loss'], 2)} on the population"
    console.print(f"{loss}; {result['message']}", highlight=False)
    tickets = result["tickets"]
    console.print(
        f"winning tickets: ROC area {number(tickets['roc_area'])}, largest coordinate wins for "
        f"{percent(tickets['first'])} of the targets, {percent(tickets['top'])} of all servants are foretold",
        highlight=False,
    )
    rule = tickets["rule"]
    if rule:
        console.print(
            f"the paper's rule names {count(rule['named'])} pairs: precision {number(rule['precision'], 2)}, "
            f"recall {number(rule['recall'], 2)}",
            highlight=False,
        )


def _step(value: float | None) -> str:
    return "not reached" if value is None or not np.isfinite(value) else f"{round(value):,}"
