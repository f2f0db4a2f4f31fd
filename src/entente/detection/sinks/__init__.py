"""Output formats for alerts; plug-ins of the group `entente.sinks`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from entente.detection.alerts import Alert
from entente.detection.sinks.base import Sink
from entente.registry import SINKS


def available() -> dict[str, type[Sink]]:
    """All sinks by name; those that cannot be imported are left out."""
    return SINKS.available()


def create(name: str) -> Sink:
    """The sink of that name; UsageError names those that exist."""
    sink: Sink = SINKS.load(name)()
    return sink


def write_alerts(name: str, alerts: Sequence[Alert], path: Path) -> None:
    """Write alerts in the format `name`, whole or not at all."""
    create(name).write(path, alerts)
