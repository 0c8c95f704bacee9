"""``wstar report`` and ``wstar resume``: commands on run folders."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import click

from wstar.experiments import registry
from wstar.experiments.store import RunFolder
from wstar.experiments.study.study import KIND as SWEEP
from wstar.report.page import write_report

# kind → the function that runs it, or goes on with it, and shows it: (settings, prepared, folder, as_json=)
_STARTS = {
    "recover": "wstar.cli.recover:start_recover",
    "fit": "wstar.cli.fit:start_fit",
    "truncate": "wstar.cli.truncate:start_truncate",
    "claims": "wstar.cli.claims:start_claims",
    "zg": "wstar.cli.reproduce:start_reproduction",
    "lmz": "wstar.cli.reproduce:start_reproduction",
}
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
    if folder.kind == SWEEP:
        raise ValueError(f"{run} is a sweep: go on with `wstar sweep retry {run}`")
    if folder.kind not in _STARTS:
        raise ValueError(f"{run} is of kind {folder.kind!r}, which this version cannot resume")
    experiment = registry.experiment(folder.kind)
    settings = experiment.config.read(folder.path / "config.toml")
    _start(folder.kind)(settings, experiment.prepare(settings), folder, as_json=as_json)


def _start(kind: str) -> Callable[..., None]:
    module, _, name = _STARTS[kind].partition(":")
    start: Callable[..., None] = getattr(import_module(module), name)
    return start
