"""`entente doctor`: what is wrong here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from entente.cli.terminal import Json, Quiet, print_json, results

COLOURS = {"ok": "green", "absent": "dim", "warning": "yellow", "problem": "red"}


def doctor(
    folder: Annotated[
        Path, typer.Option("--folder", metavar="DIR", help="Where results would be written.")
    ] = Path("."),
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Look at versions, extras, plug-ins, disk, clock and Java, and say what is wrong.

    Nothing is changed and nothing leaves the machine. The exit code is 0 unless there is a problem; a
    warning or an absent extra is none.

    Example: entente doctor --json
    """
    from rich.markup import escape

    from entente.health import examine

    console, found = results(quiet or as_json), []
    for one in examine(folder):
        found.append(one)
        colour = COLOURS[one.level]
        console.print(f"[{colour}]{one.level:<8}[/] {escape(one.what)}: {escape(one.said)}")
    if as_json:
        print_json([{"level": one.level, "what": one.what, "said": one.said} for one in found])
    for one in found:
        if one.error is not None:
            raise one.error
