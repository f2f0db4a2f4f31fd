"""What `entente detectors`, `aggregators` and `attacks` print: the plug-ins of one kind, a line each."""

from __future__ import annotations

import typer

from entente.cli.terminal import print_json
from entente.registry import Registry


def list_plugins(registry: Registry, as_json: bool) -> None:
    """Name and summary of each; those that cannot be used are named on standard error."""
    found = registry.available()
    for error in registry.broken().values():
        typer.secho(f"error: {error}", err=True, fg="red")
    if as_json:
        print_json([{"name": name, "summary": kind.summary} for name, kind in found.items()])
        return
    width = max(map(len, found), default=0)
    for name, kind in found.items():
        typer.echo(f"{name:<{width}}  {kind.summary}")
