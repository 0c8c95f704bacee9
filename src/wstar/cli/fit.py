"""``wstar fit``."""

from pathlib import Path
from typing import Any

import click

from wstar.cli.options import config_options, run_options, settings_from
from wstar.cli.running import carry_out
from wstar.experiments.config import FitConfig
from wstar.experiments.store import RunFolder
from wstar.experiments.table.fit import KIND, Prepared, fit_table, prepare
from wstar.report.fit_terminal import fit_bar, print_fit


@click.command()
@click.argument("table", required=False)
@config_options(FitConfig, skip=("table",))
@run_options
def fit(
    table: str | None, config_file: Path | None, out: Path | None, force: bool, as_json: bool, **options: Any
) -> None:
    """Find the few directions behind a column of TABLE (.csv or .parquet).

    Cross-validates on most of the rows and scores on the rest; says what was done to the columns, prints the
    directions with their weightiest columns, and R² beside ridge regression. A run that was killed starts over when it
    is resumed: it is a matter of seconds.
    """
    if table is None and config_file is None:
        raise ValueError("TABLE is missing: wstar fit TABLE.csv --target COLUMN")
    if options["target"] is None and config_file is None:
        raise ValueError("--target is missing: name the column to predict, as in wstar fit TABLE.csv --target COLUMN")
    settings = settings_from(FitConfig, config_file, options | {"table": table})
    prepared = prepare(settings)
    run = RunFolder.create(out or RunFolder.unused(KIND), KIND, settings, force=force)
    start_fit(settings, prepared, run, as_json=as_json)


def start_fit(settings: FitConfig, prepared: Prepared, run: RunFolder, *, as_json: bool) -> None:
    """Run, or go on with, a fit whose folder is there."""
    carry_out(
        run,
        lambda on_progress: fit_table(settings, prepared, run, on_progress),
        print_fit,
        as_json=as_json,
        bar=fit_bar,
    )
