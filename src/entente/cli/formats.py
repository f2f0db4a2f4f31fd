"""entente formats: list the log formats that can be read."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def formats(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON array.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show a sample of each.")] = False,
) -> None:
    """List the log formats that `entente ingest` reads.

    Example: entente formats -v
    """
    from entente.logs.formats import formats as known

    found = known().values()
    if as_json:
        typer.echo(
            json.dumps(
                [
                    {
                        "name": f.name,
                        "summary": f.summary,
                        "ntlm": f.ntlm,
                        "labels": f.labels,
                        "sample": f.sample,
                    }
                    for f in found
                ],
                indent=2,
            )
        )
        return
    width = max(len(format.name) for format in found)
    for format in found:
        typer.echo(f"{format.name:<{width}}  {format.summary}")
        if verbose:
            for line in format.sample.splitlines():
                typer.echo(f"{'':<{width}}    {line[:160]}")
