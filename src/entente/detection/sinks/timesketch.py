"""Timesketch's JSON lines: one event of a timeline per line."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from entente.detection.alerts import Alert
from entente.detection.sinks.base import EPOCH, Sink, headline, json_lines


class TimesketchTimeline(Sink):
    name = "timesketch"
    summary = "Timesketch timeline, one event per line"
    suffix = ".jsonl"

    def render(self, alerts: Sequence[Alert]) -> str:
        return json_lines(_event(alert) for alert in alerts)


def _event(alert: Alert) -> dict[str, Any]:
    event: dict[str, Any] = {
        "message": "; ".join((headline(alert), *alert.explanation)),
        "datetime": _moment(alert.time),
        "timestamp": alert.time,  # microseconds, as Timesketch counts
        "timestamp_desc": "First event" if alert.first is not None else "Window start",
        "data_type": "entente:alert",
        "tag": [f"severity:{alert.severity}"],
        "alert_id": alert.id,
        "until": _moment(alert.until),
        "source_host": alert.src,
        "destination_host": alert.dst,
        "score": alert.score,
        "threshold": alert.threshold,
        "severity": alert.severity,
        "silo": alert.silo,
        "direction": alert.direction,
    }
    further = {
        "incident": alert.incident,
        "event_count": alert.events,
        "failures": alert.failures,
        "users": list(alert.users),
        "kinds": list(alert.kinds),
        "ports": list(alert.ports),
        "technique": alert.technique,
        "technique_reason": alert.technique_reason,
        "service": alert.service,
        "source_role": alert.source_role,
        "destination_role": alert.target_role,
        "evidence": [f"{_moment(row.time)} {row.place}".strip() for row in alert.evidence],
        "model": alert.model,
        "model_before": alert.model_before,
        "elsewhere": list(alert.elsewhere),
        "link": alert.link,
    }
    return event | {name: value for name, value in further.items() if value not in (None, [])}


def _moment(microseconds: int) -> str:
    """ISO 8601 with the offset, to the microsecond."""
    return (EPOCH + timedelta(microseconds=microseconds)).isoformat(timespec="microseconds")
