"""What each format says about success and about the type of a logon."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from entente.logs.events import load_events
from entente.logs.ingest import Request, ingest

Row = tuple[bool | None, str | None]


def read(text: str, name: str, tmp_path: Path, engine: str = "duckdb") -> list[Row]:
    (tmp_path / name).write_text(text)
    ingest(Request([str(tmp_path / name)], tmp_path / "events", engine=engine))
    table = load_events(tmp_path / "events", ["outcome", "logon"])
    return list(zip(table["outcome"].to_pylist(), table["logon"].to_pylist(), strict=True))


def lines(*rows: dict[str, object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def windows(event: int, **data: object) -> dict[str, object]:
    place = {"TargetServerName": "WS6"} if event == 4648 else {"IpAddress": "10.0.0.5"}
    shown = {
        "EventID": event,
        "@timestamp": "2020-08-06T15:56:12.198Z",
        "Hostname": "DC",
        "Channel": "Security",
    }
    return {**shown, **place, "TargetUserName": "frodo", **data}


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_lanl_keeps_result_and_logon_type(tmp_path: Path, engine: str) -> None:
    text = (
        "1,U1@D,U1@D,C1,C2,NTLM,Network,LogOn,Success\n"
        "2,U1@D,U1@D,C1,C2,Kerberos,RemoteInteractive,LogOn,Fail\n"
        "3,U1@D,U1@D,C1,C2,?,?,AuthMap,Success\n"
    )
    assert read(text, "auth.txt", tmp_path, engine) == [
        (True, "Network"),
        (False, "RemoteInteractive"),
        (True, None),
    ]


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_windows_outcome_is_the_event_id_or_the_status(tmp_path: Path, engine: str) -> None:
    text = lines(
        windows(4624, LogonType=3),
        windows(4624, LogonType="10"),
        windows(4625, LogonType=3, Status="0xC000006D"),
        windows(4769, Status="0x0"),
        windows(4769, Status="0x1b"),
        windows(4768),
        windows(4648),
    )
    assert read(text, "security.json", tmp_path, engine) == [
        (True, "Network"),
        (True, "RemoteInteractive"),
        (False, "Network"),
        (True, None),
        (False, None),
        (None, None),
        (None, None),
    ]


def test_zeek_connections_succeed_when_established_and_logons_when_the_log_says_so(tmp_path: Path) -> None:
    def conn(state: str, proto: str = "tcp") -> dict[str, object]:
        ends = {"id.orig_h": "10.0.0.1", "id.resp_h": "10.0.0.2", "id.resp_p": 445}
        return {"ts": 1.0, "uid": "C", **ends, "proto": proto, "conn_state": state}

    text = lines(conn("SF"), conn("S0"), conn("REJ"), conn("OTH"), conn("S0", "udp"), conn("SF", "udp"))
    found = [outcome for outcome, _ in read(text, "conn.log", tmp_path)]
    assert found == [True, False, False, None, None, True]
    ends = {"ts": 1.0, "uid": "C", "id.orig_h": "10.0.0.1", "id.resp_h": "10.0.0.2", "id.resp_p": 88}
    text = lines(
        {**ends, "request_type": "TGS", "client": "a/B", "success": True},
        {**ends, "request_type": "TGS", "client": "a/B", "success": False},
        {**ends, "request_type": "TGS", "client": "a/B"},
    )
    assert [outcome for outcome, _ in read(text, "kerberos.log", tmp_path)] == [True, False, None]


def test_a_tcp_flow_that_suricata_saw_unanswered_failed(tmp_path: Path) -> None:
    def flow(proto: str, state: str) -> dict[str, object]:
        shown = {"timestamp": "2021-06-06T16:40:00.000001+0200", "flow_id": 1, "event_type": "flow"}
        ends = {"src_ip": "10.0.0.1", "dest_ip": "10.0.0.2", "dest_port": 445}
        return {**shown, **ends, "proto": proto, "flow": {"state": state}}

    text = lines(flow("TCP", "closed"), flow("TCP", "new"), flow("UDP", "new"), flow("UDP", "established"))
    assert [outcome for outcome, _ in read(text, "eve.json", tmp_path)] == [True, False, None, None]


def test_a_table_may_have_an_outcome_and_a_logon_type(tmp_path: Path) -> None:
    text = "time,src,dst,logon,outcome\n1,a,b,3,success\n2,a,b,Batch,DENIED\n3,a,b,,perhaps\n"
    assert read(text, "logons.csv", tmp_path) == [(True, "Network"), (False, "Batch"), (None, None)]


def test_a_connection_that_was_refused_failed_whatever_state_it_is_in(tmp_path: Path) -> None:
    def flow(state: str, flags: str) -> dict[str, object]:
        shown = {"timestamp": "2021-06-06T16:40:00.000001+0200", "flow_id": 1, "event_type": "flow"}
        ends = {"src_ip": "10.0.0.1", "dest_ip": "10.0.0.2", "dest_port": 445, "proto": "TCP"}
        return {**shown, **ends, "flow": {"state": state}, "tcp": {"tcp_flags_tc": flags}}

    text = lines(flow("closed", "14"), flow("closed", "1b"), flow("established", "12"), flow("new", "00"))
    assert [outcome for outcome, _ in read(text, "eve.json", tmp_path)] == [False, True, True, False]
    header = "StartTime,Dur,Proto,SrcAddr,Sport,Dir,DstAddr,Dport,State,TotBytes,Label\n"
    row = "2019/04/04 16:23:00.345898,0.1,{},10.8.0.69,4,   ->,10.8.0.1,445,{},176,\n"
    states = [
        ("tcp", "FSPA_FSPA"),
        ("tcp", "S_RA"),
        ("tcp", "S_"),
        ("udp", "CON"),
        ("tcp", "RA_"),
        ("tcp", ""),
    ]
    text = header + "".join(row.format(*state) for state in states)
    found = [outcome for outcome, _ in read(text, "a.binetflow", tmp_path)]
    assert found == [True, False, False, None, None, None]
