"""`entente detectors`: what a silo can train."""

from __future__ import annotations

from entente.cli.terminal import Json


def detectors(as_json: Json = False) -> None:
    """List the detectors.

    Example: entente detectors --json
    """
    from entente.cli.listing import list_plugins
    from entente.registry import DETECTORS

    list_plugins(DETECTORS, as_json)
