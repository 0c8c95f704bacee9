"""``wstar reproduce``: a paper's figures and rates from one config file."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console

from wstar.cli.running import carry_out, folder_to_fill
from wstar.experiments import registry
from wstar.experiments.config import Config
from wstar.experiments.papers.parts import Job, PartProgress, packaged_config
from wstar.experiments.store import RunFolder
from wstar.report.lmz import print_lmz
from wstar.report.terminal import drawn_bar
from wstar.report.zg import print_zg

# paper, as its experiment is called → what the terminal shows of the result
_PAPERS = {"zg": print_zg, "lmz": print_lmz}


@click.command()
@click.argument("paper", type=click.Choice(list(_PAPERS)))
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
    study = registry.experiment(paper)
    settings = study.config.read(config_file or packaged_config(paper, quick=quick))
    jobs = study.prepare(settings)
    start_reproduction(settings, jobs, folder_to_fill(paper, settings, out, force=force), as_json=as_json)


def start_reproduction(settings: Config, jobs: list[Job], run: RunFolder, *, as_json: bool) -> None:
    """Compute what the folder still lacks, or show a finished run again."""
    study = registry.experiment(run.kind)
    carry_out(
        run,
        lambda on_progress: run.read_result() if run.finished else study.run(settings, jobs, run, on_progress),
        _PAPERS[run.kind],
        as_json=as_json,
        bar=part_bar,
    )


@contextmanager
def part_bar(console: Console, *, shown: bool) -> Iterator[Callable[[PartProgress], None] | None]:
    """A callback that draws the part that runs, the share of all work done and the time to go."""
    if not shown:
        yield None
        return
    with drawn_bar(console, "start") as draw:
        yield lambda progress: draw(description=progress.name, completed=progress.done / max(progress.total, 1e-300))
