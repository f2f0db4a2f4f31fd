"""The command line. One file per command, imported only when that command is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

import typer

COMMANDS = {
    "demo": "The whole story on a simulated company.",
    "simulate": "Write the logs of a simulated company.",
    "ingest": "Read logs into an event table.",
    "split": "Decide which host belongs to which silo.",
    "train": "Train a detector over silos.",
    "detect": "Score new events with a trained model and write alerts.",
    "watch": "Run the service: logs as they are written, alerts to your SIEM.",
    "alerts": "Work through the alerts of the service.",
    "report": "One self-contained HTML page about a run.",
    "bench": "Reproduce tables and measure speed.",
    "federation": "A real federation over real machines.",
    "formats": "List the log formats that can be read.",
    "detectors": "List the detectors.",
    "aggregators": "List the aggregation rules.",
    "attacks": "List the attacks of the attack lab.",
    "check-plugin": "Run the contract checks on a plug-in.",
}
"""Command -> one line. Command `x-y` lives in `entente.cli.x_y` as `app` (a Typer) or `x_y` (a function)."""


def build(arguments: Sequence[str]) -> typer.Typer:
    """The application, with only the command in `arguments` really loaded."""
    root = typer.Typer(
        name="entente",
        help="Train one intrusion detector together; every log stays at home.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    root.callback()(_options)
    called = next((word for word in arguments if not word.startswith("-")), None)
    for name, line in COMMANDS.items():
        if name != called:
            root.command(name, help=line)(_stub)
            continue
        function = name.replace("-", "_")
        module = import_module(f"entente.cli.{function}")
        if hasattr(module, "app"):
            root.add_typer(module.app, name=name, help=line)
        else:
            root.command(name)(getattr(module, function))
    return root


def _stub() -> None:
    """Stands in the list of commands for one that was not called."""


def _version(wanted: bool) -> None:
    if wanted:
        from entente import __version__

        typer.echo(f"entente {__version__}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Options before the command."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; a user's mistake ends in one message and a numbered exit code, not a traceback."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    from entente.errors import EntenteError

    try:
        build(words)(args=words, prog_name="entente")
    except EntenteError as error:
        typer.secho(f"error: {error}", err=True, fg="red")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        typer.secho("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
