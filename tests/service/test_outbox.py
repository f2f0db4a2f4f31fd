"""Alerts reach every output once and in order, whatever the other side does meanwhile."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from entente.config import Section
from entente.detection.alerts import Alert
from entente.errors import ConfigError
from entente.service.alerts import AlertStore
from entente.service.database import transaction
from entente.service.outbox import Backlog, Courier, Outbox
from entente.service.outputs.base import Delivery, Output, Unreachable
from entente.service.outputs.elastic import Elastic, ElasticOptions
from entente.service.outputs.file import FileOptions, FileOutput
from entente.service.outputs.http import HttpOptions, parsed
from entente.service.outputs.splunk import Splunk, SplunkOptions
from entente.service.outputs.webhook import Webhook
from entente.service.secrets import Secret
from entente.service.suppression import Suppressions

from .conftest import Server, alert, eventually

SHORT: dict[str, Any] = {"timeout": 1.0}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def fill(database: sqlite3.Connection, alerts: Sequence[Alert], outputs: Sequence[str] = ("out",)) -> Outbox:
    store, outbox = AlertStore(database), Outbox(database)
    with transaction(database):
        outbox.add(outputs, store.add(alerts, Suppressions()))
    return outbox


def deliver_all(courier: Courier, clock: Clock, outbox: Outbox, name: str = "out") -> None:
    """Try until the queue is empty; time passes between attempts."""
    for _ in range(100):
        courier.step()
        clock.now += 1000
        if not outbox.backlog(name).waiting:
            return
    raise AssertionError("the queue did not drain")


class Receiver:
    """What a server of one kind keeps, in order, and what it answers."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.kept: list[str] = []

    def __call__(self, path: str, body: bytes) -> tuple[int, Any]:
        if self.kind == "webhook":
            self.kept += [one["id"] for one in json.loads(body)]
        elif self.kind == "splunk":
            events = body.decode().replace('}{"time"', '}\n{"time"').splitlines()
            self.kept += [json.loads(event)["event"]["id"] for event in events]
        else:
            names = [json.loads(line)["create"]["_id"] for line in body.splitlines()[::2]]
            items = [{"create": {"status": 409 if name in self.kept else 201}} for name in names]
            self.kept += [name for name in names if name not in self.kept]
            return 200, {"errors": False, "items": items}
        return 200, {}


def output_to(kind: str, url: str, monkeypatch: pytest.MonkeyPatch) -> Output:
    if kind == "webhook":
        return Webhook(HttpOptions(url=url, **SHORT), "outputs.hook")
    if kind == "elastic":
        return Elastic(ElasticOptions(url=url, **SHORT), "outputs.elastic")
    monkeypatch.setenv("HEC", "token")
    return Splunk(SplunkOptions(url=url, token=Secret(env="HEC"), **SHORT), "outputs.splunk")


@pytest.mark.parametrize("trouble", ["fail", "stall", "drop", "half"])
@pytest.mark.parametrize("kind", ["webhook", "splunk", "elastic"])
def test_a_server_that_misbehaves_gets_every_alert_in_order(
    database: sqlite3.Connection, server: Server, monkeypatch: pytest.MonkeyPatch, kind: str, trouble: str
) -> None:
    alerts = [alert(i) for i in range(7)]
    outbox, clock = fill(database, alerts), Clock()
    server.plan = [trouble, "answer"] if trouble == "stall" else [trouble, trouble, "answer"]
    server.answer = receiver = Receiver(kind)
    output = output_to(kind, server.url, monkeypatch)
    deliver_all(Courier("out", output, outbox, clock=clock), clock, outbox)
    assert list(dict.fromkeys(receiver.kept)) == [one.id for one in alerts]
    assert server.plan == []
    assert outbox.backlog("out").refused == 0
    if kind == "elastic" or trouble != "half":  # others cannot know what was taken with half an answer
        assert len(receiver.kept) == len(alerts)
    output.close()


@pytest.mark.parametrize("kind", ["webhook", "splunk", "elastic"])
def test_a_batch_that_is_too_large_for_a_server_goes_in_smaller_parts(
    database: sqlite3.Connection, server: Server, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    alerts = [alert(i) for i in range(3)]
    outbox, clock, receiver = fill(database, alerts), Clock(), Receiver(kind)
    server.answer = lambda path, body: (413, {}) if len(body) > 2500 else receiver(path, body)
    output = output_to(kind, server.url, monkeypatch)
    deliver_all(Courier("out", output, outbox, clock=clock), clock, outbox)
    assert receiver.kept == [one.id for one in alerts]
    assert outbox.backlog("out").refused == 0


def test_one_document_that_is_refused_does_not_hold_up_the_others(
    database: sqlite3.Connection, server: Server
) -> None:
    alerts = [alert(i) for i in range(3)]
    outbox, clock = fill(database, alerts), Clock()
    server.answer = lambda path, body: (
        200,
        {"items": [{"create": {"status": code, "error": "mapping"}} for code in (201, 400, 201)]},
    )
    said: list[str] = []
    elastic = Elastic(ElasticOptions(url=server.url, **SHORT), "outputs.elastic")
    deliver_all(Courier("out", elastic, outbox, clock=clock, report=said.append), clock, outbox)
    assert outbox.backlog("out").refused == 1
    assert "mapping" in " ".join(said)


def test_splunk_gets_its_token_and_one_event_per_alert(
    database: sqlite3.Connection, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEC", "s3cret-token")
    outbox, clock = fill(database, [alert(1), alert(2)]), Clock()
    options = SplunkOptions(url=server.url, token=Secret(env="HEC"), **SHORT)
    deliver_all(Courier("out", Splunk(options, "outputs.splunk"), outbox, clock=clock), clock, outbox)
    path, headers, body = server.requests[0]
    assert path == "/services/collector/event"
    assert headers["Authorization"] == "Splunk s3cret-token"
    assert body.count(b'"sourcetype"') == 2
    assert "s3cret" not in repr(options)


def test_one_event_that_splunk_refuses_does_not_hold_up_the_others(
    database: sqlite3.Connection, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEC", "token")
    alerts = [alert(i) for i in range(4)]
    outbox, clock = fill(database, alerts), Clock()
    server.answer = lambda path, body: (
        (400, {"text": "Invalid data format", "code": 6}) if alerts[1].id.encode() in body else (200, {})
    )
    splunk = Splunk(SplunkOptions(url=server.url, token=Secret(env="HEC"), **SHORT), "outputs.splunk")
    deliver_all(Courier("out", splunk, outbox, clock=clock), clock, outbox)
    taken = [body for _, _, body in server.requests if alerts[1].id.encode() not in body]
    assert [one.id.encode() in b"".join(taken) for one in alerts] == [True, False, True, True]
    assert outbox.backlog("out").refused == 1


def test_an_index_that_splunk_does_not_know_refuses_no_alert(
    database: sqlite3.Connection, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEC", "token")
    outbox = fill(database, [alert(1), alert(2)])
    server.answer = lambda path, body: (400, {"text": "Incorrect index", "code": 7})
    splunk = Splunk(SplunkOptions(url=server.url, token=Secret(env="HEC"), **SHORT), "outputs.splunk")
    Courier("out", splunk, outbox, clock=Clock()).step()
    assert outbox.backlog("out") == Backlog(waiting=2, refused=0, attempts=1)


@pytest.mark.parametrize("code", [None, "201", True])
def test_an_answer_that_makes_no_sense_is_tried_again(
    database: sqlite3.Connection, server: Server, code: object
) -> None:
    outbox = fill(database, [alert(1)])
    server.answer = lambda path, body: (200, {"items": [{"create": {"status": code}}]})
    elastic = Elastic(ElasticOptions(url=server.url, **SHORT), "outputs.elastic")
    Courier("out", elastic, outbox, clock=Clock()).step()
    assert outbox.backlog("out") == Backlog(waiting=1, refused=0, attempts=1)


def test_an_answer_that_is_nested_too_deep_is_not_json() -> None:
    with pytest.raises(Unreachable, match="JSON"):
        parsed(b"[" * 200_000)


class Flaky(Output):
    name = "flaky"
    summary = ""
    Options = Section

    def __init__(self) -> None:
        self.taken: list[str] = []

    def deliver(self, alerts: Sequence[Alert], mark: str) -> Delivery:
        if len(self.taken) == 2:
            self.taken.append("break")
            raise Unreachable("full")
        self.taken.append(alerts[0].id)
        return Delivery(1)


def test_a_batch_that_is_taken_in_part_goes_on_where_it_stopped(database: sqlite3.Connection) -> None:
    alerts = [alert(i) for i in range(5)]
    outbox, clock, flaky = fill(database, alerts), Clock(), Flaky()
    deliver_all(Courier("out", flaky, outbox, clock=clock), clock, outbox)
    assert [name for name in flaky.taken if name != "break"] == [one.id for one in alerts]


def test_a_fault_of_an_output_is_said_and_counted_and_its_thread_goes_on(
    database: sqlite3.Connection,
) -> None:
    class Faulty(Flaky):
        def deliver(self, alerts: Sequence[Alert], mark: str) -> Delivery:
            raise TypeError("no such thing")

    outbox, said = fill(database, [alert(1)]), list[str]()
    courier = Courier("out", Faulty(), outbox, report=said.append)
    courier.start()
    eventually(lambda: outbox.backlog("out").attempts > 1)
    courier.stop()
    assert "TypeError" in said[0]
    assert outbox.backlog("out").waiting == 1


def test_an_output_that_is_down_waits_longer_each_time_and_never_blocks_another(
    database: sqlite3.Connection, tmp_path: Path
) -> None:
    class Down(Flaky):
        def deliver(self, alerts: Sequence[Alert], mark: str) -> Delivery:
            self.taken.append("tried")
            raise Unreachable("down")

    outbox, clock, down = fill(database, [alert(1)], ("down", "files")), Clock(), Down()
    courier = Courier("down", down, outbox, clock=clock)
    for _ in range(200):
        courier.step()
        clock.now += 1
    assert 4 <= len(down.taken) <= 12
    files = FileOutput(FileOptions(path=tmp_path / "alerts"), "outputs.files")
    deliver_all(Courier("files", files, outbox, clock=clock), clock, outbox, "files")
    assert outbox.backlog("down").waiting == 1


class Dying(FileOutput):
    """Is killed after it has written, before that is committed."""

    def deliver(self, alerts: Sequence[Alert], mark: str) -> Delivery:
        delivery = super().deliver(alerts, mark)
        if delivery.taken:
            raise KeyboardInterrupt
        return delivery


def test_a_file_holds_no_line_twice_after_a_kill_between_writing_and_committing(
    database: sqlite3.Connection, tmp_path: Path
) -> None:
    outbox, clock = fill(database, [alert(i) for i in range(3)]), Clock()
    options = FileOptions(path=tmp_path / "alerts")
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            Courier("out", Dying(options, "outputs.files"), outbox, clock=clock).step()
    deliver_all(Courier("out", FileOutput(options, "outputs.files"), outbox, clock=clock), clock, outbox)
    lines = [line for file in (tmp_path / "alerts").iterdir() for line in file.read_text().splitlines()]
    assert len(lines) == len(set(lines)) == 3


def test_a_file_that_an_output_does_not_know_is_kept_and_continued(
    database: sqlite3.Connection, tmp_path: Path
) -> None:
    outbox, clock = fill(database, [alert(1)], ("before",)), Clock()
    options = FileOptions(path=tmp_path / "alerts")
    files = FileOutput(options, "outputs.files")
    deliver_all(Courier("before", files, outbox, clock=clock), clock, outbox, "before")
    outbox = fill(database, [alert(2)], ("renamed",))
    with pytest.raises(KeyboardInterrupt):
        Courier("renamed", Dying(options, "outputs.files"), outbox, clock=clock).step()
    deliver_all(Courier("renamed", files, outbox, clock=clock), clock, outbox, "renamed")
    (file,) = (tmp_path / "alerts").iterdir()
    assert [json.loads(line)["id"] for line in file.read_text().splitlines()] == [alert(1).id, alert(2).id]


def test_alerts_of_a_hundred_days_and_of_a_day_long_past_reach_their_files(
    database: sqlite3.Connection, tmp_path: Path
) -> None:
    alerts = [alert(24 * day) for day in (*range(100, 200), 0, 100)]
    alerts[-1] = alert(24 * 100 + 1)
    outbox, clock = fill(database, alerts), Clock()
    files = FileOutput(FileOptions(path=tmp_path / "alerts"), "outputs.files")
    deliver_all(Courier("out", files, outbox, clock=clock), clock, outbox)
    outbox = fill(database, [alert(24 * 101 + 1)])
    deliver_all(Courier("out", files, outbox, clock=clock), clock, outbox)
    lines = [line for file in (tmp_path / "alerts").iterdir() for line in file.read_text().splitlines()]
    assert len(lines) == len(set(lines)) == 103


def test_plain_http_beyond_loopback_is_refused() -> None:
    with pytest.raises(ValueError, match="https"):
        HttpOptions(url="http://siem.example/hook")


def test_a_secret_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="NOWHERE"):
        Secret(env="NOWHERE").read("outputs.splunk")
    with pytest.raises(ConfigError, match="cannot be read"):
        Secret(file=tmp_path / "absent").read("outputs.splunk")
