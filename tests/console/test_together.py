"""Several people, and the service, at one store at the same moment."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import entente.service.suppression as suppression
from entente.artifacts import locked
from entente.console import expecting
from entente.console.desk import Desk
from entente.console.serving import serve
from entente.errors import UsageError
from entente.service.alerts import Filter

from .house import House, alert

MANY = 2500
"""More alerts than a page shows."""


def test_a_case_of_more_alerts_than_a_page_shows_is_closed_opened_and_exported_whole(
    build: Callable[..., House],
) -> None:
    alerts = tuple(replace(alert(0, f"ws-{i}", "srv"), incident="scan") for i in range(MANY))
    client = build(alerts).machine()
    closed = client.patch("/api/v1/incidents/scan", json={"status": "closed", "reason": "benign"}).json()
    assert (closed["status"], closed["closed"]) == ("closed", MANY)
    assert client.post(f"/api/v1/undo/{closed['undo']}").json() == {"alerts": MANY}
    assert client.get("/api/v1/incidents").json()["incidents"][0]["open"] == MANY
    exported = client.get("/api/v1/incidents/scan/export?format=csv").text
    assert len(exported.splitlines()) == 1 + MANY
    new = {"alert": alerts[0].id, "by": "dst", "reason": "the scanner"}
    assert client.post("/api/v1/suppressions", json=new).json()["marked"] == MANY


def test_two_who_suppress_at_once_do_not_lose_each_others_rule(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = [house.signed_in(f"analyst{i}") for i in (1, 2)]
    found = house.machine("viewer").get("/api/v1/alerts").json()["alerts"]
    read, together = suppression.read_suppressions, threading.Barrier(2)

    def read_when_the_other_has(path: Any) -> Any:
        rules = read(path)
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait(0.5)  # both have read before one writes, unless one waits for the other
        return rules

    monkeypatch.setattr(suppression, "read_suppressions", read_when_the_other_has)
    codes = list[int]()

    def suppress(client: Any, one: str) -> None:
        new = {"alert": one, "by": "pair", "reason": "known"}
        codes.append(client.post("/api/v1/suppressions", json=new).status_code)

    threads = [
        threading.Thread(target=suppress, args=(client, one["id"]))
        for client, one in zip(clients, found, strict=False)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [201, 201]
    assert len(read(house.desk.suppression_file).rules) == 2


def test_what_another_has_confirmed_meanwhile_is_not_hidden_by_a_suppression(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = house.desk.store.find(Filter(host="10.1.2.3"))
    look = expecting._candidates

    def then_another_is_faster(desk: Desk, rule: Any, since: int) -> Any:
        found = look(desk, rule, since)
        desk.store.change(one.alert.id, "another", status="closed", reason="true")
        return found

    monkeypatch.setattr(expecting, "_candidates", then_another_is_faster)
    client = house.signed_in()
    made = client.post("/api/v1/suppressions", json={"alert": one.alert.id, "by": "src", "reason": "scanner"})
    assert made.json()["marked"] == 1
    now = {i: house.desk.store.get(i) for i in (one.alert.id, other.alert.id)}
    assert now[one.alert.id].suppressed_by is None
    assert now[other.alert.id].suppressed_by == made.json()["id"]
    assert client.post(f"/api/v1/undo/{made.json()['undo']}").json() == {"alerts": 1}


def test_an_undo_finds_a_rule_that_somebody_took_out_by_hand_gone_and_goes_on(house: House) -> None:
    client = house.signed_in()
    one = house.desk.store.find(Filter(host="10.1.2.3"))[0]
    made = client.post("/api/v1/suppressions", json={"alert": one.alert.id, "by": "src", "reason": "scanner"})
    house.desk.suppression_file.write_text("")
    assert client.post(f"/api/v1/undo/{made.json()['undo']}").json() == {"alerts": 2}
    assert house.desk.store.get(one.alert.id).suppressed_by is None


def test_two_undos_at_once_take_a_change_back_once(house: House) -> None:
    client = house.signed_in()
    case = client.get("/api/v1/incidents").json()["incidents"][0]
    undo = client.patch(f"/api/v1/incidents/{case['id']}", json={"status": "acknowledged"}).json()["undo"]
    clients, codes = [house.signed_in() for _ in range(4)], list[int]()

    def take_back(one: Any) -> None:
        codes.append(one.post(f"/api/v1/undo/{undo}").status_code)

    threads = [threading.Thread(target=take_back, args=(one,)) for one in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes.count(200) == 1
    assert set(codes) <= {200, 404, 409}
    assert house.desk.case(case["id"]).version == case["version"] + 2 * case["alerts"]


def test_bulk_actions_on_overlapping_cases_leave_each_case_as_one_of_the_two_left_it(house: House) -> None:
    cases = house.machine("viewer").get("/api/v1/incidents").json()["incidents"]
    chosen = [f"{case['id']}:{case['version']}" for case in cases]
    wishes = {"analyst1": chosen[:2], "analyst2": chosen[1:]}
    codes = dict[str, int]()

    def take(name: str, client: Any) -> None:
        codes[name] = client.post("/cases", data={"chosen": wishes[name], "action": "mine"}).status_code

    threads = [threading.Thread(target=take, args=(name, house.signed_in(name))) for name in wishes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winner = next(name for name, code in codes.items() if code == 200)
    assert sorted(codes.values()) == [200, 409]
    taken = [text.rpartition(":")[0] for text in wishes[winner]]
    for case in cases:
        assert house.desk.case(case["id"]).assignee == (winner if case["id"] in taken else None)


def test_a_second_console_over_the_same_folder_is_refused(house: House) -> None:
    with (
        locked(house.settings.data, "busy"),
        pytest.raises(UsageError, match="another console"),
    ):
        serve(replace(house.settings, port=0), "me", print, lambda done, of: None)


def test_a_stream_of_events_ends_when_the_console_is_stopped(house: House) -> None:
    house.app.state.stopping = lambda: True
    answer = house.signed_in().get("/events")  # would wait for ever
    assert answer.status_code == 200
    assert "event:" not in answer.text


def test_a_page_hears_what_changed_before_its_stream_began(house: House) -> None:
    client = house.signed_in("analyst1")
    found = client.get("/api/v1/incidents").json()["incidents"][0]["id"]
    shown = re.search(r'data-live="([^"]+)"', client.get(f"/incident/{found}").text)
    assert shown is not None
    other = house.machine()
    assert other.patch(f"/api/v1/incidents/{found}", json={"status": "acknowledged"}).status_code == 200

    def heard(address: str, **headers: str) -> str:
        looks = iter((False, True))
        house.app.state.stopping = lambda: next(looks)
        return str(client.get(address, headers=headers).text)

    told = heard(f"/events?since={shown[1]}")
    assert "event: changed" in told
    # a stream that broke off goes on from what it said last
    assert "event: changed" in heard("/events", **{"Last-Event-ID": shown[1]})
    last = told.rpartition("id: ")[2].partition("\n")[0]
    assert "event: changed" not in heard(f"/events?since={shown[1]}", **{"Last-Event-ID": last})


@pytest.mark.parametrize("since", ["", "x", "1-2", "1-2-3-4", "-1-2-3", "9" * 5000, "1-2-" + "9" * 400])
def test_a_stream_that_begins_anywhere_begins_now(house: House, since: str) -> None:
    looks = iter((False, True))
    house.app.state.stopping = lambda: next(looks)
    answer = house.signed_in().get("/events", params={"since": since})
    assert answer.status_code == 200
    assert "event: changed" not in answer.text
