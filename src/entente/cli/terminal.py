"""What every command says, and where: results on standard output, progress and remarks on standard error."""

from __future__ import annotations

import json
import logging
from typing import Annotated, Any

import typer
from rich.console import Console

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Track = Annotated[
    list[str] | None,
    typer.Option(
        "--track",
        metavar="NAME",
        help="Also write rounds and metrics for tensorboard or mlflow into RUN/tracking; may be repeated.",
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say more.")]


def remarks(quiet: bool = False, verbose: bool = False) -> Console:
    """The console for progress and remarks; log messages of the library go there too."""
    from rich.logging import RichHandler

    console = Console(stderr=True, quiet=quiet, highlight=False)
    level = logging.ERROR if quiet else logging.DEBUG if verbose else logging.WARNING
    handler = RichHandler(console=Console(stderr=True), show_path=False, show_time=False)
    logging.basicConfig(level=level, handlers=[handler], format="%(message)s", force=True)
    for chatty in ("matplotlib", "asyncio", "urllib3"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    return console


def results(quiet: bool = False) -> Console:
    """The console for what was asked for; --quiet leaves only the files and the exit code."""
    return Console(quiet=quiet, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, sort_keys=True, allow_nan=False))
