"""``wstar report`` and ``wstar resume``: commands on run folders."""

from pathlib import Path

import click

from wstar.cli.running import carry_out
from wstar.experiments import recover as recovering
from wstar.experiments.config import RecoverConfig
from wstar.experiments.store import RunFolder
from wstar.report.page import write_report
from wstar.report.terminal import print_recovery

_RUN = click.argument("run", type=click.Path(path_type=Path))


@click.command()
@_RUN
def report(run: Path) -> None:
    """Write the page of the finished run RUN again, and print where it is."""
    folder = RunFolder.open(run)
    folder.read_result()
    click.echo(str(write_report(folder.path)))


@click.command()
@_RUN
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON and nothing else.")
def resume(run: Path, as_json: bool) -> None:
    """Go on with the interrupted run RUN; it ends bit-equal to an unbroken one."""
    folder = RunFolder.open(run)
    if folder.finished:
        raise ValueError(f"{run} is finished: `wstar report {run}` writes its page again")
    if folder.kind != recovering.KIND:
        raise ValueError(f"{run} is of kind {folder.kind!r}, which takes seconds and keeps no checkpoint: run it again with --force")
    settings = RecoverConfig.read(folder.path / "config.toml")
    prepared = recovering.prepare(settings)
    carry_out(
        folder,
        lambda on_progress: recovering.run_recover(settings, prepared, folder, on_progress),
        print_recovery,
        as_json=as_json,
    )
