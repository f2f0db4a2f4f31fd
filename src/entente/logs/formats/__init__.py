"""The log formats, found by looking into this package: one module, one format."""

from __future__ import annotations

import inspect
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from entente.errors import UsageError
from entente.logs.formats.base import Format, Head


@cache
def formats() -> dict[str, Format]:
    """Name -> format, those that recognise most narrowly first."""
    found: list[Format] = []
    for module in iter_modules(__path__):
        for member in vars(import_module(f"{__name__}.{module.name}")).values():
            if inspect.isclass(member) and issubclass(member, Format) and not inspect.isabstract(member):
                found.append(member())
    return {format.name: format for format in sorted(found, key=lambda each: (each.rank, each.name))}


def format_named(name: str) -> Format:
    known = formats()
    if name not in known:
        raise UsageError(
            f"there is no log format {name!r}",
            remedy=f"Formats: auto, {', '.join(known)}. `entente formats` describes them.",
        )
    return known[name]


def recognise(head: Head) -> tuple[Format, str] | None:
    """The format of a file and why, or None."""
    for format in formats().values():
        reason = format.recognise(head)
        if reason is not None:
            return format, reason
    return None
