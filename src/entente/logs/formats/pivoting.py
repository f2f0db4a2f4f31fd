"""The Pivoting data set: internal flows of one working day as CSV, hosts as numbers, labelled."""

from __future__ import annotations

from entente.logs.formats.base import Delimited, Event, Format, Head, Options, Table
from entente.logs.formats.expressions import added, either, label, port, text, whole, with_time

NAMES = {
    "time": ("t_start", "ts_start", "time_start", "start_time", "start", "first", "ts", "timestamp", "time"),
    "src": ("src",),
    "dst": ("dst",),
    "port": ("p_dst", "port_dst", "dst_port", "dport"),
    "kind": ("proto", "protocol", "prot"),
    "in": ("b_in", "bytes_in"),
    "out": ("b_out", "bytes_out"),
    "label": ("label", "pivoting", "is_pivoting", "class"),
}
"""Event column -> names it may have in the header."""


class Pivoting(Format):
    name = "pivoting"
    summary = "Pivoting data set: flow CSV with src, dst, p_src, p_dst, b_in, b_out, times and label"
    sample = (
        ",src,dst,p_src,p_dst,b_in,b_out,pkt_in,pkt_out,proto,t_start,t_end,label\n"
        "0,17,204,50211,445,3200,811,12,9,6,1478500000.25,1478500003.5,0\n"
        "1,204,31,50212,22,900,1811,12,9,6,1478500002000,1478500009000,1\n"
    )
    exact_names = True

    def recognise(self, head: Head) -> str | None:
        names = {name.strip() for name in head.first.split(",")}
        if {"src", "dst"} <= names and names & {"p_src", "p_dst"} and names & {"b_in", "b_out"}:
            return "a flow CSV header with p_src, p_dst, b_in and b_out"
        return None

    def layout(self, head: Head, options: Options) -> Delimited:
        role = {name: key for key, names in NAMES.items() for name in names}
        columns: list[str] = []
        for place, name in enumerate(head.first.split(",")):
            wanted = role.get(name.strip().strip('"').lower(), "")
            columns.append(wanted if wanted and wanted not in columns else f"_{place}")
        used = tuple(name for name in columns if name in NAMES)
        if not {"time", "src", "dst"} <= set(used):
            return Delimited(tuple(NAMES), used=tuple(NAMES))
        return Delimited(tuple(columns), used=used, skip=1)

    def event(self, raw: Table, options: Options) -> Event:
        rows = with_time(raw, text(raw.time), "auto")
        return Event(
            rows=rows,
            time=rows.time,
            src=text(rows.src),
            dst=text(rows.dst),
            kind=text(either(rows, "kind")),
            port=port(text(either(rows, "port"))),
            bytes=added(whole(text(either(rows, "in"))), whole(text(either(rows, "out")))),
            label=label(either(rows, "label")),
            word=text(either(rows, "label")),
            local=rows.local,
        )
