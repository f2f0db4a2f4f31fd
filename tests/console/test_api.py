"""REST: the documented lines run, versions guard, and no input makes an error of ours."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from .house import House

EXAMPLES = int(os.environ.get("EXAMPLES", "3"))
"""Requests per operation of the interface; docs/fuzzing.md has what more of them found."""
PAGE = Path(__file__).parents[2] / "docs" / "console.md"


def test_the_curl_examples_of_the_docs_run_as_they_stand(house: House, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("no curl on this machine")
    uvicorn = pytest.importorskip("uvicorn")
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), flags=re.S)
    server = uvicorn.Server(
        uvicorn.Config(house.app, port=0, log_level="warning", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 60
    while not server.started:
        assert time.monotonic() < until
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    token = house.sessions.add_token("docs", "analyst", 1.0)
    places = {"TOKEN": token, "CONSOLE": f"http://127.0.0.1:{port}"}
    done = subprocess.run(
        ["bash", "-euc", block], cwd=tmp_path, env={**os.environ, **places},
        capture_output=True, text=True, timeout=120
    )  # fmt: skip
    server.should_exit = True
    thread.join(30)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((tmp_path / "closed.json").read_text())["status"] == "closed"
    assert json.loads((tmp_path / "incident-stix.json").read_text())["type"] == "bundle"


def test_a_change_with_an_old_etag_is_refused_and_says_who_was_there(house: House) -> None:
    client = house.machine()
    ident = client.get("/api/v1/incidents").json()["incidents"][0]["id"]
    etag = client.get(f"/api/v1/incidents/{ident}").headers["etag"]
    path = f"/api/v1/incidents/{ident}"
    first = client.patch(path, json={"assignee": "maria"}, headers={"If-Match": etag})
    assert first.status_code == 200
    again = client.patch(path, json={"assignee": "jo"}, headers={"If-Match": etag})
    assert again.status_code == 409
    assert "machine-analyst" in again.json()["detail"]
    assert (
        client.patch(path, json={"assignee": "jo"}, headers={"If-Match": first.headers["etag"]}).status_code
        == 200
    )
    assert client.patch(path, json={"assignee": "x"}, headers={"If-Match": '"abc"'}).status_code == 400


@pytest.mark.parametrize(
    "body",
    [
        {}, {"status": "closed"}, {"status": "open", "reason": "true"}, {"status": "gone"},
        {"assignee": "x" * 65},
        {"unknown": 1}, [], "text", {"assignee": "a\nb"},
    ],
)  # fmt: skip
def test_a_change_that_makes_no_sense_changes_nothing(house: House, body: object) -> None:
    client = house.machine()
    before = client.get("/api/v1/incidents").json()
    answer = client.patch(f"/api/v1/incidents/{before['incidents'][0]['id']}", json=body)
    assert answer.status_code in (400, 422)
    assert client.get("/api/v1/incidents").json() == before


def test_an_alert_is_read_and_changed_by_itself(house: House) -> None:
    client = house.machine()
    one = client.get("/api/v1/alerts?host=porto-ws9").json()["alerts"][0]
    path = f"/api/v1/alerts/{one['id']}"
    answer = client.patch(path, json={"status": "closed", "reason": "duplicate"}, headers={"If-Match": '"1"'})
    assert answer.json()["reason"] == "duplicate"
    assert client.patch(path, json={"status": "open"}, headers={"If-Match": '"1"'}).status_code == 409
    assert client.get(f"{path}/events").json() == {"events": None}
    assert client.get("/api/v1/alerts/none").status_code == 404


def test_an_entity_has_its_risk_and_alerts(house: House) -> None:
    client = house.machine("viewer")
    told = client.get("/api/v1/entities/host", params={"name": "lyon-fs01"}).json()
    assert told["risk"] == 15
    assert len(told["alerts"]) == 3
    assert client.get("/api/v1/entities/user", params={"name": "backup"}).json()["risk"] == 3
    assert client.get("/api/v1/entities/host", params={"name": "nobody"}).status_code == 404


def test_no_request_that_the_description_allows_or_forbids_is_an_error_of_ours(
    build: Callable[..., House], tmp_path: Path
) -> None:
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    house = build(experiments=tmp_path)
    token = house.sessions.add_token("fuzz", "operator", 1.0)
    schema = schemathesis.openapi.from_asgi("/api/openapi.json", house.app, headers={"Host": "127.0.0.1"})
    headers = {"Authorization": f"Bearer {token}", "Host": "127.0.0.1"}
    called = 0
    for result in schema.get_all_operations():
        operation = result.ok()

        @settings(
            max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck)
        )
        def attempt(case: object) -> None:
            nonlocal called
            called += 1
            answer = case.call(headers=headers)  # type: ignore[attr-defined]
            assert answer.status_code < 500, answer.text

        run: Callable[[], None] = given(operation.as_strategy())(attempt)  # type: ignore[no-untyped-call]
        run()
    print(called, "requests")
    assert called > 30
