"""NetFlow as text: Argus .binetflow and nfdump's CSV."""

from __future__ import annotations

from entente.logs.formats.base import Column, Delimited, Event, Format, Head, Options, Skip, Table
from entente.logs.formats.expressions import added, either, null, port, text, whole, with_time

NAMES = {
    "time": ("StartTime", "ts", "firstSeen", "first"),
    "src": ("SrcAddr", "sa", "srcAddr", "srcaddr"),
    "dst": ("DstAddr", "da", "dstAddr", "dstaddr"),
    "port": ("Dport", "dp", "dstPort", "dstport"),
    "kind": ("Proto", "pr", "proto"),
    "total": ("TotBytes", "byt", "bytes"),
    "in": ("ibyt",),
    "out": ("obyt",),
    "state": ("State",),
    "label": ("Label", "label"),
}
"""Event column -> names in Argus's, nfdump 1.6's and nfdump 1.7's header."""


class NetFlow(Format):
    name = "netflow"
    summary = "Argus .binetflow (with its labels) and nfdump -o csv"
    sample = (
        "StartTime,Dur,Proto,SrcAddr,Sport,Dir,DstAddr,Dport,State,sTos,dTos,TotPkts,TotBytes,SrcBytes,Label\n"
        "2019/04/04 16:23:00.325010,0.027947,udp,10.8.0.69,48427,  <->,8.8.8.8,53,CON,0,0,2,142,63,\n"
        "2019/04/04 16:23:00.345898,0.1,tcp,10.8.0.69,4,   ->,10.8.0.1,445,CON,0,0,2,176,68,From-Botnet-V1\n"
        "2019/04/04 16:23:01.345898,0.1,icmp,fe80::1,0x0008,  <->,fe80::2,0x7208,ECO,0,0,2,,68,Background\n"
    )

    def recognise(self, head: Head) -> str | None:
        names = set(head.first.split(","))
        if {"StartTime", "SrcAddr", "DstAddr"} <= names:
            return "the header of an Argus binetflow file"
        if {"ts", "sa", "da"} <= names or {"firstSeen", "srcAddr", "dstAddr"} <= names:
            return "the header of nfdump's CSV"
        return None

    def layout(self, head: Head, options: Options) -> Delimited | Skip:
        header = head.first.split(",")
        role = {name: key for key, names in NAMES.items() for name in names}
        columns = []
        for place, name in enumerate(header):
            wanted = role.get(name.strip(), "")
            columns.append(wanted if wanted and wanted not in columns else f"_{place}")
        used = tuple(name for name in columns if name in NAMES)
        # A file of another kind told to be this one still gets a layout, so that its rows are counted as bad.
        needed = [name for name in ("time", "src", "dst") if name not in used]
        if needed:
            return Delimited(tuple(NAMES), used=tuple(NAMES))
        return Delimited(tuple(columns), used=used, skip=1, end="Summary")

    def event(self, raw: Table, options: Options) -> Event:
        rows = with_time(raw, text(raw.time), "s")
        total = whole(text(either(rows, "total")))
        inbound, outbound = (whole(text(either(rows, name))) for name in ("in", "out"))
        return Event(
            rows=rows,
            time=rows.time,
            src=text(rows.src, "-").lower(),
            dst=text(rows.dst, "-").lower(),
            kind=text(either(rows, "kind")).lower(),
            port=port(text(either(rows, "port"))),
            bytes=added(total, inbound, outbound),
            outcome=_connected(text(either(rows, "kind")).lower(), text(either(rows, "state"))),
            label=_label(either(rows, "label")),
            word=text(either(rows, "label")),
            local=rows.local,
        )


def _connected(protocol: Column, state: Column) -> Column:
    """Argus writes the TCP flags of both sides, as in FSPA_FSPA; a refusal or silence has no S behind."""
    import ibis

    return ibis.cases(
        (protocol != "tcp", null("boolean")),
        (state.re_search("^[A-Z]*_[A-Z]*S"), True),
        (state.re_search("^[A-Z]*S[A-Z]*_"), False),
        else_=null("boolean"),
    )


def _label(column: Column) -> Column:
    """CTU's wording: botnet and malicious flows against normal and background ones."""
    import ibis

    word = column.lower()
    return ibis.cases(
        (word.contains("botnet") | word.contains("malicious") | word.contains("attack"), 1),
        (word.contains("normal") | word.contains("background") | word.contains("benign"), 0),
        else_=null("int8"),
    )
