"""Output formats for alerts: every module here that defines a Sink is found by its name."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from entente.detection.alerts import Alert
from entente.detection.sinks.base import Sink
from entente.errors import UsageError


def available() -> dict[str, type[Sink]]:
    """All sinks by name."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        for value in vars(import_module(f"{__name__}.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Sink) and value is not Sink:
                found[value.name] = value
    return dict(sorted(found.items()))


def create(name: str) -> Sink:
    """The sink of that name; UsageError names those that exist."""
    sinks = available()
    if name not in sinks:
        raise UsageError(f"there is no alert format {name!r}", remedy=f"Formats are: {', '.join(sinks)}.")
    return sinks[name]()


def write_alerts(name: str, alerts: Sequence[Alert], path: Path) -> None:
    """Write alerts in the format `name`, whole or not at all."""
    create(name).write(path, alerts)
