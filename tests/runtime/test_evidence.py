"""From a log of the wild to an alert that names the account, the port and the technique."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from entente.cli import main
from entente.config import parse_experiment
from entente.detection.alerts import Alert
from entente.detection.table import read_table
from entente.logs.events import write_events
from entente.logs.formats.base import Options
from entente.logs.ingest import Request, ingest
from entente.logs.schema import MICROSECONDS
from entente.report import build, render
from entente.runs.folder import RunFolder
from entente.runtime.evidence import complete
from entente.runtime.local import train

HOUR = 3600
EPOCH = 1_700_006_400
Row = tuple[float, str, str, str]  # seconds, source, target, account


def habits(first: int, last: int) -> list[Row]:
    return [
        (EPOCH + h * HOUR + 60 * i, f"10.0.0.{i}", f"10.0.0.{(i + 1) % 6}", "sam")
        for h in range(first, last)
        for i in range(6)
    ]


ATTACK: list[Row] = [(EPOCH + 75 * HOUR + 60 * i, "10.0.0.0", f"10.0.0.{i}", "frodo") for i in (2, 3, 4)]


def windows_line(row: Row) -> str:
    time, src, dst, user = row
    attack = user == "frodo"
    return json.dumps(
        {
            "EventID": 4625 if attack and dst.endswith("4") else 4624,
            "@timestamp": datetime.fromtimestamp(time, UTC).isoformat().replace("+00:00", "Z"),
            "Hostname": dst.replace(".", "-"),
            "Channel": "Security",
            "IpAddress": src,
            "WorkstationName": src.replace(".", "-"),
            "TargetUserName": user,
            "LogonType": "10" if attack else "3",
        }
    )


def zeek_line(row: Row) -> str:
    time, src, dst, user = row
    service, port = ("ssh", 22) if user == "frodo" else ("http", 80)
    values: dict[str, Any] = {"ts": time, "uid": f"C{time}", "id.orig_h": src, "id.orig_p": 50_000}
    values |= {"id.resp_h": dst, "id.resp_p": port, "proto": "tcp", "service": service, "conn_state": "SF"}
    return json.dumps(values | {"orig_bytes": 10, "resp_bytes": 20, "local_orig": True, "local_resp": True})


def detected(folder: Path, name: str, line: Callable[[Row], str]) -> tuple[list[dict[str, Any]], Path]:
    """The alerts that `detect` writes for the attack, and a run with the attack in its test windows."""
    parts = {"past": habits(0, 72), "night": sorted(habits(72, 96) + ATTACK)}
    parts["all"] = sorted(parts["past"] + parts["night"])
    for part, rows in parts.items():
        (folder / f"{part}.log").write_text("".join(line(row) + "\n" for row in rows))
        ingest(Request([str(folder / f"{part}.log")], folder / part, name, Options()))
    for part in ("past", "all"):
        data = {"events": str(folder / part), "window": HOUR, "train": 48 * HOUR, "validation": 0.25}
        settings = {"data": data, "detector": {"name": "novelty-burst"}}
        train(parse_experiment(settings), RunFolder(folder / f"run-{part}"), baselines=())
    out = folder / "alerts.jsonl"
    with pytest.raises(SystemExit) as end:
        main(
            [
                "detect",
                "--run",
                str(folder / "run-past"),
                "--events",
                str(folder / "night"),
                "--out",
                str(out),
            ]
        )
    assert not end.value.code
    alerts = [json.loads(text) for text in out.read_text().splitlines()]
    stored = read_table(folder / "run-all" / "alerts.parquet").alerts
    assert [told(alert.as_dict()) for alert in stored] == [told(alert) for alert in alerts]
    night = (folder / "night.log").read_text().splitlines()
    for alert in alerts:
        (row,) = alert["evidence"]
        assert row["log"] == str(folder / "night.log")
        target = alert["dst"]
        assert target in night[row["line"] - 1]
        assert row["time"] == alert["time"] == alert["first"]
        assert alert["model"] == RunFolder(folder / "run-past").model_name()
    return sorted(alerts, key=lambda alert: str(alert["dst"])), folder / "run-all"


def told(alert: dict[str, Any]) -> dict[str, Any]:
    """What does not hang on the file that the events were read from, nor on the run."""
    return {name: value for name, value in alert.items() if name not in ("evidence", "model")}


def test_a_windows_log_gives_alerts_with_the_account_and_the_technique(tmp_path: Path) -> None:
    alerts, run = detected(tmp_path, "windows", windows_line)
    assert [(a["src"], a["dst"]) for a in alerts] == [("10-0-0-0", f"10-0-0-{i}") for i in (2, 3, 4)]
    assert {tuple(a["users"]) for a in alerts} == {("frodo",)}
    assert {tuple(a["logons"]) for a in alerts} == {("RemoteInteractive",)}
    assert {(a["technique"], a["technique_reason"]) for a in alerts} == {
        ("T1021.001", "logon type RemoteInteractive")
    }
    assert [a["failures"] for a in alerts] == [0, 0, 1]
    assert [a["first"] // MICROSECONDS for a in alerts] == [round(row[0]) for row in ATTACK]
    page = render(build(run))
    assert "account frodo" in page
    assert "T1021.001 (logon type RemoteInteractive)" in page


def test_a_zeek_log_gives_alerts_with_the_port_and_the_technique(tmp_path: Path) -> None:
    alerts, run = detected(tmp_path, "zeek", zeek_line)
    assert {tuple(a["ports"]) for a in alerts} == {(22,)}
    assert {tuple(a["kinds"]) for a in alerts} == {("ssh",)}
    assert {(a["technique"], a["technique_reason"]) for a in alerts} == {("T1021.004", "port 22")}
    assert {a["service"] for a in alerts} == {"ssh"}
    assert {(a["source_role"], a["target_role"]) for a in alerts} == {("workstation", "workstation")}
    assert "port 22" in render(build(run))


def test_evidence_is_that_of_the_edge_and_the_window_alone(tmp_path: Path) -> None:
    rows = [
        (10, "a", "b", "sam", 80),
        (20, "a", "b", "sam", 445),
        (30, "a", "b", "frodo", 445),
        (40, "a", "c", "pippin", 22),
        (HOUR + 5, "a", "b", "merry", 22),
        (90 * HOUR, "c", "a", "gimli", 3389),
    ]
    time, src, dst, user, port = zip(*rows, strict=True)
    times = pa.array([second * MICROSECONDS for second in time], pa.int64())
    ports = pa.array(port, pa.int32())
    write_events(
        pa.table({"time": times, "src": src, "dst": dst, "user": user, "port": ports}), tmp_path / "e"
    )
    step = HOUR * MICROSECONDS

    def alert(window: int, src: str, dst: str) -> Alert:
        return Alert(window * step, (window + 1) * step, src, dst, 0.9, 0.5, "medium", "", ())

    asked = [alert(0, "a", "b"), alert(90, "c", "a"), alert(0, "b", "a"), alert(0, "zz", "a")]
    found = {(a.start, a.src, a.dst): a for a in complete(asked, tmp_path / "e")}
    first = found[0, "a", "b"]
    assert (first.users, first.ports, first.events) == (("sam", "frodo"), (445, 80), 3)
    assert (first.first, first.last) == (10 * MICROSECONDS, 30 * MICROSECONDS)
    assert first.technique == "T1021.002"
    assert [(row.time // MICROSECONDS, row.user, row.port) for row in first.evidence] == [
        (10, "sam", 80),
        (20, "sam", 445),
        (30, "frodo", 445),
    ]
    assert found[90 * step, "c", "a"].users == ("gimli",)
    assert found[0, "b", "a"].events is None  # no such edge in the log
    assert found[0, "zz", "a"].events is None
    assert found[0, "zz", "a"].evidence == ()
    assert all(alert.incident for alert in found.values())


def test_an_alert_shows_its_first_five_events_in_whatever_order_they_are_stored(tmp_path: Path) -> None:
    seconds = [50, 10, 70, 30, 20, 60, 40]
    times = pa.array([second * MICROSECONDS for second in seconds], pa.int64())
    write_events(pa.table({"time": times, "src": ["a"] * 7, "dst": ["b"] * 7}), tmp_path / "e")
    (alert,) = complete(
        [Alert(0, HOUR * MICROSECONDS, "a", "b", 0.9, 0.5, "medium", "", ())], tmp_path / "e", model="m"
    )
    assert [row.time // MICROSECONDS for row in alert.evidence] == [10, 20, 30, 40, 50]
    assert (alert.events, alert.model) == (7, "m")
