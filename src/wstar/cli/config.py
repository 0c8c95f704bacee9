"""``wstar config``: settings for people and for editors."""

import json
from pathlib import Path

import click

from wstar.experiments import registry
from wstar.experiments.config import read_toml
from wstar.experiments.settings_text import commented_toml, json_schema
from wstar.experiments.study.study import KIND as SWEEP
from wstar.experiments.study.study import Study

_TABLES_OF_A_STUDY = {"base", "grid", "random", "runs"}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def config() -> None:
    """Show the settings of a kind of run, or of a run."""


@config.command()
@click.argument("what", metavar="KIND|RUN|FILE")
def show(what: str) -> None:
    """Print all settings with meaning and range: the defaults of a KIND, or those of a RUN folder or config FILE.

    What is printed is itself a config file: wstar config show recover > recover.toml. Of a study the number of its runs
    is told.
    """
    path = Path(what) / "config.toml" if (Path(what) / "config.toml").is_file() else Path(what)
    if what in registry.kinds() or not path.is_file():
        experiment = registry.experiment(what, "wstar config show")
        click.echo(commented_toml(experiment.kind, experiment.config), nl=False)
        return
    values = read_toml(path)
    kind = values.get("kind")
    if kind == SWEEP or not _TABLES_OF_A_STUDY.isdisjoint(values):
        study = Study.load(path)
        click.echo(f"# {study.n_runs:,} runs of {study.experiment}\n{path.read_text(encoding='utf-8')}", nl=False)
        return
    if kind is None:
        raise ValueError(f'{path}: kind is missing: say what it is for, as in kind = "recover"')
    experiment = registry.experiment(kind, f"{path}: kind")
    settings = experiment.config.read(path)
    click.echo(commented_toml(experiment.kind, experiment.config, settings), nl=False)


@config.command()
@click.argument("kind")
def schema(kind: str) -> None:
    """Print the JSON schema of config files of a KIND, for editors that check TOML as it is written."""
    experiment = registry.experiment(kind, "wstar config schema")
    click.echo(json.dumps(json_schema(experiment.kind, experiment.config), indent=2, ensure_ascii=False))
