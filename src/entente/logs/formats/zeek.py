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
    distinct,
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
"""The logs that are read. All others describe connections that conn.log has already."""
OTHERS = (
    "analyzer", "broker", "capture_loss", "cluster", "conn_long", "conn_summary", "dce_rpc", "dhcp", "dnp3",
    "dns", "dpd", "files", "ftp", "http", "intel", "irc", "known_certs", "known_hosts", "known_modbus",
    "known_services", "ldap", "ldap_search", "loaded_scripts", "modbus", "mqtt_connect", "mqtt_publish",
    "mqtt_subscribe", "mysql", "notice", "notice_alarm", "ntp", "ocsp", "packet_filter", "pe", "postgresql",
    "print", "quic", "radius", "redis", "reporter", "rfb", "signatures", "sip", "smb_cmd", "smb_files",
    "smtp", "snmp", "socks", "software", "ssl", "stats", "syslog", "telemetry", "traceroute", "tunnel",
    "unknown_protocols", "websocket", "weird", "weird_stats", "x509",
)  # fmt: skip
MARKS = {
    "conn": ("conn_state", "orig_pkts", "resp_pkts", "missed_bytes", "orig_bytes", "resp_bytes"),
    "kerberos": ("request_type", "forwardable", "renewable"),
    "smb_mapping": ("share_type", "native_file_system"),
    "ssh": ("auth_attempts", "auth_success", "hassh", "cipher_alg", "kex_alg"),
    "rdp": ("security_protocol", "cookie", "requested_color_depth", "keyboard_layout"),
    "ntlm": ("domainname", "server_nb_computer_name", "server_dns_computer_name", "hostname"),
}
"""Log -> fields that only it has, for rows that do not say which log they are of."""
FOREIGN = ("query", "trans_id", "rcode", "note", "analyzer", "facility", "fuid", "message_id", "is_orig")
"""Fields of other logs that have a `proto` too. Without them a row with a `proto` is a short form of conn."""
UNSET = ("-", "(empty)")
SHARED = ("ts", "proto", "service", "username", "client", "success", "label", "_path", "@stream")
ESTABLISHED = ("SF", "S1", "S2", "S3", "RSTO", "RSTR")
UNANSWERED = ("S0", "REJ", "RSTOS0", "RSTRH", "SH", "SHR")
"""conn_state of connections that did and did not come about; OTH was seen too late to tell."""
ENDS = ("orig_h", "resp_h", "resp_p")
NAMED = "log"
"""Column that holds which log the file says it is."""


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
            return f"Zeek's header, #path {_header_path(head)}"
        named = _name_path(head)
        for found in head.objects:
            if "ts" not in found:
                continue
            if {"id.orig_h", "id_orig_h", "uid"} & found.keys() or isinstance(found.get("id"), dict):
                return "JSON with ts and uid or id.orig_h, as Zeek has them"
            if {"_path", "@stream"} & found.keys() or named:
                return f"JSON with ts, of Zeek's {_row_path(found) or named} log"
        return None

    def layout(self, head: Head, options: Options) -> Layout | Skip:
        tabs = head.first.startswith("#")
        log = _header_path(head) if tabs else _json_path(head)
        if tabs and not log:
            log = _log_of(set(_header(head)))
        if (log or tabs) and log not in LOGS:
            return Skip(f"a {log or 'nameless'} log, not one of {', '.join(LOGS)}")
        given = ((NAMED, log),) if log else ()
        marks = [field for fields in MARKS.values() for field in fields]
        if not tabs:
            paths: dict[str, tuple[str, ...]] = {name: (name,) for name in (*SHARED, *marks, *FOREIGN)}
            keys = {key for found in head.objects for key in found}
            for end in ENDS:
                spelt = {f"id.{end}": (f"id.{end}",), f"id_{end}": (f"id_{end}",), f"id/{end}": ("id", end)}
                # One spelling is common; the others are not looked for in every row.
                paths |= {name: path for name, path in spelt.items() if path[0] in keys} or spelt
            return JsonLines(paths, given)
        columns = distinct(_renamed(name) for name in _header(head))
        wanted = {*SHARED, *marks, *(f"id.{end}" for end in ENDS)}
        used = tuple(name for name in columns if name in wanted)
        if not {"ts", "id.orig_h", "id.resp_h"} <= set(used):
            return Skip("no ts, id.orig_h and id.resp_h among its fields")
        top = next(
            i for i, line in enumerate(head.lines) if not line.startswith("#") or i + 1 == len(head.lines)
        )
        return Delimited(columns, used=used, delimiter=_separator(head), skip=top, comment="#", given=given)

    def event(self, raw: Table, options: Options) -> Event:
        import ibis

        def value(*names: str) -> Column:
            return text(either(raw, *names), *UNSET)

        # Only what is needed goes on: planning a query takes time for every column of every step.
        rows = raw.select(
            _log=_log(raw) if "@stream" in raw.columns else raw[NAMED],
            _ts=raw.ts,
            _src=value("id.orig_h", "id_orig_h", "id/orig_h"),
            _dst=value("id.resp_h", "id_resp_h", "id/resp_h"),
            _port=value("id.resp_p", "id_resp_p", "id/resp_p"),
            _user=value("username"),
            _client=value("client"),
            _service=value("service"),
            _proto=value("proto"),
            _sent=value("orig_bytes"),
            _got=value("resp_bytes"),
            _success=value("success", "auth_success"),
            _state=value("conn_state"),
            _label=either(raw, "label"),
        )
        rows = with_time(rows, rows._ts, "auto")
        client = rows._client.re_replace("/[^/]*$", "")
        return Event(
            rows=rows,
            time=rows.time,
            src=rows._src.lower(),
            dst=rows._dst.lower(),
            # Kerberos adds the realm, ntlm does not; neither tells case apart.
            user=first_of(rows._user, only(client, rows._log == "kerberos")).lower(),
            kind=ibis.ifelse(
                rows._log.isin([log for log in LOGS if log != "conn"]),
                rows._log,
                first_of(rows._service, rows._proto),
            ),
            port=port(rows._port),
            bytes=added(whole(rows._sent), whole(rows._got)),
            outcome=first_of(outcome(rows._success), _connected(rows._state, rows._proto)),
            label=_label(rows._label),
            word=text(rows._label, *UNSET),
            filtered=_unwanted(rows._log),
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


def _log(raw: Table) -> Column:
    """Which log a JSON row is of: as it says itself, by fields that only one log has, as the file says."""
    import ibis

    def has(*names: str) -> Column:
        return first_of(*(raw[name] for name in names if name in raw.columns)).notnull()

    marked = ibis.cases(
        *((has(*fields), ibis.literal(log)) for log, fields in MARKS.items()),
        (raw.client.startswith("SSH-"), ibis.literal("ssh")),
        else_=null(),
    )
    ends = has("id.orig_h", "id_orig_h", "id/orig_h")
    short = only(ibis.literal("conn"), has("proto") & ends & ~has(*FOREIGN))
    return first_of(text(raw._path), text(raw["@stream"]), marked, either(raw, NAMED), short)


def _unwanted(log: Column) -> Column:
    import ibis

    return ibis.cases(
        (log.isin(LOGS), null()),
        (log.isin(OTHERS), "of Zeek's " + log + " log"),
        (log.isnull(), "has fields of no Zeek log that is read"),
        else_="of a Zeek log that is not read",
    )


def _label(column: Column) -> Column:
    """Stratosphere's wording; IoT-23 writes it into one column with others."""
    import ibis

    word = column.lower()
    benign = word.contains("benign") | word.contains("background")
    return ibis.cases((word.contains("malicious"), 1), (benign, 0), else_=null("int8"))


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


def _header_path(head: Head) -> str:
    """Which log a tab-separated file is: by its header, else by its name."""
    for line in head.lines:
        if line.startswith("#path"):
            return line.removeprefix("#path").strip()
    return _name_path(head)


def _json_path(head: Head) -> str:
    """Which log a JSON file is by its name, unless its rows say or show that it is another or several."""
    named = _name_path(head)
    told = {_row_path(found) for found in head.objects} - {""}
    shown = {_log_of(set(found)) for found in head.objects} - {""}
    return named if (told or shown or {named}) == {named} else ""


def _log_of(fields: set[str]) -> str:
    """The log that has these fields."""
    marked = next((log for log, marks in MARKS.items() if fields & set(marks)), "")
    short = (
        "proto" in fields and bool(fields & {"id", "id.orig_h", "id_orig_h"}) and not fields & set(FOREIGN)
    )
    return marked or ("conn" if short else "")


def _row_path(found: dict[str, Any]) -> str:
    path: Any = found.get("_path", found.get("@stream"))
    return path if isinstance(path, str) else ""


NAMES = re.compile(
    "(?:^|[^a-z0-9])(" + "|".join(sorted((*LOGS, *OTHERS), key=len, reverse=True)) + ")(?:[^a-z]|$)"
)


def _name_path(head: Head) -> str:
    """The log that the file is named after, as in conn.log, dns.00:00:00-01:00:00.log.gz, site_http.json."""
    stem = re.sub(r"[.](log|json|jsonl|ndjson|gz|zst|bz2|xz|txt)\b", " ", head.name.lower())
    found = NAMES.search(stem)
    return found.group(1) if found else ""
