"""DARPA OpTC: eCAR events as JSON lines, of which the flows that start are read."""

from __future__ import annotations

import re

from entente.logs.formats.base import Event, Format, Head, JsonLines, Only, Options, Table
from entente.logs.formats.expressions import first_of, null, only, port, text, whole, with_time

PROPERTIES = ("src_ip", "dest_ip", "dest_port", "l4protocol", "direction", "image_path", "size")
NO_HOST = r"^(22[4-9]|23[0-9])\.|^ff[0-9a-f]{2}:|^fe[89ab][0-9a-f]:|^169\.254\.|^255\.255\.255\.255$"
"""Multicast, link-local and broadcast addresses: nobody's, so no node of a graph of hosts."""
OTHER_KIND = "not FLOW/START"
IDENTIFIER = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class OptcEcar(Format):
    name = "optc-ecar"
    summary = "DARPA OpTC eCAR JSON lines: FLOW/START; --labels event ids, --hosts known_addresses.json"
    sample = (
        '{"timestamp":"2019-09-23T09:39:53.331-04:00","id":"fa54c298-dbc2-41ce-aa34-0351bf5a71d0",'
        '"hostname":"SysClient0201.systemia.com","object":"FLOW","action":"START","actorID":"a","objectID":"o",'
        '"principal":"NT\\\\SYSTEM","properties":{"src_ip":"142.20.56.202","dest_ip":"142.20.56.204",'
        '"dest_port":"445","src_port":"50123","l4protocol":"6","direction":"outbound","image_path":"System"}}\n'
        '{"timestamp":1569245993331,"id":"b9af81fb-066c-4cd6-97cb-b284aabd2d4f","hostname":"H","object":"FLOW",'
        '"action":"START","actorID":"a","objectID":"o","principal":"","properties":{"src_ip":"142.20.56.202",'
        '"dest_ip":"8.8.8.8","dest_port":"53","l4protocol":"17","direction":"outbound"}}\n'
        '{"timestamp":1569245993331,"id":"0a4b8c1e-0d6f-4f7e-9a51-3c8a8f1f7c11","hostname":"H","object":"FLOW",'
        '"action":"START","actorID":"a","objectID":"o","principal":"","properties":{"src_ip":"fe80::1",'
        '"dest_ip":"ff02::fb","dest_port":"5353","l4protocol":"17","direction":"outbound"}}\n'
        '{"timestamp":"2019-09-23T09:39:54.000-04:00","id":"ced61d66-e204-4107-9cb0-a9974cd376cf",'
        '"hostname":"H","object":"PROCESS","action":"CREATE","actorID":"a","objectID":"o","properties":{}}\n'
    )
    labels = "event ids, alone or as the first column of a CSV"
    exact_names = True

    def recognise(self, head: Head) -> str | None:
        for found in head.objects:
            if {"object", "action", "properties"} <= found.keys() and found.keys() & {"actorID", "objectID"}:
                return "JSON with object, action and properties, as eCAR has them"
        return None

    def layout(self, head: Head, options: Options) -> JsonLines:
        plain = ("timestamp", "timestamp_ms", "id", "object", "action", "principal")
        paths: dict[str, tuple[str, ...]] = {name: (name,) for name in plain}
        # Nine of ten records are of other kinds; they need not be parsed.
        only = Only(("FLOW", "START"), OTHER_KIND)
        return JsonLines(paths | {name: ("properties", name) for name in PROPERTIES}, only=only)

    def event(self, raw: Table, options: Options) -> Event:
        import ibis

        rows = with_time(raw, first_of(raw.timestamp, raw.timestamp_ms), "ms")
        starts = (rows.object == "FLOW") & (rows.action == "START")
        src, dst = text(rows.src_ip, "-").lower(), text(rows.dest_ip, "-").lower()
        nobody = src.re_search(NO_HOST) | dst.re_search(NO_HOST)
        image = rows.image_path.re_extract(r"([^\\/]+)$", 1).nullif("")
        protocol = ibis.cases((rows.l4protocol == "6", "tcp"), (rows.l4protocol == "17", "udp"), else_=null())
        return Event(
            rows=rows,
            time=rows.time,
            src=src,
            dst=dst,
            user=text(rows.principal),
            kind=first_of(image, protocol),
            port=port(rows.dest_port),
            bytes=whole(rows["size"]),
            filtered=first_of(
                only(ibis.literal(OTHER_KIND), rows.object.notnull() & ~starts),
                only(ibis.literal("multicast, link-local or broadcast address"), nobody),
            ),
            local=rows.local,
            key=rows.id.lower() if options.keyed else None,
        )

    def label_keys(self, lines: list[str]) -> list[str]:
        first = [line.split(",", 1)[0].strip().strip('"').lower() for line in lines]
        return [key if IDENTIFIER.fullmatch(key) else "" for key in first]
