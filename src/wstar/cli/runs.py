"""``wstar report`` and ``wstar resume``: commands on run folders."""

from pathlib import Path

import click

from wstar.cli.claims import start_claims
from wstar.cli.fit import start_fit
from wstar.cli.recover import start_recover
from wstar.cli.reproduce import start_lmz
from wstar.cli.truncate import start_truncate
from wstar.experiments import claims, fit, lmz, recover, truncate
from wstar.experiments.config import FitConfig, LmzConfig, RecoverConfig, TruncateConfig
from wstar.experiments.store import RunFolder
from wstar.report.page import write_report

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
    path = folder.path / "config.toml"
    if folder.kind == recover.KIND:
        settings = RecoverConfig.read(path)
        start_recover(settings, recover.prepare(settings), folder, as_json=as_json)
    elif folder.kind == fit.KIND:
        table = FitConfig.read(path)
        start_fit(table, fit.prepare(table), folder, as_json=as_json)
    elif folder.kind == truncate.KIND:
        truncation = TruncateConfig.read(path)
        start_truncate(truncation, truncate.prepare(truncation), folder, as_json=as_json)
    elif folder.kind == lmz.KIND:
        sizes = LmzConfig.read(path)
        start_lmz(sizes, lmz.prepare(sizes), folder, as_json=as_json)
    elif folder.kind == claims.KIND:
        start_claims(claims.ClaimsConfig.read(path), folder, as_json=as_json)
    else:
        raise ValueError(f"{run} is of kind {folder.kind!r}, which this version cannot resume")
