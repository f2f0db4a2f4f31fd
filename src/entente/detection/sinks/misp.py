"""MISP: one event per file; an alert is an object of the template `network-connection`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any
from uuid import uuid5

from entente.detection.addresses import address
from entente.detection.alerts import NAMESPACE, Alert
from entente.detection.explanations import SEVERITIES, TECHNIQUES
from entente.detection.sinks.base import Sink, headline, timestamp
from entente.text import count

TEMPLATE, TEMPLATE_VERSION = "af16764b-f8e5-4603-9de1-de34d272f80b", "2"
"""MISP's own template `network-connection`."""
THREAT_LEVEL = {"low": "3", "medium": "2", "high": "1", "critical": "1"}
UNDEFINED = "4"
QUALIFIED = re.compile(r"([A-Za-z0-9_-]+\.)+[A-Za-z0-9-]{2,}")
"""What MISP takes as a host name; a short name goes as text."""
YOUR_ORGANISATION, INHERIT = "0", "5"
"""Distribution levels: alerts name own hosts and accounts, so nothing is shared until somebody says so."""


class MispEvent(Sink):
    name = "misp"
    summary = "MISP event with a network-connection object per alert"
    suffix = ".json"

    def render(self, alerts: Sequence[Alert]) -> str:
        alerts = list({alert.id: alert for alert in alerts}.values())
        techniques = sorted({alert.technique for alert in alerts if alert.technique})
        worst = max((alert.severity for alert in alerts), key=SEVERITIES.index, default=None)
        begin = min((alert.time for alert in alerts), default=0)
        event = {
            "uuid": _uuid("event", *(alert.id for alert in alerts)),
            "info": f"Entente: {count(len(alerts), 'unexpected connection')}",
            "date": timestamp(begin)[:10],
            "timestamp": _seconds(max((alert.end for alert in alerts), default=0)),
            "published": False,
            "analysis": "0",
            "threat_level_id": UNDEFINED if worst is None else THREAT_LEVEL[worst],
            "distribution": YOUR_ORGANISATION,
            "sharing_group_id": "0",
            "Attribute": [],
            "Object": [_object(alert) for alert in alerts],
            "Tag": [
                {"name": f'misp-galaxy:mitre-attack-pattern="{TECHNIQUES[t][0]} - {t}"'} for t in techniques
            ],
        }
        return json.dumps({"Event": event}, indent=1, sort_keys=True, allow_nan=False) + "\n"


def _object(alert: Alert) -> dict[str, Any]:
    attributes = [
        _attribute(alert, *_endpoint(alert.src, "src"), alert.src),
        _attribute(alert, *_endpoint(alert.dst, "dst"), alert.dst),
        _attribute(alert, "datetime", "first-packet-seen", timestamp(alert.time)),
    ]
    if alert.ports:
        attributes.append(_attribute(alert, "port", "dst-port", str(alert.ports[0])))
    return {
        "uuid": _uuid("object", alert.id),
        "name": "network-connection",
        "meta-category": "network",
        "template_uuid": TEMPLATE,
        "template_version": TEMPLATE_VERSION,
        "distribution": INHERIT,
        "sharing_group_id": "0",
        "timestamp": _seconds(alert.end),
        "first_seen": timestamp(alert.time),
        "last_seen": timestamp(alert.until),
        "comment": _comment(alert),
        "Attribute": attributes,
    }


def _endpoint(host: str, end: str) -> tuple[str, str]:
    """Attribute type and its place in the object."""
    if address(host) is not None:
        return f"ip-{end}", f"ip-{end}"
    return "hostname" if QUALIFIED.fullmatch(host) else "text", f"hostname-{end}"


def _attribute(alert: Alert, kind: str, relation: str, value: str) -> dict[str, Any]:
    return {
        "uuid": _uuid("attribute", alert.id, relation),
        "type": kind,
        "category": "Other" if kind in ("datetime", "text") else "Network activity",
        "object_relation": relation,
        "value": value,
        "to_ids": False,  # own hosts are no indicators
        "disable_correlation": kind in ("datetime", "port"),
        "distribution": INHERIT,
        "sharing_group_id": "0",
        "timestamp": _seconds(alert.end),
    }


def _comment(alert: Alert) -> str:
    """What the template has no place for, as `name: value` lines."""
    values: dict[str, object] = {
        "score": repr(alert.score),
        "threshold": repr(alert.threshold),
        "severity": alert.severity,
        "silo": alert.silo,
        "users": ", ".join(alert.users),
        "events": alert.events,
        "service": alert.service,
        "technique": alert.technique,
        "technique because of": alert.technique_reason,
        "source is a": alert.source_role,
        "target is a": alert.target_role,
        "evidence": ", ".join(row.place for row in alert.evidence if row.place),
        "model": " after ".join(name for name in (alert.model, alert.model_before) if name),
        "elsewhere": "; ".join(alert.elsewhere),
        "link": alert.link,
        "incident": alert.incident,
        "alert": alert.id,
    }
    lines = [headline(alert), *alert.explanation]
    lines += [f"{name}: {value}" for name, value in values.items() if value]
    return "\n".join(" ".join(line.splitlines()) for line in lines)


def _seconds(microseconds: int) -> str:
    return str(microseconds // 1_000_000)


def _uuid(kind: str, *parts: str) -> str:
    return str(uuid5(NAMESPACE, "\0".join(("misp", kind, *parts))))
