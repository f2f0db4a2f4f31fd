"""A Zeek folder as Zeek leaves it: every log told apart by its own words, its fields or its name."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from entente.errors import LogError
from entente.logs.events import load_events
from entente.logs.formats.zeek import LOGS
from entente.logs.ingest import Request, ingest
from entente.logs.manifest import Manifest

FOUR = {
    "uid": "CAbc1",
    "id.orig_h": "10.0.0.1",
    "id.orig_p": 50123,
    "id.resp_h": "10.0.0.2",
    "id.resp_p": 445,
}
FOLDER: dict[str, dict[str, Any]] = {
    "conn": FOUR | {"proto": "tcp", "service": "smb", "duration": 0.5, "orig_bytes": 10, "resp_bytes": 5,
                    "conn_state": "SF", "missed_bytes": 0, "orig_pkts": 3, "resp_pkts": 2},
    "ntlm": FOUR | {"username": "anna", "hostname": "WS1", "domainname": "CORP", "success": True},
    "kerberos": FOUR | {"request_type": "AS", "client": "anna/CORP", "service": "krb", "success": True},
    "smb_mapping": FOUR | {"path": "\\\\srv\\c$", "share_type": "DISK"},
    "rdp": FOUR | {"cookie": "anna", "security_protocol": "HYBRID", "cert_count": 0},
    "ssh": FOUR | {"version": 2, "auth_attempts": 1, "client": "SSH-2.0-OpenSSH_9", "server": "SSH-2.0-x"},
    "dns": FOUR | {"proto": "udp", "trans_id": 7, "query": "example.org", "qtype_name": "A", "rcode": 0},
    "http": FOUR | {"trans_depth": 1, "method": "GET", "host": "srv", "uri": "/", "username": "anna"},
    "ssl": FOUR | {"version": "TLSv13", "cipher": "TLS_AES", "server_name": "srv", "established": True},
    "weird": FOUR | {"name": "bad_TCP_checksum", "notice": False, "peer": "zeek"},
    "notice": FOUR | {"proto": "tcp", "note": "Scan::Port_Scan", "msg": "scanned", "src": "10.0.0.1"},
    "files": FOUR | {"fuid": "F1", "source": "HTTP", "duration": 0.1, "local_orig": True},
    "x509": {"fingerprint": "ab", "certificate.version": 3},
    "dhcp": {"uids": ["C1"], "client_addr": "10.0.0.1", "assigned_addr": "10.0.0.1", "host_name": "ws1"},
    "dce_rpc": FOUR | {"rtt": 0.1, "endpoint": "svcctl", "operation": "CreateServiceW"},
    "smb_files": FOUR | {"action": "SMB::FILE_OPEN", "path": "\\\\srv\\c$", "name": "a.exe", "size": 1},
    "ftp": FOUR | {"user": "anna", "command": "RETR", "reply_code": 226},
    "smtp": FOUR | {"trans_depth": 1, "helo": "mx", "mailfrom": "a@b"},
    "snmp": FOUR | {"duration": 0.0, "version": "2c", "community": "public"},
    "sip": FOUR | {"trans_depth": 0, "method": "INVITE"},
    "radius": FOUR | {"username": "anna", "mac": "aa", "result": "success"},
    "ntp": FOUR | {"version": 4, "mode": 3, "stratum": 0},
    "ldap": FOUR | {"proto": "tcp", "message_id": 1, "version": 3, "opcode": "bind"},
    "ldap_search": FOUR | {"proto": "tcp", "message_id": 2, "scope": "tree"},
    "quic": FOUR | {"version": "1", "client_initial_dcid": "aa", "history": "ISi"},
    "syslog": FOUR | {"proto": "udp", "facility": "AUTH", "severity": "INFO", "message": "hi"},
    "tunnel": FOUR | {"tunnel_type": "Tunnel::TEREDO", "action": "Tunnel::DISCOVER"},
    "dpd": FOUR | {"proto": "tcp", "analyzer": "HTTP", "failure_reason": "no"},
    "socks": FOUR | {"version": 5, "user": "anna", "status": "succeeded"},
    "mysql": FOUR | {"cmd": "query", "arg": "select 1", "success": True},
    "software": {"host": "10.0.0.1", "software_type": "HTTP::BROWSER", "name": "curl"},
    "known_hosts": {"host": "10.0.0.1"},
    "known_services": {"host": "10.0.0.1", "port_num": 22, "port_proto": "tcp", "service": ["SSH"]},
    "pe": {"id": "F1", "machine": "I386", "is_exe": True},
    "traceroute": {"src": "10.0.0.1", "dst": "10.0.0.2", "proto": "udp"},
    "capture_loss": {"ts_delta": 900.0, "peer": "zeek", "gaps": 0, "acks": 5, "percent_lost": 0.0},
    "stats": {"peer": "zeek", "mem": 100, "pkts_proc": 3},
    "reporter": {"level": "Reporter::INFO", "message": "hi", "location": ""},
    "loaded_scripts": {"name": "/opt/zeek/base/init.zeek"},
    "intel": FOUR | {"seen.indicator": "10.0.0.2", "seen.where": "Conn::IN_RESP", "sources": ["x"]},
}  # fmt: skip
"""Log -> the fields of a row of it, as Zeek names them."""


def as_json(log: str, row: int) -> dict[str, Any]:
    return {"ts": 1_700_000_000.25 + row, **FOLDER[log]}


def as_tabs(log: str, rows: int) -> str:
    names = ["ts", *FOLDER[log]]

    def cell(value: Any) -> str:
        return {True: "T", False: "F"}.get(value, str(value)) if isinstance(value, bool) else str(value)

    lines = ["\t".join(cell(as_json(log, row)[name]) for name in names) for row in range(rows)]
    return (
        "#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n"
        f"#path\t{log}\n#open\t2023-11-14-00-00-00\n#fields\t"
        + "\t".join(names)
        + "\n#types\t"
        + "\t".join("string" for _ in names)
        + "\n"
        + "\n".join(lines)
        + "\n#close\t2023-11-14-01-00-00\n"
    )


def read(source: Path, out: Path, format: str = "auto") -> Manifest:
    return ingest(Request([str(source)], out, format))


def kinds(out: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    for kind in load_events(out, ["kind"])["kind"].to_pylist():
        counts[kind] = counts.get(kind, 0) + 1
    return counts


READ = {"smb": 3, "ntlm": 3, "kerberos": 3, "smb_mapping": 3, "rdp": 3, "ssh": 3}


@pytest.mark.parametrize("naming", ["{}.log", "{}.00:00:00-01:00:00.log", "site2_{}_20231114.json"])
@pytest.mark.parametrize("own", [None, "_path", "@stream"])
def test_of_a_json_folder_only_the_logs_that_are_read_become_events(
    tmp_path: Path, naming: str, own: str | None
) -> None:
    folder = tmp_path / "zeek"
    folder.mkdir()
    for log in FOLDER:
        rows = [as_json(log, i) | ({own: log} if own else {}) for i in range(3)]
        (folder / naming.format(log)).write_text("".join(json.dumps(row) + "\n" for row in rows))
    manifest = read(folder, tmp_path / "events")
    assert kinds(tmp_path / "events") == READ
    assert not manifest.bad
    assert len(manifest.skipped) == len(FOLDER) - len(LOGS)


def test_of_a_json_folder_with_names_that_say_nothing_the_fields_decide(tmp_path: Path) -> None:
    folder = tmp_path / "zeek"
    folder.mkdir()
    for number, log in enumerate(FOLDER):
        rows = [as_json(log, i) for i in range(3)]
        (folder / f"part{number}.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    manifest = read(folder, tmp_path / "events")
    assert kinds(tmp_path / "events") == READ
    assert not manifest.bad


@pytest.mark.parametrize("naming", ["{}.log", "x{}x"])
def test_of_a_tab_separated_folder_only_the_logs_that_are_read_become_events(
    tmp_path: Path, naming: str
) -> None:
    folder = tmp_path / "zeek"
    folder.mkdir()
    for log in FOLDER:
        (folder / naming.format(log)).write_text(as_tabs(log, 3))
    manifest = read(folder, tmp_path / "events")
    assert kinds(tmp_path / "events") == READ
    assert not manifest.bad
    assert sum("log, not one of" in reason for reason in manifest.skipped.values()) == len(FOLDER) - len(LOGS)


@pytest.mark.parametrize("own", [None, "_path"])
def test_all_logs_in_one_json_stream_are_told_apart_row_by_row(tmp_path: Path, own: str | None) -> None:
    order = ["dns", "http", *FOLDER]
    rows = [
        as_json(log, i) | ({own: log} if own else {})
        for i in range(3)
        for log in order
        if "uid" in FOLDER[log]
    ]
    (tmp_path / "stream.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    manifest = read(tmp_path / "stream.json", tmp_path / "events")
    assert kinds(tmp_path / "events") == READ
    assert not manifest.bad
    assert sum(manifest.filtered.values()) == len(rows) - 18
    if own:
        assert manifest.filtered["of Zeek's dns log"] == 6


def test_the_name_of_a_tab_separated_log_counts_even_where_all_its_fields_are_unset(tmp_path: Path) -> None:
    (tmp_path / "ntlm.log").write_text(
        "#separator \\x09\n#path\tntlm\n#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\t"
        "username\thostname\tdomainname\tsuccess\n1.5\tC1\t10.0.0.1\t5\t10.0.0.2\t445\t-\t-\t-\t-\n"
    )
    read(tmp_path / "ntlm.log", tmp_path / "events")
    assert kinds(tmp_path / "events") == {"ntlm": 1}


def test_a_header_without_path_is_judged_by_its_fields(tmp_path: Path) -> None:
    for log in ("conn", "dns"):
        (tmp_path / f"{log[::-1]}.txt").write_text(as_tabs(log, 2).replace(f"#path\t{log}\n", ""))
    read(tmp_path / "nnoc.txt", tmp_path / "events")
    assert kinds(tmp_path / "events") == {"smb": 2}
    with pytest.raises(LogError, match="nameless"):
        read(tmp_path / "snd.txt", tmp_path / "events")


def test_a_dns_log_alone_is_refused_with_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "dns.log").write_text(json.dumps(as_json("dns", 0)) + "\n")
    with pytest.raises(LogError, match="a dns log"):
        read(tmp_path / "dns.log", tmp_path / "events")
    (tmp_path / "dns.log").rename(tmp_path / "some.json")
    with pytest.raises(LogError, match="fields of no Zeek log that is read"):
        read(tmp_path / "some.json", tmp_path / "events")


def test_a_conn_log_cut_down_to_its_hosts_is_still_read(tmp_path: Path) -> None:
    row = {"ts": 1.5, "id": {"orig_h": "10.0.0.1", "resp_h": "10.0.0.2", "resp_p": 22}, "proto": "tcp"}
    (tmp_path / "short.json.gz").write_bytes(gzip.compress(json.dumps(row).encode()))
    read(tmp_path / "short.json.gz", tmp_path / "events")
    assert kinds(tmp_path / "events") == {"tcp": 1}


@pytest.mark.parametrize(
    "ts", [1_700_000_000.25, 1_700_000_000_250, 1_700_000_000_250_000, 1_700_000_000_250_000_000,
           "2023-11-14T22:13:20.250000Z", "1700000000.250000", 1_700_000_000_250.0]
)  # fmt: skip
@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_times_may_be_seconds_or_smaller_units(tmp_path: Path, ts: Any, engine: str) -> None:
    (tmp_path / "conn.log").write_text(json.dumps(as_json("conn", 0) | {"ts": ts}) + "\n")
    ingest(Request([str(tmp_path / "conn.log")], tmp_path / "events", engine=engine))
    assert load_events(tmp_path / "events")["time"].to_pylist() == [1_700_000_000_250_000]
