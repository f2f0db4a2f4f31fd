"""`entente aggregators`: the aggregation rules."""

from __future__ import annotations

from entente.cli.terminal import Json


def aggregators(as_json: Json = False) -> None:
    """List the aggregation rules.

    Example: entente aggregators --json
    """
    from entente.cli.listing import list_plugins
    from entente.registry import AGGREGATORS

    list_plugins(AGGREGATORS, as_json)
