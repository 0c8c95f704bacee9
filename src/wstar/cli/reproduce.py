"""``wstar reproduce``: a paper's figures and rates from one config file."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from wstar.cli.running import carry_out
from wstar.experiments.config import LmzConfig
from wstar.experiments.lmz import KIND, Job, PartProgress, packaged_config, prepare, run_lmz
from wstar.experiments.store import RunFolder
from wstar.report.lmz import print_lmz


@click.command()
@click.argument("paper", type=click.Choice(["lmz"]))
@click.option("--quick", is_flag=True, help="Small sizes: minutes instead of the better part of an hour.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="TOML file with other sizes and seeds.")
@click.option("--out", type=click.Path(path_type=Path), help="Run folder to write.  [runs/PAPER-1, -2, …]")
@click.option("--force", is_flag=True, help="Replace an existing run folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON and nothing else.")
def reproduce(paper: str, quick: bool, config_file: Path | None, out: Path | None, force: bool, as_json: bool) -> None:
    """Reproduce the figures and rates of PAPER.

    Each part is kept as it is done: the same command with the same --out goes on where a killed run was.
    """
    if quick and config_file is not None:
        raise ValueError("--quick and --config exclude each other: the file says all sizes")
    settings = LmzConfig.read(config_file or packaged_config(quick=quick))
    jobs = prepare(settings)
    start_lmz(settings, jobs, _folder(settings, out, force=force), as_json=as_json)


def start_lmz(settings: LmzConfig, jobs: list[Job], run: RunFolder, *, as_json: bool) -> None:
    """Compute what the folder still lacks, or show a finished run again."""
    carry_out(
        run,
        lambda on_progress: run.read_result() if run.finished else run_lmz(settings, jobs, run, on_progress),
        print_lmz,
        as_json=as_json,
        bar=part_bar,
    )


def _folder(settings: LmzConfig, out: Path | None, *, force: bool) -> RunFolder:
    """A new folder, or the one that is there if it was made with the same settings."""
    if out is not None and (out / "config.toml").is_file() and not force:
        run = RunFolder.open(out)
        if run.kind == KIND and LmzConfig.read(out / "config.toml") == settings:
            return run
    return RunFolder.create(out or RunFolder.unused(KIND), KIND, settings, force=force)


@contextmanager
def part_bar(console: Console, *, shown: bool) -> Iterator[Callable[[PartProgress], None] | None]:
    """A callback that draws the part that runs, the share of all work done and the time to go."""
    if not shown:
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("to go"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("start", total=1.0)
        yield lambda progress: bar.update(
            task, description=progress.name, completed=progress.done / max(progress.total, 1e-300)
        )
