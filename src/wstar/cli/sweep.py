"""``wstar sweep``: a study of many runs, on the cores of this machine or on a cluster."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from wstar.experiments.local_pool import LocalPool
from wstar.experiments.pool import Pool
from wstar.experiments.study.cluster import ClusterPool
from wstar.experiments.study.store import SweepFolder
from wstar.experiments.study.study import Study
from wstar.experiments.study.sweep import SweepProgress, run_sweep
from wstar.experiments.study.tables import collect as collect_tables
from wstar.experiments.study.worker import Work
from wstar.report.numbers import count, duration, number, plural
from wstar.report.page import write_report
from wstar.report.terminal import drawn_bar

_MOST_UNASKED = 10_000


class _RunsByDefault(click.Group):
    """``wstar sweep STUDY.toml`` is ``wstar sweep run STUDY.toml``."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Put the default command in front of what is none."""
        return super().resolve_command(ctx, args if args[0] in self.commands else ["run", *args])


# options that are not of the group are of the default command
@click.group(
    cls=_RunsByDefault, context_settings={"help_option_names": ["-h", "--help"], "ignore_unknown_options": True}
)
def sweep() -> None:
    """Make all runs of a study, as in: wstar sweep STUDY.toml.

    A study is a TOML file with a kind of run, fields that are fixed in [base], and a [grid], [random] draws or a list
    of [[runs]]. What is done is kept: the same command goes on where a killed one was.
    """


def _where_to_run(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON and nothing else."),
        click.option("--scheduler", metavar="ADDRESS", help="Run on the dask.distributed cluster of this scheduler."),
        click.option("--workers", type=click.IntRange(min=1), help="Processes on this machine.  [one a core]"),
    ):
        command = option(command)
    return command


@sweep.command()
@click.argument("study", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the sweep.  [runs/NAME of the file]")
@click.option("--yes", is_flag=True, help="Make more than 10,000 runs without asking.")
@_where_to_run
def run(study: Path, out: Path | None, yes: bool, as_json: bool, **where: Any) -> None:
    """Make all runs of STUDY.toml; the same command goes on where a killed one was."""
    loaded = Study.load(study)
    if loaded.n_runs > _MOST_UNASKED and not yes:
        raise ValueError(f"{study} has {loaded.n_runs:,} runs: make it smaller, or add --yes to make all of them")
    folder = SweepFolder.start(out or Path("runs") / study.stem, loaded)
    carry_out(folder, again=False, as_json=as_json, **where)


@sweep.command()
@click.argument("folder", type=click.Path(path_type=Path))
@_where_to_run
def retry(folder: Path, as_json: bool, **where: Any) -> None:
    """Go on with the sweep in FOLDER, and make the runs again that failed."""
    carry_out(SweepFolder.open(folder), again=True, as_json=as_json, **where)


@sweep.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON and nothing else.")
def status(folder: Path, as_json: bool) -> None:
    """Say how far the sweep in FOLDER is, also while it goes on."""
    opened = SweepFolder.open(folder)
    said = opened.describe()
    click.echo(json.dumps(said) if as_json else "\n".join(_words(opened, said)))


@sweep.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print where the tables are as JSON and nothing else.")
def collect(folder: Path, as_json: bool) -> None:
    """Write results.zarr and summaries.parquet of what there is in FOLDER, also while the sweep goes on."""
    written = collect_tables(SweepFolder.open(folder))
    click.echo(json.dumps(written) if as_json else "\n".join(written.values()))


def carry_out(
    folder: SweepFolder, *, again: bool, as_json: bool, workers: int | None = None, scheduler: str | None = None
) -> None:
    """Make the runs that are missing, write tables and page, and say how it went; exit code 1 where runs failed."""
    if workers is not None and scheduler is not None:
        raise ValueError("--workers and --scheduler exclude each other: a cluster has workers of its own")
    console = Console(stderr=True)
    with _going_on(folder), _bar(console, shown=not as_json and console.is_terminal) as on_progress:
        said = run_sweep(folder, partial(_pool, workers, scheduler), again=again, on_progress=on_progress)
        page = write_report(folder.path) if said["pending"] == 0 else None
    if as_json:
        click.echo(json.dumps(said))
    else:
        click.echo("\n".join([*_words(folder, said), *([f"page: {page}"] if page else [])]))
        if said["failed"]:
            click.echo(_failures(folder, said))
    if said["failed"]:
        click.get_current_context().exit(1)


def _pool(workers: int | None, scheduler: str | None, work: Work) -> Pool:
    return LocalPool(work, workers or os.cpu_count() or 1) if scheduler is None else ClusterPool(work, scheduler)


@contextmanager
def _going_on(folder: SweepFolder) -> Iterator[None]:
    """Say in one line how to go on after an interrupt, a full disk, or workers that cannot work."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"wstar: interrupted; go on with the same command, or `wstar sweep retry {folder.path}`", err=True)
        raise
    except OSError as error:
        raise ValueError(
            f"writing {folder.path} failed: {error.strerror or error}; what is done is kept: free some space, then "
            "the same command goes on"
        ) from None
    except RuntimeError as error:
        raise ValueError(str(error).partition("\n")[0]) from error


@contextmanager
def _bar(console: Console, *, shown: bool) -> Iterator[Callable[[SweepProgress], None] | None]:
    """A callback that draws runs, how many end in a second, and time to go."""
    if not shown:
        yield None
        return
    with drawn_bar(console, "start") as draw:

        def update(progress: SweepProgress) -> None:
            label = f"{count(progress.ended)} of {plural(progress.total, 'run')}"
            if progress.failed:
                label += f", {count(progress.failed)} failed"
            if progress.rate:
                label += f", {number(progress.rate, 2)}/s"
            draw(description=label, completed=progress.ended / progress.total)

        yield update


def _words(folder: SweepFolder, said: dict[str, Any]) -> list[str]:
    parts = [f"{count(said[name])} {name}" for name in ("done", "failed", "pending")]
    spent = f"{duration(said['seconds'])} of work in them"
    lines = [f"{folder.path}: {plural(said['runs'], 'run')} of {said['experiment']}, {', '.join(parts)}; {spent}"]
    if (folder.path / "summaries.parquet").is_file():
        lines.append(f"results: {folder.path / 'results.zarr'}, {folder.path / 'summaries.parquet'}")
    return lines


def _failures(folder: SweepFolder, said: dict[str, Any]) -> str:
    first = said["failures"][0]
    return (
        f"{plural(said['failed'], 'run')} failed, the first with {first['error']}: see "
        f"{folder.failure_file(first['run'])}; `wstar sweep retry {folder.path}` makes them again"
    )
