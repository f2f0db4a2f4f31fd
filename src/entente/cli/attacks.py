"""`entente attacks`: the attacks of the attack lab."""

from __future__ import annotations

import typer


def attacks(as_json: bool = typer.Option(False, "--json", help="As JSON.")) -> None:
    """List the attacks that an experiment file's [attack] section can name."""
    import json

    from entente_lab.attacks import available

    found = available()
    if as_json:
        typer.echo(json.dumps([{"name": name, "summary": attack.summary} for name, attack in found.items()]))
        return
    width = max(len(name) for name in found)
    for name, attack in found.items():
        typer.echo(f"{name:<{width}}  {attack.summary}")
