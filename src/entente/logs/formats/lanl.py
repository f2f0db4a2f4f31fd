"""LANL "Comprehensive, Multi-Source Cyber-Security Events": auth.txt."""

from __future__ import annotations

from entente.logs.formats.base import Delimited, Event, Format, Head, Options, Table
from entente.logs.formats.expressions import null, only, whole
from entente.logs.schema import MICROSECONDS

COLUMNS = ("time", "src_user", "dst_user", "src", "dst", "package", "logon", "orientation", "result")


class LanlAuth(Format):
    name = "lanl-auth"
    summary = "LANL cyber1 auth.txt: authentications; --labels redteam.txt, --ntlm"
    sample = (
        "1,U101@DOM1,C1862$@DOM1,C1862,C1862,?,?,AuthMap,Success\n"
        "1,U10@DOM1,U10@DOM1,C62,C528,Kerberos,Network,LogOn,Success\n"
        "2,U748@DOM1,U748@DOM1,C17693,C305,NTLM,Network,LogOn,Success\n"
    )
    ntlm = True
    labels = "redteam.txt: time,user,src,dst"
    exact_names = True

    def recognise(self, head: Head) -> str | None:
        for line in head.lines[:20]:
            fields = line.split(",")
            if len(fields) == 9 and fields[0].isdigit() and fields[8] in ("Success", "Fail"):
                return f"9 fields that end in {fields[8]}, as auth.txt has them"
        return None

    def layout(self, head: Head, options: Options) -> Delimited:
        return Delimited(COLUMNS, used=("time", "src_user", "src", "dst", "package", "logon", "result"))

    def event(self, raw: Table, options: Options) -> Event:
        import ibis

        seconds = whole(raw.time)
        other = ~raw["package"].contains("NTLM")
        key = raw.time + "," + raw.src_user + "," + raw.src + "," + raw.dst
        return Event(
            rows=raw,
            time=seconds * MICROSECONDS,
            src=raw.src,
            dst=raw.dst,
            user=raw.src_user,
            kind=raw["package"],
            logon=only(raw.logon, raw.logon != "?"),
            outcome=raw.result.cases(("Success", True), ("Fail", False), else_=null("boolean")),
            filtered=only(ibis.literal("not NTLM"), other) if options.ntlm else None,
            key=key if options.keyed else None,
        )

    def label_keys(self, lines: list[str]) -> list[str]:
        return [line if line.count(",") == 3 else "" for line in lines]
