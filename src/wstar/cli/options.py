"""Command-line options made from a config class, so that names, defaults and ranges are stated once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from wstar.experiments.config import Config

Settings = TypeVar("Settings", bound=Config)
Command = Callable[..., None]


def config_options(config: type[Config], *, skip: tuple[str, ...] = ()) -> Callable[[Command], Command]:
    """One option for every field of ``config`` (``teacher_width``: ``--teacher-width``) and ``--config FILE``."""

    def decorate(command: Command) -> Command:
        for name, field in reversed(config.model_fields.items()):
            if name not in skip:
                command = _option(name, field)(command)
        return click.option(
            "--config",
            "config_file",
            type=click.Path(path_type=Path),
            help="TOML file with settings; options override it.",
        )(command)

    return decorate


def run_options(command: Command) -> Command:
    """``--out``, ``--force`` and ``--json``."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON and nothing else."),
        click.option("--force", is_flag=True, help="Replace an existing run folder."),
        click.option("--out", type=click.Path(path_type=Path), help="Run folder to write.  [runs/NAME-1, -2, …]"),
    ):
        command = option(command)
    return command


def settings_from(config: type[Settings], config_file: Path | None, options: dict[str, Any], **fixed: Any) -> Settings:
    """Settings from the file, if any, with the options that were given on top.

    Raises:
        ValueError: as :meth:`Config.read`.
    """
    # an option that may be given several times comes as a tuple, empty where it was not
    given = {name: value for name, value in options.items() if value is not None and value != ()} | fixed
    given = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    return config.read(config_file, given) if config_file else config.build(given)


def _option(name: str, field: FieldInfo) -> Callable[[Command], Command]:
    kind = next((a for a in get_args(field.annotation) if a is not type(None)), field.annotation)
    if get_origin(field.annotation) is Literal:
        kind = click.Choice([str(a) for a in get_args(field.annotation)])
    default = "" if field.is_required() or field.default in (None, []) else f"  [{field.default}]"
    flag = f"--{name.replace('_', '-')}"
    if get_origin(field.annotation) is list:
        return click.option(flag, name, type=kind, multiple=True, help=f"{field.description}.{default}")
    if kind is bool:
        return click.option(
            f"{flag}/--no-{name.replace('_', '-')}", name, default=None, help=f"{field.description}.{default}"
        )
    return click.option(flag, name, type=kind, default=None, help=f"{field.description}.{default}")
