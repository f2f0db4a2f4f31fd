"""OCSF Detection Finding (class 2004), one event per line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from entente import __version__
from entente.detection.alerts import Alert
from entente.detection.sinks.base import Sink, address, headline, json_lines

OCSF_VERSION = "1.5.0"
CATEGORY, CLASS, CREATE = 2, 2004, 1
SEVERITY = {"low": (2, "Low"), "medium": (3, "Medium"), "high": (4, "High"), "critical": (5, "Critical")}
LEARNING = 4
"""type_id of an analytic that is a learnt model."""


class DetectionFinding(Sink):
    name = "ocsf"
    summary = f"OCSF {OCSF_VERSION} Detection Finding, one event per line"
    suffix = ".jsonl"

    def render(self, alerts: Sequence[Alert]) -> str:
        return json_lines(_finding(alert) for alert in alerts)


def _finding(alert: Alert) -> dict[str, Any]:
    severity_id, severity = SEVERITY[alert.severity]
    start, end = alert.start // 1000, alert.end // 1000
    product = {"name": "Entente", "vendor_name": "Entente", "version": __version__}
    info: dict[str, Any] = {
        "uid": alert.id,
        "title": headline(alert),
        "desc": "; ".join(alert.explanation),
        "types": ["Lateral Movement"],
        "created_time": end,
        "first_seen_time": start,
        "last_seen_time": end,
        "analytic": {"name": "Unexpected connection", "type": "Learning (ML/DL)", "type_id": LEARNING},
    }
    if alert.technique:
        info["attacks"] = [{"technique": {"uid": alert.technique}}]
    evidence: dict[str, Any] = {"src_endpoint": _endpoint(alert.src), "dst_endpoint": _endpoint(alert.dst)}
    if alert.user:
        evidence["user"] = {"name": alert.user}
    unmapped: dict[str, Any] = {"score": alert.score, "threshold": alert.threshold, "silo": alert.silo}
    if alert.kind:
        unmapped["kind"] = alert.kind
    return {
        "activity_id": CREATE,
        "activity_name": "Create",
        "category_uid": CATEGORY,
        "category_name": "Findings",
        "class_uid": CLASS,
        "class_name": "Detection Finding",
        "type_uid": CLASS * 100 + CREATE,
        "type_name": "Detection Finding: Create",
        "time": end,
        "start_time": start,
        "end_time": end,
        "severity_id": severity_id,
        "severity": severity,
        "status_id": 1,
        "status": "New",
        "is_alert": True,
        "message": headline(alert),
        "metadata": {"version": OCSF_VERSION, "product": product, "uid": alert.id},
        "finding_info": info,
        "evidences": [evidence],
        "unmapped": unmapped,
    }


def _endpoint(host: str) -> dict[str, str]:
    return {"hostname" if address(host) is None else "ip": host}
