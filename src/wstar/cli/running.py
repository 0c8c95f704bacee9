"""What every command that makes a run shares: progress, the page, the table, and a word when it is cut short."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from wstar.experiments.config import Config
from wstar.experiments.store import RunFolder
from wstar.report.page import write_report
from wstar.report.terminal import progress_bar

# a callback for the progress of one kind of run; None where nothing is to be shown
OnProgress = Callable[[Any], None] | None
Bar = Callable[..., AbstractContextManager[OnProgress]]


def carry_out(
    run: RunFolder,
    experiment: Callable[[OnProgress], dict[str, Any]],
    show: Callable[[Console, dict[str, Any]], None],
    *,
    as_json: bool,
    bar: Bar = progress_bar,
) -> None:
    """Run ``experiment`` with a progress ``bar``, write the page, then print the table (or the result as JSON)."""
    console = Console(stderr=True)
    with resumable(run), bar(console, shown=not as_json and console.is_terminal) as on_progress:
        result = experiment(on_progress)
        page = write_report(run.path)
    if as_json:
        click.echo((run.path / "result.json").read_text())
        return
    terminal = Console(soft_wrap=True)
    show(terminal, result)
    terminal.print(f"page: {page}", highlight=False)


def folder_to_fill(kind: str, settings: Config, out: Path | None, *, force: bool) -> RunFolder:
    """A new folder, or the one that is there if it was made with the same settings."""
    if out is not None and (out / "config.toml").is_file() and not force:
        run = RunFolder.open(out)
        if run.kind == kind and type(settings).read(out / "config.toml") == settings:
            return run
    return RunFolder.create(out or RunFolder.unused(kind), kind, settings, force=force)


@contextlib.contextmanager
def resumable(run: RunFolder) -> Iterator[None]:
    """Say in one line how to go on after an interrupt or a full disk; leave no folder that holds nothing."""
    try:
        yield
    except ValueError:
        run.discard_if_bare()
        raise
    except KeyboardInterrupt:
        click.echo(f"wstar: interrupted; go on with `wstar resume {run.path}`", err=True)
        raise
    except OSError as error:
        raise ValueError(
            f"writing {run.path} failed: {error.strerror or error}; free some space, then `wstar resume {run.path}`"
        ) from None
