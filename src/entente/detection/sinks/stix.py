"""STIX 2.1: one bundle; a host is an identity, an alert a sighting and the relationship src -> dst."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import uuid5

from entente.detection.alerts import NAMESPACE, Alert
from entente.detection.explanations import TECHNIQUES
from entente.detection.sinks.base import Sink, headline, timestamp

PUBLISHED = "2026-01-01T00:00:00.000Z"
"""Creation time of what does not change between files: hosts, techniques and Entente itself."""
MOST_SIGHTINGS = 999_999_999
"""The largest count that STIX allows."""
GENERIC = "T1021"
"""A sighting must be of something: Remote Services, where no better technique is known."""

OPTIONAL = {
    "users": "list of string",
    "kinds": "list of string",
    "ports": "list of integer",
    "service": "string",
    "technique_reason": "string",
    "source_role": "string",
    "target_role": "string",
    "evidence": "list of time, log, line, user, kind and port",
    "model": "string",
    "model_before": "string",
    "elsewhere": "list of string",
    "link": "string",
}
"""Properties of a sighting that an alert may have."""


class StixBundle(Sink):
    name = "stix"
    summary = "STIX 2.1 bundle of sightings, hosts and techniques"
    suffix = ".json"

    def render(self, alerts: Sequence[Alert]) -> str:
        objects = [_entente(), _extension()]
        objects += [_host(host) for host in sorted({host for a in alerts for host in (a.src, a.dst)})]
        objects += [_technique(t) for t in sorted({a.technique or GENERIC for a in alerts})]
        for alert in alerts:
            objects += [_sighting(alert), _relationship(alert)]
        objects += _incidents(alerts)
        unique = list({thing["id"]: thing for thing in objects}.values())
        contents = json.dumps(unique, sort_keys=True, allow_nan=False)
        bundle = {"type": "bundle", "id": _id("bundle", contents), "objects": unique}
        return json.dumps(bundle, indent=1, sort_keys=True, allow_nan=False) + "\n"


def _id(kind: str, *parts: str) -> str:
    text = (
        "\0".join((kind, *parts))
        .encode("utf-8", errors="backslashreplace")
        .decode("ascii", "backslashreplace")
    )
    return f"{kind}--{uuid5(NAMESPACE, text)}"


ENTENTE = _id("identity", "entente")
EXTENSION = _id("extension-definition", "entente")


def _object(kind: str, ident: str, moment: str = PUBLISHED, **values: Any) -> dict[str, Any]:
    common = {"type": kind, "spec_version": "2.1", "id": ident, "created": moment, "modified": moment}
    author = {} if ident == ENTENTE else {"created_by_ref": ENTENTE}
    return {**common, **author, **values}


def _entente() -> dict[str, Any]:
    return _object("identity", ENTENTE, name="Entente", identity_class="system")


def _extension() -> dict[str, Any]:
    return _object(
        "extension-definition",
        EXTENSION,
        name="Entente alert",
        description="Score, threshold, severity, silo, and what the events of an alert say.",
        schema="Properties: score (float), threshold (float), severity (string), silo (string); optional: "
        + ", ".join(f"{name} ({kind})" for name, kind in OPTIONAL.items())
        + ".",
        version="1.1.0",
        extension_types=["property-extension"],
    )


def _host(host: str) -> dict[str, Any]:
    return _object("identity", _id("identity", "host", host), name=host, identity_class="system")


def _technique(technique: str) -> dict[str, Any]:
    reference = {"source_name": "mitre-attack", "external_id": technique}
    name = TECHNIQUES[technique][0]
    return _object(
        "attack-pattern", _id("attack-pattern", technique), name=name, external_references=[reference]
    )


def _sighting(alert: Alert) -> dict[str, Any]:
    details: dict[str, Any] = {
        "extension_type": "property-extension",
        "score": alert.score,
        "threshold": alert.threshold,
        "severity": alert.severity,
        "silo": alert.silo,
    }
    values = alert.as_dict()
    details |= {name: values[name] for name in OPTIONAL if values[name]}
    return _object(
        "sighting",
        _id("sighting", alert.id),
        timestamp(alert.end),
        description="; ".join((headline(alert), *alert.explanation)),
        first_seen=timestamp(alert.time),
        last_seen=timestamp(alert.until),
        count=min(alert.events or 1, MOST_SIGHTINGS),
        sighting_of_ref=_id("attack-pattern", alert.technique or GENERIC),
        where_sighted_refs=[_id("identity", "host", alert.src), _id("identity", "host", alert.dst)],
        extensions={EXTENSION: details},
    )


def _relationship(alert: Alert) -> dict[str, Any]:
    return _object(
        "relationship",
        _id("relationship", alert.id),
        timestamp(alert.end),
        relationship_type="communicates-with",
        source_ref=_id("identity", "host", alert.src),
        target_ref=_id("identity", "host", alert.dst),
        start_time=timestamp(alert.start),
        stop_time=timestamp(alert.end),
    )


def _incidents(alerts: Sequence[Alert]) -> list[dict[str, Any]]:
    """A grouping per incident; its id stays while alerts join it, and its modification time moves on."""
    members: dict[str, list[Alert]] = {}
    for alert in alerts:
        if alert.incident is not None:
            members.setdefault(alert.incident, []).append(alert)
    groups = []
    for incident, group in members.items():
        first, last = min(alert.end for alert in group), max(alert.end for alert in group)
        found = _object(
            "grouping",
            _id("grouping", incident),
            timestamp(first),
            name=f"Incident {incident}",
            context="suspicious-activity",
            object_refs=[_id("sighting", alert.id) for alert in group],
        )
        groups.append({**found, "modified": timestamp(last)})
    return groups
