"""Logs as collectors and SIEMs hand them out: wrapped, in arrays, under other names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from entente.errors import LogError
from entente.logs.events import load_events
from entente.logs.formats import formats
from entente.logs.ingest import Request, ingest
from entente.logs.manifest import Manifest

TIME = 1_596_729_372_198_000
CONN = {
    "ts": TIME / 1e6, "uid": "C1", "id.orig_h": "10.0.0.1", "id.orig_p": 5, "id.resp_h": "10.0.0.2",
    "id.resp_p": 445, "proto": "tcp", "conn_state": "SF",
}  # fmt: skip
LOGON = {
    "EventID": 4624, "TimeGenerated": "2020-08-06T15:56:12.198Z", "Computer": "DC.shire.local",
    "IpAddress": "10.0.0.1", "WorkstationName": "-", "TargetUserName": "anna", "LogonType": 3,
}  # fmt: skip


@pytest.fixture(params=["duckdb", "polars"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def read(path: Path, engine: str = "duckdb") -> tuple[Manifest, list[dict[str, Any]]]:
    manifest = ingest(Request([str(path)], path.with_name("events"), engine=engine))
    return manifest, load_events(path.with_name("events")).to_pylist()


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def ends(event: dict[str, Any]) -> tuple[Any, ...]:
    return event["time"], event["src"], event["dst"]


WRAPPED: dict[str, Callable[[Any], dict[str, Any]]] = {
    "Elasticsearch": lambda row: {"_index": "zeek-2020", "_id": "1", "_score": 1.0, "_source": row},
    "Splunk export": lambda row: {"preview": False, "offset": 3, "result": {**row, "host": "sensor"}},
    "Splunk export, raw only": lambda row: {"preview": False, "result": {"_raw": json.dumps(row)}},
    "Splunk raw": lambda row: {"_time": "2020", "_raw": json.dumps(row)},
    "Splunk HTTP collector": lambda row: {"sourcetype": "bro:conn:json", "event": row},
    "Filebeat": lambda row: {"@timestamp": "2020-08-06T16:00:00Z", "message": json.dumps(row), "agent": {}},
    "Filebeat in Elasticsearch": lambda row: {"_source": {"message": json.dumps(row), "agent": {}}},
    "ECS original": lambda row: {"event": {"original": json.dumps(row)}, "agent": {}},
    "a container's log": lambda row: {"log": json.dumps(row) + "\n", "stream": "stdout"},
}


@pytest.mark.parametrize("wrapping", WRAPPED)
def test_a_record_is_found_in_what_it_is_wrapped_in(tmp_path: Path, wrapping: str, engine: str) -> None:
    wrap = WRAPPED[wrapping]
    (tmp_path / "x.json").write_text(
        json.dumps(wrap(CONN))
        + "\n"
        + json.dumps({"something": "else"})
        + "\n"
        + json.dumps(wrap(CONN))
        + "\n"
    )
    manifest, events = read(tmp_path / "x.json", engine)
    assert [ends(event) for event in events] == [(TIME, "10.0.0.1", "10.0.0.2")] * 2
    assert manifest.bad == {"not a JSON object": 1}


SHAPES = {
    "array": lambda rows: json.dumps(rows),
    "array over lines": lambda rows: json.dumps(rows, indent=2),
    "array, one row per line": lambda rows: "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n",
    "objects over lines": lambda rows: "\n".join(json.dumps(row, indent=4) for row in rows),
    "answer of Elasticsearch": lambda rows: json.dumps(
        {"took": 3, "_shards": {"total": 1}, "hits": {"total": {}, "hits": [{"_source": r} for r in rows]}}
    ),
    "answer of Splunk": lambda rows: json.dumps({"preview": False, "messages": [], "results": rows}),
    "records of Azure": lambda rows: json.dumps({"records": rows}, indent=1),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("row", [CONN, LOGON], ids=["zeek", "windows"])
def test_json_need_not_be_one_object_per_line(tmp_path: Path, shape: str, row: dict[str, Any]) -> None:
    rows = [row] * 40
    (tmp_path / "export.json").write_text(SHAPES[shape](rows))
    manifest, events = read(tmp_path / "export.json")
    assert (len(events), manifest.seen, dict(manifest.bad)) == (40, 40, {})
    assert {ends(event) for event in events} == {(TIME, "10.0.0.1", events[0]["dst"])}


def test_a_large_array_in_one_line_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "export.json").write_text(json.dumps([CONN] * 5_000))
    assert len(read(tmp_path / "export.json")[1]) == 5_000


def test_a_bad_element_is_named_by_its_number(tmp_path: Path) -> None:
    (tmp_path / "export.json").write_text(json.dumps([CONN, {**CONN, "ts": "never"}, CONN]))
    manifest, _ = read(tmp_path / "export.json")
    assert manifest.bad == {"no readable time": 1}
    (entry,) = map(json.loads, (tmp_path / "events/quarantine/rows.jsonl").read_text().splitlines())
    assert entry["line"] == 2


def test_an_array_of_anything_is_still_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps([{"a": 1}] * 3))
    with pytest.raises(LogError, match="no known format"):
        read(tmp_path / "x.json")


LOGONS = {
    "Sentinel": LOGON,
    "NXLog": {"EventTime": "2020-08-06T11:56:12.198-04:00", "Hostname": "DC.shire.local", "EventID": 4624,
              "SourceName": "Microsoft-Windows-Security-Auditing", "IpAddress": "10.0.0.1",
              "TargetUserName": "anna", "LogonType": "3"},
    "Winlogbeat": {"@timestamp": "2020-08-06T15:56:12.198Z", "event": {"code": "4624", "outcome": "success"},
                   "winlog": {"channel": "Security", "event_id": "4624", "computer_name": "DC.shire.local",
                              "event_data": {"TargetUserName": "anna", "LogonType": "3"}},
                   "host": {"name": "DC"}, "source": {"ip": "10.0.0.1"}, "ecs": {"version": "8.0"}},
    "Splunk": {"_time": "2020-08-06T15:56:12.198+00:00", "EventCode": "4624",
               "ComputerName": "DC.shire.local", "LogName": "Security", "Logon_Type": "3",
               "Source_Network_Address": "10.0.0.1",
               "TargetUserName": "anna"},
    "PowerShell": {"TimeCreated": "/Date(1596729372198)/", "EventID": 4624, "MachineName": "DC.shire.local",
                   "IpAddress": "10.0.0.1", "TargetUserName": "anna", "LogonType": 3},
}  # fmt: skip


@pytest.mark.parametrize("collector", LOGONS)
def test_a_logon_is_the_same_event_from_every_collector(tmp_path: Path, collector: str, engine: str) -> None:
    _, (event,) = read(write(tmp_path / "x.json", LOGONS[collector]), engine)
    assert ends(event) == (TIME, "10.0.0.1", "dc")
    assert (event["kind"], event["user"], event["logon"], event["outcome"]) == (
        "4624",
        "anna",
        "Network",
        True,
    )


def test_only_the_clock_on_the_wall_follows_the_time_zone(tmp_path: Path) -> None:
    bare = {"EventID": 4624, "Computer": "dc", "IpAddress": "10.0.0.1"}
    rows = [{**bare, "UtcTime": "2020-08-06 15:56:12.198"}, {**bare, "EventTime": "2020-08-06 17:56:12.198"}]
    path = write(tmp_path / "x.json", *rows)
    ingest(Request([str(path)], tmp_path / "events", timezone="Europe/Prague"))
    assert load_events(tmp_path / "events")["time"].to_pylist() == [TIME, TIME]


def test_a_failed_ticket_is_a_failure(tmp_path: Path, engine: str) -> None:
    _, (event,) = read(write(tmp_path / "x.json", {**LOGON, "EventID": 4771, "Status": "0x18"}), engine)
    assert (event["src"], event["dst"], event["outcome"]) == ("10.0.0.1", "dc", False)


SYSMON = {
    "Channel": "Microsoft-Windows-Sysmon/Operational", "UtcTime": "2020-08-06 15:56:12.198",
    "Computer": "WS5.shire.local", "User": "SHIRE\\anna",
}  # fmt: skip


def test_sysmons_connections_and_commands_are_read_where_they_name_a_host(
    tmp_path: Path, engine: str
) -> None:
    link = {**SYSMON, "EventID": 3, "SourceIp": "10.0.0.5", "DestinationIp": "10.0.0.6",
            "DestinationPort": "445", "Protocol": "tcp", "SourceHostname": "-"}  # fmt: skip
    command = {**SYSMON, "EventID": 1}
    rows = [
        {**link, "Initiated": "true"},
        {**link, "Initiated": "false"},
        {**link, "Initiated": "true", "DestinationIp": "127.0.0.1"},
        {**link, "Initiated": "false", "Protocol": "udp", "SourcePort": "53", "DestinationPort": "50123"},
        {**command, "CommandLine": 'wmic /node:"SRV1.shire.local" process call create calc'},
        {**command, "CommandLine": "net use \\\\srv2\\c$ /user:anna"},
        {**command, "CommandLine": "powershell Invoke-Command -ComputerName WS6 { whoami }"},
        {**command, "CommandLine": "C:\\\\Windows\\\\notepad.exe \\\\.\\pipe\\x \\\\localhost\\c$"},
        {**command, "CommandLine": "regsvr32 /s evil.dll"},
        {**command, "EventID": 7},
        {**LOGON, "EventID": 3, "Channel": "Security"},
    ]
    manifest, events = read(write(tmp_path / "x.json", *rows), engine)
    assert [(e["src"], e["dst"], e["kind"], e["port"], e["user"]) for e in events] == [
        ("ws5", "10.0.0.6", "sysmon-3", 445, "anna"),
        ("10.0.0.5", "ws5", "sysmon-3", 445, "anna"),
        ("10.0.0.6", "ws5", "sysmon-3", 53, "anna"),
        ("ws5", "srv1", "sysmon-1", None, "anna"),
        ("ws5", "srv2", "sysmon-1", None, "anna"),
        ("ws5", "ws6", "sysmon-1", None, "anna"),
    ]
    assert manifest.filtered == {
        "another event id": 2,
        "process that names no other host": 2,
        "connection of the host with itself": 1,
    }


def test_ecs_events_with_two_hosts_are_read_and_others_left_out(tmp_path: Path, engine: str) -> None:
    sample = [json.loads(line) for line in formats()["ecs"].sample.splitlines()]
    flow = sample[0]
    rows = [
        *sample,
        {**flow, "flow": {"final": False}},
        {**flow, "event": {**flow["event"], "kind": "alert"}},
        {**flow, "event": {**flow["event"], "type": ["connection", "denied"]}},
    ]
    manifest, events = read(write(tmp_path / "x.json", *rows), engine)
    assert [
        (e["src"], e["dst"], e["kind"], e["port"], e["bytes"], e["user"], e["outcome"]) for e in events
    ] == [
        ("10.0.0.1", "10.0.0.2", "smb", 445, 1000, None, None),
        ("10.0.0.3", "srv-1", "ssh_login", None, None, "anna", False),
        ("10.0.0.1", "10.0.0.2", "smb", 445, 1000, None, False),
    ]
    assert events[0]["time"] == 1_709_280_000_250_000
    assert not manifest.bad
    assert sum(manifest.filtered.values()) == 3


def test_winlogbeat_in_elasticsearch_is_windows_and_not_ecs(tmp_path: Path) -> None:
    path = write(tmp_path / "x.json", {"_index": "winlogbeat", "_source": LOGONS["Winlogbeat"]})
    manifest, (event,) = read(path)
    assert [source.format for source in manifest.sources] == ["windows"]
    assert ends(event) == (TIME, "10.0.0.1", "dc")
