"""``wstar truncate``."""

from pathlib import Path
from typing import Any

import click

from wstar.cli.options import config_options, run_options, settings_from
from wstar.cli.running import carry_out
from wstar.experiments.config import TruncateConfig
from wstar.experiments.store import RunFolder
from wstar.experiments.truncate import KIND, prepare, run_truncate
from wstar.networks.teacher import Teacher
from wstar.report.truncate_terminal import print_truncation, step_bar
from wstar.risks.base import Risk


@click.command()
@config_options(TruncateConfig)
@run_options
def truncate(config_file: Path | None, out: Path | None, force: bool, as_json: bool, **options: Any) -> None:
    """Train LMZ's network with their Algorithm 1 and show its stages.

    The target is Σ a_i |w*_i·x|; trains on the exact population loss, or with --samples N on N random rows.
    """
    settings = settings_from(TruncateConfig, config_file, options)
    prepared = prepare(settings)
    run = RunFolder.create(out or RunFolder.unused(KIND), KIND, settings, force=force)
    start_truncate(settings, prepared, run, as_json=as_json)


def start_truncate(settings: TruncateConfig, prepared: tuple[Teacher, Risk], run: RunFolder, *, as_json: bool) -> None:
    """Run, or go on with, an experiment whose folder is there."""
    carry_out(
        run,
        lambda on_progress: run_truncate(settings, prepared, run, on_progress),
        print_truncation,
        as_json=as_json,
        bar=step_bar,
    )
