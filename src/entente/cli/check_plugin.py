"""`entente check-plugin`: the contract checks on one plug-in."""

from __future__ import annotations

from typing import Annotated

import typer

from entente.cli.terminal import Json, print_json


def check_plugin(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the plug-in.")],
    kind: Annotated[
        str | None, typer.Option("--kind", help="detector, aggregator, format or sink, where a name is two.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check that a detector, aggregation rule, log format or sink keeps its contract.

    Example: entente check-plugin rare-target
    """
    from entente.contracts import KINDS, find_plugin
    from entente.contracts import check_plugin as run_checks
    from entente.errors import PluginError, UsageError

    if kind is not None and kind not in KINDS:
        raise UsageError(f"there is no kind {kind!r}", remedy=f"Kinds are: {', '.join(KINDS)}.")
    found = find_plugin(name, kind)
    verdicts = run_checks(found, name)
    broken = [verdict for verdict in verdicts if verdict.problem is not None]
    if as_json:
        checks = [{"claim": each.claim, "problem": each.problem} for each in verdicts]
        print_json({"name": name, "kind": found, "package": KINDS[found].package(name), "checks": checks})
    else:
        for verdict in verdicts:
            mark = "ok    " if verdict.problem is None else "BROKEN"
            typer.echo(f"{mark}  {verdict.claim}" + (f": {verdict.problem}" if verdict.problem else ""))
    if broken:
        raise PluginError(f"{found} {name!r} breaks {len(broken)} of {len(verdicts)} claims of its contract")
