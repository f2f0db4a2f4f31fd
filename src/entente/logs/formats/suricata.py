"""Suricata's eve.json: its flow records."""

from __future__ import annotations

from entente.logs.formats.base import Column, Event, Format, Head, JsonLines, Options, Table
from entente.logs.formats.expressions import added, first_of, null, only, port, text, whole, with_time


class SuricataEve(Format):
    name = "suricata-eve"
    summary = "Suricata eve.json: flow records"
    sample = (
        '{"timestamp":"2021-06-06T16:40:00.000001+0200","flow_id":1,"event_type":"flow","src_ip":"192.168.1.132",'
        '"src_port":1900,"dest_ip":"192.168.1.129","dest_port":445,"proto":"TCP","app_proto":"smb","flow":'
        '{"bytes_toserver":4056,"bytes_toclient":10,"start":"2021-06-06T16:38:55.855844+0200"}}\n'
        '{"timestamp":"2021-06-06T16:40:01.000001+0200","flow_id":2,"event_type":"flow","src_ip":"fe80::1",'
        '"dest_ip":"ff02::16","proto":"IPv6-ICMP","icmp_type":143,"flow":{"bytes_toserver":90,"bytes_toclient":0}}\n'
        '{"timestamp":"2021-06-06T16:40:02.000001+0200","event_type":"dns","src_ip":"192.168.1.129","src_port":5,'
        '"dest_ip":"192.168.1.1","dest_port":53,"proto":"UDP","dns":{"type":"query"}}\n'
    )

    def recognise(self, head: Head) -> str | None:
        for found in head.objects:
            if {"event_type", "timestamp"} <= found.keys() and found.keys() & {"flow_id", "src_ip", "stats"}:
                return "JSON with event_type and timestamp, as eve.json has them"
        return None

    def layout(self, head: Head, options: Options) -> JsonLines:
        plain = ("timestamp", "event_type", "src_ip", "dest_ip", "dest_port", "proto", "app_proto")
        paths: dict[str, tuple[str, ...]] = {name: (name,) for name in plain}
        flow = ("start", "state", "bytes_toserver", "bytes_toclient")
        paths |= {"tcp_flags_tc": ("tcp", "tcp_flags_tc")}
        return JsonLines(paths | {name: ("flow", name) for name in flow})

    def event(self, raw: Table, options: Options) -> Event:
        import ibis

        rows = with_time(raw, first_of(raw.start, raw.timestamp))
        other = rows.event_type.notnull() & (rows.event_type != "flow")
        return Event(
            rows=rows,
            time=rows.time,
            src=text(rows.src_ip).lower(),
            dst=text(rows.dest_ip).lower(),
            kind=first_of(text(rows.app_proto, "failed"), rows.proto.lower()),
            port=port(rows.dest_port),
            bytes=added(whole(rows.bytes_toserver), whole(rows.bytes_toclient)),
            outcome=_connected(rows),
            filtered=only(ibis.literal("not a flow record"), other),
            local=rows.local,
        )


def _connected(rows: Table) -> Column:
    """Whether a TCP flow came about: the other side must have sent a SYN, which a refusal (RST) does not.

    Without flags, a flow that stays `new` was never answered.
    """
    import ibis

    tcp = rows.proto.upper() == "TCP"
    flags = text(rows.tcp_flags_tc).lower()
    return ibis.cases(
        (~tcp, null("boolean")),
        (flags.notnull(), flags.re_search("[2367abef]$")),
        (rows.state.isin(["established", "closed"]), True),
        (rows.state == "new", False),
        else_=null("boolean"),
    )
