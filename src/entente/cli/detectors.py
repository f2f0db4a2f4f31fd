"""`entente detectors`: what a silo can train."""

from __future__ import annotations

from entente.cli.console import Json, print_json


def detectors(as_json: Json = False) -> None:
    """List the detectors.

    Example: entente detectors --json
    """
    import typer

    from entente.detectors import available

    found = available()
    if as_json:
        print_json([{"name": name, "summary": kind.summary} for name, kind in found.items()])
        return
    width = max(len(name) for name in found)
    for name, kind in found.items():
        typer.echo(f"{name:<{width}}  {kind.summary}")
