"""Zeek's logs, tab-separated with their header or as JSON: who talked to whom."""

from __future__ import annotations

import re
from typing import Any

from entente.logs.formats.base import (
    Column,
    Delimited,
    Event,
    Format,
    Head,
    JsonLines,
    Layout,
    Options,
    Skip,
    Table,
)
from entente.logs.formats.expressions import (
    added,
    either,
    first_of,
    null,
    only,
    outcome,
    port,
    text,
    whole,
    with_time,
)

LOGS = ("conn", "ntlm", "kerberos", "smb_mapping", "rdp", "ssh")
MARKS = {
    "kerberos": ("request_type",),
    "smb_mapping": ("share_type",),
    "ntlm": ("domainname", "server_nb_computer_name", "hostname"),
    "ssh": ("auth_attempts", "hassh", "cipher_alg", "kex_alg"),
    "rdp": ("security_protocol", "cookie", "requested_color_depth"),
}
"""Log -> fields that only it has, for JSON that does not say which log it is."""
UNSET = ("-", "(empty)")
SHARED = (
    "ts",
    "proto",
    "service",
    "orig_bytes",
    "resp_bytes",
    "username",
    "client",
    "conn_state",
    "success",
    "auth_success",
    "label",
    "_path",
    "@stream",
)
ESTABLISHED = ("SF", "S1", "S2", "S3", "RSTO", "RSTR")
UNANSWERED = ("S0", "REJ", "RSTOS0", "RSTRH", "SH", "SHR")
"""conn_state of connections that did and did not come about; OTH was seen too late to tell."""
ENDS = ("orig_h", "resp_h", "resp_p")


class Zeek(Format):
    name = "zeek"
    summary = "Zeek logs, TSV or JSON: conn (also labelled), ntlm, kerberos, smb_mapping, rdp, ssh"
    sample = (
        "#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n#path\tconn\n"
        "#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tservice\torig_bytes\tresp_bytes\tlabel\n"
        "#types\ttime\tstring\taddr\tport\taddr\tport\tenum\tstring\tcount\tcount\tstring\n"
        "1655071198.444458\tCH\t147.32.81.167\t62771\t40.74.108.123\t443\ttcp\tssl\t1596\t4039\tBenign\n"
        "1655071231.749548\tCE\t2001:db8::1\t46563\t2001:db8::2\t3933\ttcp\t-\t-\t-\tMalicious\n"
        "#close\t2022-06-17-00-00-07\n"
    )

    def recognise(self, head: Head) -> str | None:
        if head.first.startswith("#separator") and _header(head):
            return f"Zeek's header, #path {_path(head)}"
        for found in head.objects:
            if "ts" in found and {"id.orig_h", "id_orig_h", "uid"} & found.keys():
                return "JSON with ts and uid or id.orig_h, as Zeek has them"
        return None

    def layout(self, head: Head, options: Options) -> Layout | Skip:
        log = _path(head)
        if log and log not in LOGS:
            return Skip(f"a {log} log, not one of {', '.join(LOGS)}")
        names = [*SHARED, *(field for fields in MARKS.values() for field in fields)]
        if not head.first.startswith("#"):
            paths: dict[str, tuple[str, ...]] = {name: (name,) for name in names}
            for end in ENDS:
                paths |= {f"id.{end}": (f"id.{end}",), f"id_{end}": (f"id_{end}",), f"id/{end}": ("id", end)}
            return JsonLines(paths)
        columns = tuple(_renamed(name) for name in _header(head))
        wanted = {*names, *(f"id.{end}" for end in ENDS)}
        used = tuple(name for name in columns if name in wanted)
        if not {"ts", "id.orig_h", "id.resp_h"} <= set(used):
            return Skip("no ts, id.orig_h and id.resp_h among its fields")
        top = next(
            i for i, line in enumerate(head.lines) if not line.startswith("#") or i + 1 == len(head.lines)
        )
        return Delimited(columns, used=used, delimiter=_separator(head), skip=top, comment="#")

    def event(self, raw: Table, options: Options) -> Event:
        import ibis

        rows = with_time(raw, raw.ts, "s")

        def value(*names: str) -> Column:
            return text(either(rows, *names), *UNSET)

        log = first_of(value("_path"), value("@stream"))
        kind = ibis.cases(
            *(
                (first_of(*(value(f) for f in fields)).notnull(), ibis.literal(name))
                for name, fields in MARKS.items()
            ),
            else_=first_of(value("service"), value("proto")),
        )
        other = log.notnull() & ~log.isin(LOGS)
        return Event(
            rows=rows,
            time=rows.time,
            src=value("id.orig_h", "id_orig_h", "id/orig_h").lower(),
            dst=value("id.resp_h", "id_resp_h", "id/resp_h").lower(),
            user=first_of(value("username"), only(value("client"), value("request_type").notnull())),
            kind=kind,
            port=port(value("id.resp_p", "id_resp_p", "id/resp_p")),
            bytes=added(whole(value("orig_bytes")), whole(value("resp_bytes"))),
            outcome=first_of(
                outcome(value("success", "auth_success")), _connected(value("conn_state"), value("proto"))
            ),
            label=_label(either(rows, "label")),
            filtered=only(ibis.literal("a log without hosts of interest"), other),
            local=rows.local,
        )


def _connected(state: Column, protocol: Column) -> Column:
    """Whether a TCP connection came about; one-way UDP is no failure."""
    import ibis

    return ibis.cases(
        (state.isin(ESTABLISHED), True),
        (state.isin(UNANSWERED) & (protocol == "tcp"), False),
        else_=null("boolean"),
    )


def _label(column: Column) -> Column:
    """Stratosphere's wording; IoT-23 writes it into one column with others."""
    import ibis

    word = column.lower()
    return ibis.cases((word.contains("malicious"), 1), (word.contains("benign"), 0), else_=null("int8"))


def _header(head: Head) -> list[str]:
    separator = _separator(head)
    for line in head.lines:
        if line.startswith("#fields"):
            return line.split(separator)[1:]
    return []


def _separator(head: Head) -> str:
    found = re.match(r"#separator \\x([0-9a-fA-F]{2})", head.first)
    return chr(int(found.group(1), 16)) if found else "\t"


def _renamed(name: str) -> str:
    """Dots for the underscores of some exporters; IoT-23's three columns in one as the label they hold."""
    if name.startswith("id_"):
        return "id." + name[3:]
    return "label" if re.search(r"\slabel\s", name) else name


def _path(head: Head) -> str:
    """Which log this is: by its header or first object, else by the file's name, else nobody knows."""
    for line in head.lines:
        if line.startswith("#path"):
            return line.split(_separator(head))[1]
    for found in head.objects:
        named: Any = found.get("_path", found.get("@stream"))
        if isinstance(named, str):
            return "" if head.name.startswith("eve") else named
    stem = re.match(r"([a-z_0-9]+?)(_[0-9-]+)?\.", head.name.lower())
    known = stem.group(1) if stem else ""
    return known if known in LOGS else ""
