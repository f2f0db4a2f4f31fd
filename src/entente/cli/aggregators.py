"""`entente aggregators`: the aggregation rules."""

from __future__ import annotations

import typer


def aggregators(as_json: bool = typer.Option(False, "--json", help="As JSON.")) -> None:
    """List the aggregation rules."""
    import json

    from entente.federation.aggregators import available

    rules = available()
    if as_json:
        typer.echo(json.dumps([{"name": name, "summary": rule.summary} for name, rule in rules.items()]))
        return
    width = max(len(name) for name in rules)
    for name, rule in rules.items():
        typer.echo(f"{name:<{width}}  {rule.summary}")
