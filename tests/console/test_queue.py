"""The queue: what is listed, found, changed, taken back, and shown to two people at once."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import entente.console.index as index_module
from entente.console.cases import Case
from entente.console.desk import Desk
from entente.console.drawing import draw
from entente.console.index import Index
from entente.detection.alerts import Alert
from entente.detection.incidents import list_incidents
from entente.service.alerts import Filter
from entente.service.database import transaction

from .house import CHAIN, House, alert, fill, some_alerts

HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "x\u202egnp.exe", "a" * 1_000_000)


def ids(client: Any, **query: str) -> list[str]:
    found = client.get("/api/v1/incidents", params=query).json()
    return [case["src"] for case in found["incidents"]]


def test_incidents_come_first_by_severity_and_have_the_sentences_of_the_report(house: House) -> None:
    found = house.machine("viewer").get("/api/v1/incidents").json()
    assert [(c["src"], c["alerts"], c["severity"]) for c in found["incidents"]] == [
        ("lyon-ws01", 4, "critical"), ("10.1.2.3", 2, "medium"), ("porto-ws9", 1, "low"),
    ]  # fmt: skip
    told = list_incidents(some_alerts())[0]
    assert found["incidents"][0]["why"] == list(told.explanation)
    assert found["incidents"][0]["severity"] == told.severity


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({"q": "GRAZ-dc"}, ["lyon-ws01"]),
        ({"q": "eve 445"}, ["lyon-ws01"]),
        ({"q": "nothing has this"}, []),
        ({"host": "porto-srv1"}, ["10.1.2.3", "porto-ws9"]),
        ({"user": "CORP\\eve"}, ["lyon-ws01"]),
        ({"net": "10.1.0.0/16"}, ["10.1.2.3"]),
        ({"net": "192.168.0.0/16"}, []),
        ({"port": "3389"}, ["10.1.2.3"]),
        ({"technique": "T1021"}, ["lyon-ws01", "10.1.2.3"]),
        ({"technique": "T1021.001"}, ["10.1.2.3"]),
        ({"silo": "graz"}, ["lyon-ws01"]),
        ({"severity": "high"}, ["lyon-ws01"]),
        ({"status": "closed"}, []),
        ({"since": "2026-09-23T00:00", "order": "newest"}, ["porto-ws9"]),
        ({"until": "2026-09-21T23:00"}, ["lyon-ws01"]),
        ({"order": "oldest"}, ["lyon-ws01", "10.1.2.3", "porto-ws9"]),
    ],
)
def test_each_filter_finds_what_it_says(
    house: House, query: dict[str, str], wanted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = house.machine("viewer")
    assert ids(machine, **query) == wanted
    monkeypatch.setattr(index_module, "MANY", 0)  # the other way of asking for cases by a name
    assert ids(machine, **query) == wanted


def test_an_index_that_was_killed_while_it_caught_up_is_complete_afterwards(
    build: Callable[..., House], monkeypatch: pytest.MonkeyPatch
) -> None:
    house = build(())
    assert house.settings.service is not None
    fill(house.settings.service, some_alerts())

    def die(*_: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(index_module.Index, "_renew", die)
        with pytest.raises(KeyboardInterrupt):
            house.desk.index.catch_up()
    again = Index(house.settings.data / "index.db", house.desk.connections)
    again.catch_up()
    assert sum(again.by_status().values()) == 3
    again.close()


@pytest.mark.parametrize("query", ["net=nonsense", "since=yesterday", "port=abc", "severity=huge", "page=0"])
def test_a_wrong_filter_is_an_answer_not_an_error_of_ours(house: House, query: str) -> None:
    client = house.signed_in()
    assert client.get(f"/queue?{query}").status_code == 422
    assert client.get(f"/api/v1/incidents?{query}").status_code == 422


def test_the_queue_is_paged(build: Callable[..., House]) -> None:
    house = build(tuple(replace(alert(i * 20, f"ws-{i}", f"srv-{i}"), incident=f"i{i}") for i in range(120)))
    client = house.machine("viewer")
    pages = [client.get("/api/v1/incidents", params={"page": n, "size": 50}).json() for n in (1, 2, 3)]
    seen = [case["id"] for page in pages for case in page["incidents"]]
    assert len(seen) == len(set(seen)) == 120
    assert pages[0]["total"] == 120
    assert "page 1 of 3" in house.signed_in().get("/queue").text


def test_a_change_can_be_taken_back_once(house: House) -> None:
    client = house.machine()
    case = client.get("/api/v1/incidents").json()["incidents"][0]
    changed = client.patch(
        f"/api/v1/incidents/{case['id']}", json={"status": "closed", "reason": "benign"}
    ).json()
    assert changed["status"] == "closed"
    assert ids(client) == ["10.1.2.3", "porto-ws9"]
    assert client.post(f"/api/v1/undo/{changed['undo']}").json() == {"alerts": 4}
    assert ids(client)[0] == "lyon-ws01"
    assert client.post(f"/api/v1/undo/{changed['undo']}").status_code == 404


def test_nobody_undoes_what_somebody_else_did(house: House) -> None:
    mine, other = house.signed_in("analyst1"), house.signed_in("analyst2")
    case = mine.get("/api/v1/incidents").json()["incidents"][0]
    undo = mine.patch(f"/api/v1/incidents/{case['id']}", json={"status": "acknowledged"}).json()["undo"]
    assert other.post(f"/api/v1/undo/{undo}").status_code == 404


def test_an_undo_does_not_overwrite_a_later_change(house: House) -> None:
    mine, other = house.signed_in("analyst1"), house.signed_in("analyst2")
    case = mine.get("/api/v1/incidents").json()["incidents"][0]
    undo = mine.patch(f"/api/v1/incidents/{case['id']}", json={"status": "acknowledged"}).json()["undo"]
    other.patch(f"/api/v1/incidents/{case['id']}", json={"assignee": "analyst2"})
    assert mine.post(f"/api/v1/undo/{undo}").status_code == 409
    assert mine.get(f"/api/v1/incidents/{case['id']}").json()["assignee"] == "analyst2"


def test_the_second_of_two_analysts_sees_the_firsts_change_and_overwrites_nothing(house: House) -> None:
    first, second = house.signed_in("analyst1"), house.signed_in("analyst2")
    case = first.get("/api/v1/incidents").json()["incidents"][0]
    form = {"chosen": f"{case['id']}:{case['version']}", "action": "close", "reason": "true"}
    assert first.post("/cases", data=form).status_code == 200
    answer = second.post("/cases", data={**form, "reason": "benign"}, headers={"HX-Request": "true"})
    assert answer.status_code == 409
    assert "analyst1" in answer.text
    assert {one.reason for one in house.desk.store.find(Filter(incident=case["id"]))} == {"true"}


def test_of_many_analysts_at_once_one_wins(house: House) -> None:
    case = house.machine("viewer").get("/api/v1/incidents").json()["incidents"][0]
    clients, codes = [house.signed_in(f"analyst{i % 2 + 1}") for i in range(6)], list[int]()

    def close(client: Any) -> None:
        headers = {"If-Match": f'"{case["version"]}"'}
        body = {"status": "closed", "reason": "benign"}
        codes.append(client.patch(f"/api/v1/incidents/{case['id']}", json=body, headers=headers).status_code)

    threads = [threading.Thread(target=close, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [200, 409, 409, 409, 409, 409]


def test_a_change_between_two_looks_at_a_case_is_not_overwritten(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = house.machine("viewer").get("/api/v1/incidents").json()["incidents"][0]
    read = Desk.case

    def then_another_is_faster(desk: Desk, ident: str) -> Case:
        found = read(desk, ident)
        monkeypatch.setattr(Desk, "case", read)
        desk.store.change_all(desk.store.standing(found.id), "another", assignee="another")
        return found

    monkeypatch.setattr(Desk, "case", then_another_is_faster)
    headers = {"If-Match": f'"{case["version"]}"'}
    body = {"status": "closed", "reason": "benign"}
    answer = house.signed_in().patch(f"/api/v1/incidents/{case['id']}", json=body, headers=headers)
    assert answer.status_code == 409
    assert house.desk.case(case["id"]).status == "open"


def test_a_bulk_action_changes_all_or_none(house: House) -> None:
    client = house.signed_in()
    cases = client.get("/api/v1/incidents").json()["incidents"]
    stale = [f"{cases[0]['id']}:{cases[0]['version']}", f"{cases[1]['id']}:{cases[1]['version'] + 1}"]
    assert client.post("/cases", data={"chosen": stale, "action": "acknowledge"}).status_code == 409
    assert len(ids(client)) == 3
    fresh = [f"{case['id']}:{case['version']}" for case in cases]
    assert (
        "3 cases acknowledged" in client.post("/cases", data={"chosen": fresh, "action": "acknowledge"}).text
    )
    assert ids(client) == []
    assert {case["assignee"] for case in client.get("/api/v1/incidents?status=all").json()["incidents"]} == {
        "analyst1"
    }


def test_alerts_that_come_later_join_their_incident_and_move_its_version(house: House) -> None:
    client = house.machine()
    case = client.get("/api/v1/incidents").json()["incidents"][0]
    later = replace(alert(5, "graz-db01", "graz-ws1"), incident=case["id"])
    assert house.settings.service is not None
    fill(house.settings.service, (later,))
    now = client.get(f"/api/v1/incidents/{case['id']}").json()
    assert len(now["alerts"]) == 5
    headers = {"If-Match": f'"{case["version"]}"'}
    answer = client.patch(f"/api/v1/incidents/{case['id']}", json={"status": "acknowledged"}, headers=headers)
    assert answer.status_code == 409


def test_what_the_command_line_changes_shows_at_once(house: House) -> None:
    client = house.machine("viewer")
    ids(client)
    one = house.desk.store.find(Filter(host="porto-ws9"))[0]
    house.desk.store.change(one.alert.id, "shell", status="closed", reason="benign")
    assert ids(client) == ["lyon-ws01", "10.1.2.3"]


def test_an_alert_without_an_incident_is_a_case_of_its_own(build: Callable[..., House]) -> None:
    lonely = replace(alert(1, "a", "b"), incident=None)
    client = build((lonely,)).machine()
    case = client.get("/api/v1/incidents").json()["incidents"][0]
    assert case["id"] == lonely.id
    assert client.patch(f"/api/v1/incidents/{case['id']}", json={"status": "acknowledged"}).status_code == 200


def test_a_preview_says_what_a_suppression_would_have_hidden(house: House) -> None:
    client = house.machine()
    case = client.get("/api/v1/incidents?q=10.1.2.3").json()["incidents"][0]
    first = client.get(f"/api/v1/incidents/{case['id']}").json()["alerts"][0]
    client.patch(f"/api/v1/alerts/{first['id']}", json={"status": "closed", "reason": "true"})
    new = {"alert": first["id"], "by": "src", "reason": "scanner"}
    told = client.post("/api/v1/suppressions/preview", json=new).json()
    assert told["said"] == "would have hidden 2 of the last 30 days' 7 alerts, 1 of them confirmed"
    assert client.get("/api/v1/suppressions").json() == {"suppressions": []}


def test_a_suppression_is_taken_back_with_its_rule_and_its_marks(house: House) -> None:
    client, machine = house.signed_in(), house.machine("viewer")
    rules = house.desk.suppression_file
    rules.write_text('# ours\n[[suppress]]\nid = "old"\nreason = "known"\nsrc = "nobody"\n')
    found = machine.get("/api/v1/alerts").json()["alerts"]
    told = client.post(f"/suppress/{found[0]['id']}", data={"by": "src", "reason": "scanner"})
    undo = re.search(r"/undo/([\w-]+)", told.text)
    assert undo is not None
    assert len(machine.get("/api/v1/alerts").json()["alerts"]) < len(found)
    assert client.post(f"/undo/{undo.group(1)}").status_code == 200
    after = machine.get("/api/v1/alerts").json()["alerts"]
    assert {one["id"] for one in after} == {one["id"] for one in found}
    assert rules.read_text() == '# ours\n[[suppress]]\nid = "old"\nreason = "known"\nsrc = "nobody"\n'


@pytest.mark.parametrize("by", ["src", "dst", "pair", "net", "user", "port"])
def test_a_suppression_hides_the_open_alerts_that_it_fits_and_nothing_else(house: House, by: str) -> None:
    client = house.machine()
    case = client.get("/api/v1/incidents?q=10.1.2.3").json()["incidents"][0]
    one = client.get(f"/api/v1/incidents/{case['id']}").json()["alerts"][0]
    new = {"alert": one["id"], "by": by, "reason": "nightly backup", "until": "2027-01-31"}
    told = client.post("/api/v1/suppressions/preview", json=new).json()
    made = client.post("/api/v1/suppressions", json=new)
    assert made.status_code == 201
    marked = {"src": 2, "dst": 2, "pair": 1, "net": 2, "user": 2, "port": 2}[by]
    assert made.json()["marked"] == told["open"] == marked
    hidden = client.get("/api/v1/alerts?suppressed=true").json()["alerts"]
    assert {a["suppressed_by"] for a in hidden} == {made.json()["id"]}
    assert client.post("/api/v1/suppressions", json=new).status_code == 400  # there is one of that name


def test_a_case_whose_alerts_are_all_expected_leaves_the_queue(house: House) -> None:
    client = house.machine()
    case = client.get("/api/v1/incidents?q=10.1.2.3").json()["incidents"][0]
    one = client.get(f"/api/v1/incidents/{case['id']}").json()["alerts"][0]
    client.post("/api/v1/suppressions", json={"alert": one["id"], "by": "src", "reason": "scanner"})
    assert ids(client) == ["lyon-ws01", "porto-ws9"]
    assert ids(client, status="suppressed") == ["10.1.2.3"]


def test_an_index_that_was_lost_is_built_again(house: House) -> None:
    client = house.machine("viewer")
    before = client.get("/api/v1/incidents").json()
    house.desk.index.close()
    for path in house.settings.data.glob("index.db*"):
        path.unlink()
    assert client.get("/api/v1/incidents").json() == before


@pytest.mark.parametrize("name", HOSTILE, ids=["script", "attribute", "bidi", "megabyte"])
def test_hostile_names_are_shown_harmless_on_every_page(build: Callable[..., House], name: str) -> None:
    bad: Alert = replace(
        alert(1, name, "srv"), users=(name,), kinds=(name,), explanation=(name,), silo=name, incident="i1"
    )
    client = build((bad, replace(bad, src="srv", dst=name, start=bad.start + 1))).signed_in()
    pages = ["/queue", "/queue?status=all", "/incident/i1", "/health", "/audit", "/entity/host"]
    for page in [*pages, f"/alert/{bad.id}/evidence", f"/suppress/{bad.id}"]:
        answer = client.get(page)
        assert answer.status_code == 200, page
        assert "<script>alert" not in answer.text
        assert "<img" not in answer.text
        assert "\u202e" not in re.sub(r'value="[^"]*"', "", answer.text)  # what a form sends back stays whole
        assert len(answer.text) < 300_000
    if len(name) < 100:
        assert client.get("/entity/host", params={"name": name}).status_code == 200
        exported = client.get("/incident/i1/export/csv").text
        assert "\u202e" not in exported


def test_a_cell_that_a_spreadsheet_would_run_is_quoted(build: Callable[..., House]) -> None:
    house = build((replace(alert(1, "=cmd|'/c calc'!A1", "srv"), incident="i1"),))
    assert ",'=cmd|" in house.signed_in().get("/incident/i1/export/csv").text


def test_exports_are_what_they_say(house: House) -> None:
    import stix2

    client = house.signed_in()
    ident = client.get("/api/v1/incidents").json()["incidents"][0]["id"]
    bundle = client.get(f"/incident/{ident}/export/stix")
    assert "attachment" in bundle.headers["content-disposition"]
    assert len(stix2.parse(bundle.text, allow_custom=True).objects) > 4
    layer = json.loads(client.get(f"/incident/{ident}/export/navigator").text)
    assert layer["domain"] == "enterprise-attack"
    assert [(t["techniqueID"], t["score"]) for t in layer["techniques"]] == [("T1021.002", 4)]
    rows = client.get(f"/incident/{ident}/export/csv").text.splitlines()
    assert len(rows) == 5
    assert client.get(f"/incident/{ident}/export/exe").status_code == 400


def test_a_runs_alerts_are_a_queue_that_can_be_worked_on(tmp_path: Path) -> None:
    from entente.detection.table import write_table

    from .house import ConsoleSettings

    run = tmp_path / "run"
    run.mkdir()
    write_table(run / "alerts.parquet", some_alerts(), {})
    house = House(ConsoleSettings(data=run / "console", run=run))
    client = house.machine()
    case = client.get("/api/v1/incidents").json()["incidents"][0]
    client.patch(f"/api/v1/incidents/{case['id']}", json={"status": "closed", "reason": "true"})
    house.desk.close()
    again = House.__new__(House)
    from entente.console.app import create_app

    again.app = create_app(ConsoleSettings(data=run / "console", run=run))
    assert again.app.state.gate.desk.case(case["id"]).status == "closed"
    again.app.state.gate.desk.close()


def test_the_rows_that_an_alert_carries_are_shown_where_the_log_is_not_at_hand(
    build: Callable[..., House],
) -> None:
    from entente.detection.alerts import EvidenceRow

    row = EvidenceRow(alert(1, "a", "b").start, "conn.log", 17, "eve", "smb", 445)
    one = replace(alert(1, "a", "b"), evidence=(row,), source_role="workstation", target_role="server")
    page = build((one,)).signed_in().get(f"/alert/{one.id}/evidence").text
    assert "conn.log:17" in page
    assert "workstation to server" in page


@pytest.mark.parametrize("reason", ["backup 💾 night", "\x7f\x00\u0085", 'quote " and \\ and \n'])
def test_any_reason_can_be_read_back_from_the_file_of_suppressions(house: House, reason: str) -> None:
    client = house.machine()
    one = client.get("/api/v1/alerts").json()["alerts"][0]
    made = client.post("/api/v1/suppressions", json={"alert": one["id"], "by": "pair", "reason": reason})
    assert made.status_code == 201
    assert [rule["reason"] for rule in client.get("/api/v1/suppressions").json()["suppressions"]] == [reason]


def test_an_incident_says_what_other_silos_know_of_it(build: Callable[..., House]) -> None:
    first, second, *_ = some_alerts()
    said = "west, too, raised an alert about the source in the last hours"
    linked = (replace(first, elsewhere=(said,), link="3f9c"), replace(second, link="3f9c"))
    house = build(linked)
    page = house.signed_in("viewer1").get(f"/incident/{first.incident}").text
    for words in (said, "other silos may have alerts with the same link: 3f9c", "also seen by graz"):
        assert words in page
    case = house.machine("viewer").get(f"/api/v1/incidents/{first.incident}").json()
    assert [one["link"] for one in case["alerts"]] == ["3f9c", "3f9c"]


def test_a_version_of_strange_digits_is_refused(house: House) -> None:
    answer = house.signed_in().post("/cases", data={"chosen": "x:\u00b2", "action": "mine"})
    assert answer.status_code == 400


def test_a_graph_of_many_hops_is_wide_and_numbers_its_hops_instead_of_naming_their_accounts() -> None:
    few = draw([alert(i, *pair, users=("eve",)) for i, pair in enumerate(CHAIN)], lambda host: None)
    many = draw([alert(i, "ws", f"srv-{i}", users=("eve",)) for i in range(40)], lambda host: None)
    assert (few["labelled"], few["wide"], few["edges"][0]["said"]) == (True, True, "eve")
    assert (many["labelled"], many["wide"]) == (False, True)
    assert [edge["order"] for edge in many["edges"]] == list(range(1, 41))
    places = [(node["x"], node["y"]) for node in many["nodes"]]
    assert len(set(places)) == len(places) == 41


def test_the_further_edges_of_an_incident_are_listed_and_are_no_alerts(house: House) -> None:
    machine = house.machine("viewer")
    case = machine.get("/api/v1/incidents").json()["incidents"][0]
    edge = replace(
        alert(2, "lyon-fs01", "lyon-ws09"), incident=case["id"], raised=False, explanation=("seen again",)
    )
    with transaction(house.desk.connections.get()):
        house.desk.store.add_further([edge])
    page = house.signed_in("viewer1").get(f"/incident/{case['id']}").text
    assert "1 further edge, below what is raised" in page
    assert "lyon-ws09" in page
    told = machine.get(f"/api/v1/incidents/{case['id']}").json()
    assert [one["dst"] for one in told["further"]] == ["lyon-ws09"]
    assert told["version"] == case["version"]
