"""Entente's own alerts, one JSON object per line; nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence

from entente.detection.alerts import Alert
from entente.detection.sinks.base import Sink, json_lines


class JsonSink(Sink):
    name = "jsonl"
    summary = "Entente's own fields, one JSON object per line"
    suffix = ".jsonl"

    def render(self, alerts: Sequence[Alert]) -> str:
        return json_lines(alert.as_dict() for alert in alerts)
