"""The command line. One file per command, imported only when that command is called."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

COMMANDS = {
    "demo": "The whole story on a simulated company.",
    "simulate": "Write the logs of a simulated company.",
    "ingest": "Read logs into an event table.",
    "edges": "Compute edges of windows where the logs are.",
    "split": "Decide which host belongs to which silo.",
    "train": "Train a detector over silos.",
    "detect": "Score new events with a trained model and write alerts.",
    "watch": "Run the service: logs as they are written, alerts to your SIEM.",
    "alerts": "Work through the alerts of the service.",
    "console": "Web pages for analyst and coordinator, on loopback.",
    "rank": "The edges, hosts or snapshots of a run that stand out most.",
    "report": "One self-contained HTML page about a run.",
    "bench": "Reproduce tables and measure speed.",
    "federation": "A real federation over real machines.",
    "formats": "List the log formats that can be read.",
    "detectors": "List the detectors.",
    "aggregators": "List the aggregation rules.",
    "attacks": "List the attacks of the attack lab.",
    "check-plugin": "Run the contract checks on a plug-in.",
    "doctor": "Say what is wrong with this machine or installation.",
}
"""Command -> one line. Command `x-y` lives in `entente.cli.x_y` as `app` (a Typer) or `x_y` (a function)."""


KEPT = {
    "demo": "finished rounds are kept: call it again with the same --out and it goes on",
    "ingest": "nothing was written; a former event directory is as it was",
    "edges": "finished spans are kept: call it again and it goes on",
    "split": "nothing was written; a former table is as it was",
    "train": "complete rounds are kept: call it again, with --resume if there is a run folder",
    "detect": "nothing was written; alerts and --state are as they were",
    "console": "what was done in it is kept: start it again and it is there",
    "watch": "everything that was read is kept: start it again and it goes on",
    "bench": "finished cells are kept: call it again with the same --out and it goes on",
    "report": "nothing was written; a former page is as it was",
    "simulate": "files may be incomplete: call it again",
    "federation": "what sites have done is kept; `entente federation status KIT` tells",
}
"""Command -> what there is after Ctrl-C, where the command itself has not said more."""
COMPLETION = "_ENTENTE_COMPLETE"
"""Set by the shell while it asks for completions; what was typed is in another variable then."""


class Commands(TyperGroup):
    """All commands; Ctrl-C ends each with what was kept."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            from entente.errors import Interrupted

            kept = KEPT.get(ctx.invoked_subcommand or "")
            raise Interrupted("interrupted" + (f"; {kept}" if kept else "")) from stop


def build(arguments: Sequence[str]) -> typer.Typer:
    """The application, with only the command in `arguments` really loaded."""
    root = typer.Typer(
        name="entente",
        cls=Commands,
        help="Train one intrusion detector together; every log stays at home.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    root.callback()(_options)
    called = called_command(arguments)
    for name, line in COMMANDS.items():
        if name != called:
            root.command(name, help=line)(_stub)
            continue
        function = name.replace("-", "_")
        module = import_module(f"entente.cli.{function}")
        if hasattr(module, "app"):
            if module.app.registered_callback:  # a group that does something by itself says what
                root.add_typer(module.app, name=name)
            else:
                root.add_typer(module.app, name=name, help=line)
        else:
            root.command(name)(getattr(module, function))
    return root


def called_command(arguments: Sequence[str]) -> str | None:
    """The command among the words; while the shell completes, among what was typed so far."""
    words = list(arguments)
    if COMPLETION in os.environ:
        words = os.environ.get("_TYPER_COMPLETE_ARGS", os.environ.get("COMP_WORDS", "")).split()[1:]
    return next((word for word in words if not word.startswith("-")), None)


def _stub() -> None:
    """Stands in the list of commands for one that was not called."""


def _version(wanted: bool) -> None:
    if wanted:
        from entente.build import build_facts

        typer.echo("\n".join(f"{name} {fact}" for name, fact in build_facts().items()))
        raise typer.Exit


def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show version and build, and exit."
    ),
) -> None:
    """Options before the command."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; a user's mistake ends in one message and a numbered exit code, not a traceback."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    from entente.errors import EntenteError, Interrupted

    before = os.umask(0o077)  # what is written holds names of hosts and users
    try:
        build(words)(args=words, prog_name="entente")
    except Interrupted as stop:
        typer.echo(stop, err=True)
        sys.exit(stop.exit_code)
    except EntenteError as error:
        typer.secho(f"error: {error}", err=True, fg="red")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(Interrupted.exit_code)  # before a command had begun
    except BrokenPipeError:
        sys.exit(0)
    finally:
        os.umask(before)
