"""Entry point: a group that imports a command only when it is called, and one line for whatever the user got wrong."""

import sys
import warnings
from importlib import import_module

import click

from wstar import __version__

# name → (module with a click command of that name, one line of help)
_COMMANDS = {
    "recover": ("wstar.cli.recover", "Draw or read a hidden network and recover it with ZG's Algorithm 1."),
    "fit": ("wstar.cli.fit", "Find the directions behind a column of a table."),
    "predict": ("wstar.cli.predict", "Predict for the rows of another table by a finished fit."),
    "truncate": ("wstar.cli.truncate", "Train LMZ's network with their Algorithm 1 and show its stages."),
    "claims": ("wstar.cli.claims", "Check the papers' statements; each verdict is computed."),
    "reproduce": ("wstar.cli.reproduce", "Reproduce the figures and rates of a paper."),
    "sweep": ("wstar.cli.sweep", "Make all runs of a study, on all cores or on a cluster."),
    "config": ("wstar.cli.config", "Show settings with defaults, ranges and meaning, and their JSON schema."),
    "report": ("wstar.cli.runs", "Write the page of a finished run again."),
    "resume": ("wstar.cli.runs", "Go on with an interrupted run; it ends bit-equal to an unbroken one."),
}


class LazyGroup(click.Group):
    """Lists its commands without importing them, so that ``wstar --help`` answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module that holds the command."""
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(_COMMANDS[cmd_name][0]), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Names and lines from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="wstar")
def app() -> None:
    """Recover the hidden directions behind data that a small two-layer network generated."""


def main() -> None:
    """Run the command line; bad input gives one line and exit code 2, an interrupt 130."""
    warnings.showwarning = lambda message, *_, **__: click.echo(f"wstar: warning: {message}", err=True)
    try:
        code = app.main(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        code = 2
    except click.ClickException as error:
        code = _complain(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except ValueError as error:
        code = _complain(str(error))
    sys.exit(code if isinstance(code, int) else 0)


def _complain(message: str) -> int:
    click.echo(f"wstar: error: {' '.join(message.split())}", err=True)
    return 2
