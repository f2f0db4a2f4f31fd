"""Elastic Common Schema: network and authentication events of Packetbeat, Filebeat, Elastic Agent."""

from __future__ import annotations

from typing import Any

from entente.logs.formats.base import Column, Event, Format, Head, JsonLines, Options, Table
from entente.logs.formats.expressions import (
    added,
    first_of,
    null,
    only,
    outcome,
    port,
    text,
    whole,
    with_time,
)

FIELDS = (
    "@timestamp", "event.start", "event.category", "event.type", "event.kind", "event.action",
    "event.outcome", "event.dataset", "source.ip", "source.address", "source.domain", "destination.ip",
    "destination.address", "destination.domain", "destination.port", "source.bytes", "destination.bytes",
    "network.bytes", "network.protocol", "network.transport", "flow.final", "user.name", "host.name",
    "host.hostname",
)  # fmt: skip
UNSET = ("-", "")


class Ecs(Format):
    name = "ecs"
    summary = "Elastic Common Schema: network and authentication events (Packetbeat, Filebeat, Elastic Agent)"
    sample = (
        '{"@timestamp":"2024-03-01T08:00:10.000Z","ecs":{"version":"8.11"},"event":{"category":["network"],'
        '"kind":"event","start":"2024-03-01T08:00:00.250Z","dataset":"flow"},"source":{"ip":"10.0.0.1","port":50123,'
        '"bytes":700},"destination":{"ip":"10.0.0.2","port":445,"bytes":300},"network":{"transport":"tcp",'
        '"protocol":"smb"},"flow":{"final":true}}\n'
        '{"@timestamp":"2024-03-01T08:00:11.000Z","event.category":"authentication","event.outcome":"failure",'
        '"event.action":"ssh_login","source.ip":"10.0.0.3","host.name":"srv-1","user.name":"anna"}\n'
        '{"@timestamp":"2024-03-01T08:00:12.000Z","ecs":{"version":"8.11"},"event":{"category":["process"],'
        '"kind":"event"},"host":{"name":"srv-1"},"process":{"name":"sh"}}\n'
    )

    def recognise(self, head: Head) -> str | None:
        for found in head.objects:
            if "@timestamp" not in found or "winlog" in found:
                continue
            if {"source.ip", "destination.ip"} & found.keys() or _has(found, "source", "destination"):
                return "JSON with @timestamp and source or destination, as ECS has them"
            if isinstance(found.get("ecs"), dict) or "ecs.version" in found:
                return "JSON with @timestamp and ecs.version"
        return None

    def layout(self, head: Head, options: Options) -> JsonLines:
        paths: dict[str, tuple[str, ...]] = {}
        for name in FIELDS:
            paths |= {name: tuple(name.split(".")), f"{name}*": (name,)}
        return JsonLines(paths)

    def event(self, raw: Table, options: Options) -> Event:
        import ibis

        def value(*names: str) -> Column:
            places = [text(raw[place], *UNSET) for name in names for place in (name, f"{name}*")]
            return first_of(*places)

        rows = raw.select(
            moment=first_of(value("event.start"), value("@timestamp")),
            src=value("source.ip", "source.address", "source.domain"),
            to=value("destination.ip", "destination.address", "destination.domain"),
            computer=value("host.name", "host.hostname"),
            user=value("user.name"),
            protocol=value("network.protocol", "network.transport"),
            action=value("event.action", "event.dataset"),
            port=value("destination.port"),
            total=value("network.bytes"),
            sent=value("source.bytes"),
            received=value("destination.bytes"),
            result=value("event.outcome"),
            by_account=value("event.category").fill_null("").contains("authentication"),
            denied=value("event.type").fill_null("").contains("denied"),
            what=value("event.kind"),
            unfinished=value("flow.final") == "false",
        )
        rows = with_time(rows, rows.moment, "auto")
        rows = rows.mutate(dst=first_of(rows.to, only(rows.computer, rows.by_account)))
        both = added(whole(rows.sent), whole(rows.received))
        return Event(
            rows=rows,
            time=rows.time,
            src=rows.src,
            dst=rows.dst,
            user=rows.user,
            kind=ibis.ifelse(
                rows.by_account, first_of(rows.action, rows.protocol), first_of(rows.protocol, rows.action)
            ),
            port=port(rows.port),
            bytes=first_of(whole(rows.total), both),
            outcome=ibis.ifelse(rows.denied, False, outcome(rows.result)),
            filtered=ibis.cases(
                (rows.what.isin(["alert", "signal", "metric", "pipeline_error"]), "an alert or a metric"),
                (rows.unfinished, "an unfinished flow, of which the end is reported too"),
                (rows.src.isnull() | rows.dst.isnull(), "without two hosts"),
                else_=null(),
            ),
            local=rows.local,
        )


def _has(found: dict[str, Any], *names: str) -> bool:
    return any(
        isinstance(part := found.get(name), dict) and part.keys() & {"ip", "address", "domain"}
        for name in names
    )
