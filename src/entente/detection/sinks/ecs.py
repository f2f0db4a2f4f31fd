"""Elastic Common Schema, one document per line, ready for the bulk interface or Filebeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from entente import __version__
from entente.detection.addresses import address
from entente.detection.alerts import Alert
from entente.detection.explanations import TECHNIQUES
from entente.detection.sinks.base import Sink, headline, json_lines, timestamp

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
        "@timestamp": timestamp(alert.time),
        "ecs": {"version": ECS_VERSION},
        "message": headline(alert),
        "event": _event(alert),
        "observer": {"vendor": "Entente", "product": "Entente", "type": "ids", "version": __version__},
        "rule": {"name": "Unexpected connection", "category": "lateral movement"},
        "source": _endpoint(alert.src),
        "destination": _endpoint(alert.dst),
        "network": {"direction": alert.direction, **({"protocol": alert.service} if alert.service else {})},
        "related": {
            "hosts": sorted({host for host in hosts if address(host) is None}),
            "ip": sorted({host for host in hosts if address(host) is not None}),
            "user": list(alert.users),
        },
        "entente": _own(alert),
    }
    if alert.ports:
        document["destination"]["port"] = alert.ports[0]
    if alert.users:
        document["user"] = {"name": alert.users[0]}
    if alert.technique:
        document["threat"] = _threat(alert.technique)
    return document


def _event(alert: Alert) -> dict[str, Any]:
    event: dict[str, Any] = {
        "id": alert.id,
        "kind": "alert",
        "category": ["network", "intrusion_detection"],
        "type": ["connection", "info"],
        "module": "entente",
        "dataset": "entente.alert",
        "provider": "entente",
        "start": timestamp(alert.time),
        "end": timestamp(alert.until),
        "severity": RISK[alert.severity],
        "risk_score": RISK[alert.severity],
        "reason": "; ".join(alert.explanation),
    }
    if alert.kinds:
        event["action"] = alert.kinds[0]
    if alert.failures is not None:
        event["outcome"] = "failure" if alert.failures == alert.events else "success"
    return event


def _own(alert: Alert) -> dict[str, Any]:
    """What the schema has no place for."""
    values = alert.as_dict()
    kept = ("score", "threshold", "severity", "silo", "also", "explanation", "events", "failures", "rarity")
    more = ("users", "kinds", "logons", "ports", "service", "technique_reason", "source_role", "target_role")
    own = {name: values[name] for name in (*kept, *more, "model", "model_before", "elsewhere", "link")}
    own["evidence"] = [{**row, "time": timestamp(row["time"])} for row in values["evidence"]]
    window = {"start": timestamp(alert.start), "end": timestamp(alert.end)}
    return {**own, "window": window, "incident": {"id": alert.incident}}


def _threat(technique: str) -> dict[str, Any]:
    parent = technique.partition(".")[0]
    name, (tactic_id, tactic) = TECHNIQUES[parent]
    found: dict[str, Any] = {"id": [parent], "name": [name]}
    if parent != technique:
        found["subtechnique"] = {"id": [technique], "name": [TECHNIQUES[technique][0]]}
    return {
        "framework": "MITRE ATT&CK",
        "tactic": {"id": [tactic_id], "name": [tactic]},
        "technique": found,
    }


def _endpoint(host: str) -> dict[str, Any]:
    return {"address": host, "domain" if address(host) is None else "ip": host}
