"""Amazon VPC flow logs, in the default or a custom order of fields."""

from __future__ import annotations

import re

from entente.logs.formats.base import Delimited, Event, Format, Head, Options, Table, distinct
from entente.logs.formats.expressions import either, epoch, only, outcome, port, text, whole

DEFAULT = (
    "version", "account-id", "interface-id", "srcaddr", "dstaddr", "srcport", "dstport", "protocol",
    "packets", "bytes", "start", "end", "action", "log-status",
)  # fmt: skip
USED = ("srcaddr", "dstaddr", "dstport", "protocol", "bytes", "start", "action", "log-status")
ROW = re.compile(r"\d+ (\d{12}|unknown) eni-[0-9a-f]+ \S+ \S+ ")


class VpcFlow(Format):
    name = "vpc-flow"
    summary = "Amazon VPC flow logs, with or without header line"
    sample = (
        "version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start end "
        "action log-status\n"
        "2 123456789010 eni-1235b8ca 10.1.16.9 10.1.16.2 20641 22 6 20 4249 1418530010 1418530070 ACCEPT OK\n"
        "2 123456789010 eni-1235b8ca db8::a db8::b 34892 3389 6 54 8855 1477913708 1477913820 REJECT OK\n"
        "2 123456789010 eni-1235b8ca - - - - - - - 1431280876 1431280934 - NODATA\n"
    )

    def recognise(self, head: Head) -> str | None:
        if {"srcaddr", "dstaddr", "start"} <= set(head.first.split(" ")):
            return "a header line of flow log fields"
        if any(ROW.match(line) for line in head.lines[:20]):
            return "rows with version, account and network interface"
        return None

    def layout(self, head: Head, options: Options) -> Delimited:
        header = distinct(head.first.split(" "))
        named = {"srcaddr", "dstaddr", "start"} <= set(header)
        columns = header if named else DEFAULT
        used = tuple(name for name in USED if name in columns)
        return Delimited(columns, used=used, delimiter=" ", skip=1 if named else 0)

    def event(self, raw: Table, options: Options) -> Event:
        import ibis

        status = either(raw, "log-status")
        return Event(
            rows=raw,
            time=epoch(raw.start),
            src=text(raw.srcaddr, "-").lower(),
            dst=text(raw.dstaddr, "-").lower(),
            kind=text(either(raw, "action"), "-"),
            port=port(either(raw, "dstport")),
            bytes=whole(either(raw, "bytes")),
            outcome=outcome(either(raw, "action")),
            filtered=only(ibis.literal("no data recorded"), status.isin(["NODATA", "SKIPDATA"])),
        )
