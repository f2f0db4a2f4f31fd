"""Every output read as a stranger would read it."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Any

from entente.detection.sinks.base import EPOCH

ECS_FIELDS = {
    "@timestamp": "date", "ecs.version": "keyword", "message": "text", "event.id": "keyword",
    "event.kind": "keyword", "event.category": "keyword", "event.type": "keyword", "event.module": "keyword",
    "event.dataset": "keyword", "event.provider": "keyword", "event.start": "date", "event.end": "date",
    "event.severity": "long", "event.risk_score": "float", "event.reason": "keyword",
    "event.action": "keyword", "event.outcome": "keyword", "observer.vendor": "keyword",
    "observer.product": "keyword", "observer.type": "keyword", "observer.version": "keyword",
    "rule.name": "keyword", "rule.category": "keyword", "source.address": "keyword", "source.ip": "ip",
    "source.domain": "keyword", "destination.address": "keyword", "destination.ip": "ip",
    "destination.domain": "keyword", "destination.port": "long", "network.direction": "keyword",
    "network.protocol": "keyword",
    "related.hosts": "keyword", "related.ip": "ip", "related.user": "keyword", "user.name": "keyword",
    "threat.framework": "keyword", "threat.tactic.id": "keyword", "threat.tactic.name": "keyword",
    "threat.technique.id": "keyword", "threat.technique.name": "keyword",
    "threat.technique.subtechnique.id": "keyword", "threat.technique.subtechnique.name": "keyword",
}  # fmt: skip
"""Fields of ECS 8.17 with their types, as its reference lists them; those that an alert may use."""


def parse(name: str, text: str) -> list[dict[str, Any]]:
    """The alerts of a file as {src, dst, start, end, score}, read as a stranger would read the format."""
    return PARSERS[name](text)


def json_rows(text: str) -> list[dict[str, Any]]:
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.split("\n")[:-1]]


def parse_jsonl(text: str) -> list[dict[str, Any]]:
    return [{key: row[key] for key in ("src", "dst", "start", "end", "score")} for row in json_rows(text)]


def parse_ecs(text: str) -> list[dict[str, Any]]:
    return [
        {
            "src": row["source"]["address"],
            "dst": row["destination"]["address"],
            "start": row["event"]["start"],
            "end": row["event"]["end"],
            "score": row["entente"]["score"],
        }
        for row in json_rows(text)
    ]


def parse_ocsf(text: str) -> list[dict[str, Any]]:
    found = []
    for row in json_rows(text):
        evidence = row["evidences"][0]
        src, dst = (next(iter(evidence[end].values())) for end in ("src_endpoint", "dst_endpoint"))
        times = {"start": row["start_time"], "end": row["end_time"]}
        found.append({"src": src, "dst": dst, **times, "score": row["unmapped"]["score"]})
    return found


def parse_stix(text: str) -> list[dict[str, Any]]:
    objects = {thing["id"]: thing for thing in json.loads(text)["objects"]}
    found = []
    for thing in objects.values():
        if thing["type"] == "sighting":
            src, dst = (objects[ref]["name"] for ref in thing["where_sighted_refs"])
            (extension,) = thing["extensions"].values()
            times = {"start": thing["first_seen"], "end": thing["last_seen"]}
            found.append({"src": src, "dst": dst, **times, "score": extension["score"]})
    return found


def parse_cef(text: str) -> list[dict[str, Any]]:
    found = []
    for line in text.split("\n")[:-1]:
        assert line == line.splitlines()[0]
        parts = re.split(r"(?<!\\)\|", line, maxsplit=7)
        assert parts[0] == "CEF:0"
        assert len(parts) == 8
        keys = list(re.finditer(r"(?:^| )([A-Za-z0-9]+)=", re.sub(r"\\.", "__", parts[7])))
        fields = {}
        for i, key in enumerate(keys):
            end = keys[i + 1].start() if i + 1 < len(keys) else len(parts[7])
            raw = parts[7][key.end() : end]
            fields[key.group(1)] = re.sub(
                r"\\(.)", lambda m: {"n": "\n", "r": "\r"}.get(m.group(1), m.group(1)), raw
            )
        src = fields.get("shost", fields.get("src", fields.get("c6a2", "")))
        dst = fields.get("dhost", fields.get("dst", fields.get("c6a3", "")))
        times = {"start": int(fields["start"]), "end": int(fields["end"])}
        found.append({"src": src, "dst": dst, **times, "score": float(fields["cfp1"])})
    return found


def parse_timesketch(text: str) -> list[dict[str, Any]]:
    found = []
    for row in json_rows(text):
        assert {"message", "datetime", "timestamp_desc"} <= set(row)
        begin, end = (datetime.fromisoformat(row[name]) for name in ("datetime", "until"))
        assert (begin - EPOCH) // timedelta(microseconds=1) == row["timestamp"]
        times = {"start": row["timestamp"], "end": (end - EPOCH) // timedelta(microseconds=1)}
        found.append(
            {"src": row["source_host"], "dst": row["destination_host"], **times, "score": row["score"]}
        )
    return found


def parse_misp(text: str) -> list[dict[str, Any]]:
    found = []
    for thing in json.loads(text)["Event"]["Object"]:
        values = {one["object_relation"]: one["value"] for one in thing["Attribute"]}
        src = values.get("ip-src", values.get("hostname-src"))
        dst = values.get("ip-dst", values.get("hostname-dst"))
        (score,) = re.findall(r"^score: (.+)$", thing["comment"], flags=re.M)
        times = {"start": thing["first_seen"], "end": thing["last_seen"]}
        found.append({"src": src, "dst": dst, **times, "score": float(score)})
    return found


PARSERS = {
    "jsonl": parse_jsonl,
    "ecs": parse_ecs,
    "ocsf": parse_ocsf,
    "stix": parse_stix,
    "cef": parse_cef,
    "timesketch": parse_timesketch,
    "misp": parse_misp,
}


def leaves(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {prefix: value}
    parts = (leaves(part, f"{prefix}.{name}".strip(".")) for name, part in value.items())
    return {name: leaf for part in parts for name, leaf in part.items()}


def check_ecs(row: dict[str, Any]) -> None:
    """Demand that a document has only fields of the schema, of their types, and its own namespace."""
    for name, value in leaves({key: part for key, part in row.items() if key != "entente"}).items():
        assert name in ECS_FIELDS, name
        kind = ECS_FIELDS[name]
        values = value if isinstance(value, list) else [value]
        if kind in ("date", "ip", "keyword", "text"):
            assert all(isinstance(one, str) for one in values), name
        else:
            assert all(isinstance(one, (int, float)) for one in values), name
        if kind == "ip":
            assert all(ip_address(one) for one in values)
    assert row["event"]["kind"] in ("alert", "event")
    assert row["network"]["direction"] in ("internal", "inbound", "outbound")
