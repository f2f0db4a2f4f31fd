"""The log formats; plug-ins of the group `entente.formats`."""

from __future__ import annotations

from functools import cache

from entente.logs.formats.base import Format, Head
from entente.registry import FORMATS


@cache
def formats() -> dict[str, Format]:
    """Name -> format, those that recognise most narrowly first."""
    found: list[Format] = [kind() for kind in FORMATS.available().values()]
    return {format.name: format for format in sorted(found, key=lambda each: (each.rank, each.name))}


def format_named(name: str) -> Format:
    FORMATS.load(name)  # the registry's error, where there is no such format or it cannot be imported
    return formats()[name]


def recognise(head: Head) -> tuple[Format, str] | None:
    """The format of a file and why, or None."""
    for format in formats().values():
        reason = format.recognise(head)
        if reason is not None:
            return format, reason
    return None
