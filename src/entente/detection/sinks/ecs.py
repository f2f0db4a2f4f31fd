"""Elastic Common Schema, one document per line, ready for the bulk interface or Filebeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from entente import __version__
from entente.detection.alerts import Alert
from entente.detection.sinks.base import Sink, address, headline, json_lines, timestamp

ECS_VERSION = "8.17.0"
RISK = {"low": 21, "medium": 47, "high": 73, "critical": 99}
"""Elastic's own scale for the risk of a severity."""


class ElasticCommonSchema(Sink):
    name = "ecs"
    summary = f"Elastic Common Schema {ECS_VERSION}, one document per line"
    suffix = ".ndjson"

    def render(self, alerts: Sequence[Alert]) -> str:
        return json_lines(_document(alert) for alert in alerts)


def _document(alert: Alert) -> dict[str, Any]:
    hosts = [alert.src, alert.dst]
    document: dict[str, Any] = {
        "@timestamp": timestamp(alert.end),
        "ecs": {"version": ECS_VERSION},
        "message": headline(alert),
        "event": {
            "id": alert.id,
            "kind": "alert",
            "category": ["network", "intrusion_detection"],
            "type": ["connection", "info"],
            "module": "entente",
            "dataset": "entente.alert",
            "provider": "entente",
            "start": timestamp(alert.start),
            "end": timestamp(alert.end),
            "severity": RISK[alert.severity],
            "risk_score": RISK[alert.severity],
            "reason": "; ".join(alert.explanation),
        },
        "observer": {"vendor": "Entente", "product": "Entente", "type": "ids", "version": __version__},
        "rule": {"name": "Unexpected connection", "category": "lateral movement"},
        "source": _endpoint(alert.src),
        "destination": _endpoint(alert.dst),
        "related": {
            "hosts": sorted({host for host in hosts if address(host) is None}),
            "ip": sorted({host for host in hosts if address(host) is not None}),
            "user": [alert.user] if alert.user else [],
        },
        "entente": {
            "score": alert.score,
            "threshold": alert.threshold,
            "severity": alert.severity,
            "silo": alert.silo,
            "explanation": list(alert.explanation),
        },
    }
    if alert.user:
        document["user"] = {"name": alert.user}
    if alert.kind:
        document["event"]["action"] = alert.kind
    if alert.technique:
        document["threat"] = {"framework": "MITRE ATT&CK", "technique": {"id": [alert.technique]}}
    return document


def _endpoint(host: str) -> dict[str, str]:
    return {"address": host, "domain" if address(host) is None else "ip": host}
