"""What the service says of itself on loopback: healthy or not, and figures for Prometheus."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from entente.errors import UsageError
from entente.service.status import STALE, HealthServer, OutputStatus, SourceStatus, Status

NOW = 1_700_000_000.0
STATUS = Status(
    at=NOW - 1,
    started=NOW - 100,
    pid=1,
    model="m",
    scored_until="2023-11-14 22:00:00",
    pending=7,
    events=100,
    bytes=1000,
    windows=3,
    edges=50,
    alerts=2,
    suppressed=0,
    taught=0,
    new_hosts=0,
    open_alerts=2,
    dropped={"bad time": 4},
    drift=1.5,
    sources=(
        SourceStatus("zeek", "2023-11-14 22:10:30", False, 12, ()),
        SourceStatus("new", None, False, None, ()),
    ),
    outputs=(OutputStatus("siem", waiting=3, refused=1, attempts=0),),
)


@pytest.fixture
def health() -> Iterator[HealthServer]:
    server = HealthServer(0, clock=lambda: NOW)
    server.status = STATUS
    yield server
    server.close()


def get(server: HealthServer, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_a_service_that_lives_is_healthy_and_says_how_it_is(health: HealthServer) -> None:
    code, body = get(health, "/healthz")
    assert (code, json.loads(body)["healthy"], json.loads(body)["events"]) == (200, True, 100)
    assert get(health, "/other")[0] == 404


@pytest.mark.parametrize(
    "status",
    [
        None,
        replace(STATUS, at=NOW - STALE - 1),
        replace(STATUS, sources=(SourceStatus("zeek", None, True, None, ()),)),
        replace(STATUS, outputs=(OutputStatus("siem", 3, 0, 1),)),
    ],
    ids=["not begun", "no sign of life", "silent source", "output down"],
)
def test_what_is_wrong_is_answered_with_503(health: HealthServer, status: Status | None) -> None:
    health.status = status
    code, body = get(health, "/healthz")
    assert (code, json.loads(body)["healthy"]) == (503, False)


def test_metrics_are_read_by_prometheus_and_tell_how_far_it_has_come(health: HealthServer) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    health.status = replace(STATUS, at=NOW - STALE - 1)  # a service that hangs can still be scraped
    code, body = get(health, "/metrics")
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in parser.text_string_to_metric_families(body)
        for sample in family.samples
    }
    assert code == 200
    assert found["entente_events_total",] == 100
    assert found["entente_dropped_total", "bad time"] == 4
    assert found["entente_score_drift",] == 1.5
    assert found["entente_source_behind", "zeek"] == 12
    assert found["entente_output_refused", "siem"] == 1
    scored, reached = (
        datetime(2023, 11, 14, 22, *rest, tzinfo=UTC).timestamp() for rest in ((0, 0), (10, 30))
    )
    assert found["entente_scored_until_timestamp_seconds",] == scored
    assert found["entente_source_reached_timestamp_seconds", "zeek"] == reached
    assert found["entente_last_sign_of_life_timestamp_seconds",] == NOW - STALE - 1
    assert ("entente_source_reached_timestamp_seconds", "new") not in found


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UsageError, match="cannot be used"):
        HealthServer(taken.getsockname()[1])
