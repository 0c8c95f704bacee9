"""``wstar recover``."""

from pathlib import Path
from typing import Any

import click

from wstar.cli.options import config_options, run_options, settings_from
from wstar.cli.running import carry_out
from wstar.experiments.config import RecoverConfig
from wstar.experiments.recover import KIND, prepare, run_recover
from wstar.experiments.store import RunFolder
from wstar.networks.teacher import Teacher
from wstar.report.terminal import print_recovery
from wstar.risks.base import Risk


@click.command()
@config_options(RecoverConfig)
@run_options
def recover(config_file: Path | None, out: Path | None, force: bool, as_json: bool, **options: Any) -> None:
    """Draw or read a hidden network and recover it with ZG's Algorithm 1.

    Trains on the exact population loss, or with --samples N on N random rows.
    """
    settings = settings_from(RecoverConfig, config_file, options)
    prepared = prepare(settings)
    run = RunFolder.create(out or RunFolder.unused(KIND), KIND, settings, force=force)
    start_recover(settings, prepared, run, as_json=as_json)


def start_recover(settings: RecoverConfig, prepared: tuple[Teacher, Risk], run: RunFolder, *, as_json: bool) -> None:
    """Run, or go on with, an experiment whose folder is there."""
    carry_out(
        run, lambda on_progress: run_recover(settings, prepared, run, on_progress), print_recovery, as_json=as_json
    )
