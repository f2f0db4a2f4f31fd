"""Entente's own alerts, one JSON object per line; nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from entente.detection.alerts import Alert
from entente.detection.sinks.base import Sink, json_lines
from entente.errors import StorageError


class JsonLines(Sink):
    name = "jsonl"
    summary = "Entente's own fields, one JSON object per line"
    suffix = ".jsonl"

    def render(self, alerts: Sequence[Alert]) -> str:
        return json_lines(alert.as_dict() for alert in alerts)


def read_alerts(path: Path) -> tuple[Alert, ...]:
    """What `JsonLines` wrote; StorageError names the line that is damaged."""
    alerts = []
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                alerts.append(Alert.from_dict(json.loads(line)))
            except (ValueError, StorageError) as error:
                what = error.what if isinstance(error, StorageError) else f"is not JSON ({error})"
                raise StorageError(
                    what, where=path, line=number, remedy="Write alerts again with `entente detect`."
                ) from error
    return tuple(alerts)
