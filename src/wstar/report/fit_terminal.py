"""What ``wstar fit`` shows on the terminal: what it is doing, and a short table at the end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

# shares of a run below which a weight is not named
_LEAST = 0.05


@contextmanager
def fit_bar(console: Console, *, shown: bool) -> Iterator[Callable[[str], None] | None]:
    """A callback that is told which step is next; None where nothing is to be shown."""
    if not shown:
        yield None
        return
    with console.status("reading") as status:
        yield status.update


def print_fit(console: Console, result: dict[str, Any], *, n_columns: int = 4) -> None:
    """What was done to the columns, directions by importance with their largest weights, and how well it predicts."""
    for sentence in result["preprocessing"]:
        console.print(f"[dim]{escape(sentence)}[/dim]", highlight=False)
    if result["directions"]:
        console.print(_directions(result, n_columns))
    for sentence in result["summary"]:
        console.print(escape(sentence), highlight=False)
    console.print(_scores(result))


def _directions(result: dict[str, Any], n_columns: int) -> Table:
    table = Table(title=None, header_style="bold", box=None, pad_edge=False)
    for name in ("direction", "share", "steadiness"):
        table.add_column(name, justify="right")
    table.add_column("weights per standard deviation of a column")
    for i, direction in enumerate(result["directions"], start=1):
        weights = np.array(direction["standardised"])
        largest = [j for j in np.argsort(-np.abs(weights))[:n_columns] if abs(weights[j]) >= _LEAST]
        made_of = "  ".join(f"{weights[j]:+.2f} {result['columns'][j]}" for j in largest)
        steady = direction.get("stability")
        cells = (f"{100 * direction['importance']:.0f} %", f"{steady['median']:.2f}" if steady else "–")
        table.add_row(str(i), *cells, escape(made_of))
    return table


def _scores(result: dict[str, Any]) -> Table:
    table = Table(title=None, header_style="bold", box=None, pad_edge=False)
    for name in ("", f"R² on {result['n_train']:,} rows fitted to", f"on {result['n_test']:,} unseen rows"):
        table.add_column(name, justify="right" if name else "left")
    for key, name in (("model", "this fit"), ("ridge", "ridge regression"), ("mean", "the mean")):
        rows = result["scores"][key]
        table.add_row(name, *(_score(rows[part]) for part in ("train", "test")))
    return table


def _score(scores: dict[str, float | None] | None) -> str:
    # + 0.0: no −0.000
    return "–" if not scores or scores["r2"] is None else f"{round(scores['r2'], 3) + 0.0:.3f}"
