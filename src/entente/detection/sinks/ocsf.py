"""OCSF Detection Finding (class 2004), one event per line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from entente import __version__
from entente.detection.addresses import address
from entente.detection.alerts import Alert
from entente.detection.explanations import TECHNIQUES
from entente.detection.sinks.base import Sink, headline, json_lines

OCSF_VERSION = "1.5.0"
CATEGORY, CLASS, CREATE = 2, 2004, 1
SEVERITY = {"low": (2, "Low"), "medium": (3, "Medium"), "high": (4, "High"), "critical": (5, "Critical")}
ANALYTIC = {
    "uid": "entente.unexpected-connection",
    "name": "Unexpected connection",
    "type": "Learning (ML/DL)",
    "type_id": 4,
    "version": __version__,
}
UNMAPPED = (
    *("score", "threshold", "silo", "also", "direction", "failures", "users", "kinds", "logons", "ports"),
    *("technique_reason", "rarity", "source_role", "target_role", "evidence", "model", "model_before"),
    *("elsewhere", "link"),
)
"""Fields of an alert that the class has no place for."""


class DetectionFinding(Sink):
    name = "ocsf"
    summary = f"OCSF {OCSF_VERSION} Detection Finding, one event per line"
    suffix = ".jsonl"

    def render(self, alerts: Sequence[Alert]) -> str:
        return json_lines(_finding(alert) for alert in alerts)


def _finding(alert: Alert) -> dict[str, Any]:
    severity_id, severity = SEVERITY[alert.severity]
    start, end = alert.time // 1000, alert.until // 1000
    metadata: dict[str, Any] = {
        "version": OCSF_VERSION,
        "product": {"name": "Entente", "vendor_name": "Entente", "version": __version__},
        "uid": alert.id,
    }
    if alert.incident:
        metadata["correlation_uid"] = alert.incident
    return {
        "activity_id": CREATE,
        "activity_name": "Create",
        "category_uid": CATEGORY,
        "category_name": "Findings",
        "class_uid": CLASS,
        "class_name": "Detection Finding",
        "type_uid": CLASS * 100 + CREATE,
        "type_name": "Detection Finding: Create",
        "time": start,
        "start_time": start,
        "end_time": end,
        "count": alert.events or 1,
        "severity_id": severity_id,
        "severity": severity,
        "status_id": 1,
        "status": "New",
        "is_alert": True,
        "message": headline(alert),
        "metadata": metadata,
        "finding_info": _info(alert, start, end),
        "evidences": [_evidence(alert)],
        "unmapped": {name: value for name, value in alert.as_dict().items() if name in UNMAPPED},
    }


def _info(alert: Alert, start: int, end: int) -> dict[str, Any]:
    info: dict[str, Any] = {
        "uid": alert.id,
        "title": headline(alert),
        "desc": "; ".join(alert.explanation),
        "types": ["Lateral Movement"],
        "created_time": alert.end // 1000,
        "first_seen_time": start,
        "last_seen_time": end,
        "analytic": ANALYTIC,
    }
    if alert.technique:
        info["attacks"] = [_attack(alert.technique)]
    return info


def _evidence(alert: Alert) -> dict[str, Any]:
    evidence: dict[str, Any] = {"src_endpoint": _endpoint(alert.src), "dst_endpoint": _endpoint(alert.dst)}
    if alert.ports:
        evidence["dst_endpoint"]["port"] = alert.ports[0]
    if alert.service:
        evidence["dst_endpoint"]["svc_name"] = alert.service
    if alert.users:
        evidence["user"] = {"name": alert.users[0]}
    return evidence


def _attack(technique: str) -> dict[str, Any]:
    parent = technique.partition(".")[0]
    name, (tactic_id, tactic) = TECHNIQUES[parent]
    found = {"technique": {"uid": parent, "name": name}, "tactic": {"uid": tactic_id, "name": tactic}}
    if parent != technique:
        found["sub_technique"] = {"uid": technique, "name": TECHNIQUES[technique][0]}
    return found


def _endpoint(host: str) -> dict[str, Any]:
    return {"hostname" if address(host) is None else "ip": host}
