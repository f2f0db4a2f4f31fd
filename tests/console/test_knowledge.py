"""What is known beyond the alerts: of hosts and accounts, of the service, and the budget it works with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from entente.config import Detection, Experiment, to_toml
from entente.detection.alerts import EvidenceRow
from entente.detection.history import History
from entente.graphs.hosts import HostTable
from entente.runs.folder import RunFolder
from entente.runs.state import SiloState

from .house import HOUR, START, House, alert
from .places import write_status

Pairs = Sequence[tuple[str, str]]


def state_of(own: Sequence[str], pairs: Pairs) -> SiloState:
    """A silo that owns these hosts and saw one pair an hour."""
    names = list(dict.fromkeys([*own, *(name for pair in pairs for name in pair)]))
    table = HostTable(
        np.array(names), np.array([name in own for name in names]), np.zeros((len(names), 1), np.int32)
    )
    window = START + np.arange(len(pairs), dtype=np.int64) * HOUR
    src, dst = (np.array([names.index(pair[i]) for pair in pairs], np.int32) for i in (0, 1))
    return SiloState(START + len(pairs) * HOUR, table, history=(window, src, dst))


def remember(service: Path, states: Mapping[str, SiloState]) -> None:
    RunFolder(service / "states" / "00000001").states.write(states)


def leave_model(service: Path, name: str, a_day: float | None) -> None:
    folder = service / "models" / name
    folder.mkdir(parents=True)
    experiment = Experiment(detection=Detection(alerts_per_day=a_day))
    (folder / "experiment.toml").write_text(to_toml(experiment))


def test_a_host_has_the_role_that_its_alerts_have(build: Callable[..., House]) -> None:
    house = build()
    assert house.settings.service is not None
    pairs = [(f"ws{i}", "srv") for i in range(5)] + [("hub", f"ws{i}") for i in range(5)] + [("hub", "srv")]
    one = state_of(["srv", "hub"], pairs)
    others = state_of(["ws0"], [("srv", f"far{i}") for i in range(9)])  # not the logs that know it best
    remember(house.settings.service, {"here": one, "there": others})
    client = house.machine("viewer")
    numbers = {name: i for i, name in enumerate(one.hosts.names.tolist())}
    past = History([one.history], one.hosts.own, *(ends.astype(np.int64) for ends in one.history[1:]))
    for name, role in (("hub", "hub"), ("srv", "server"), ("ws0", "workstation")):
        told = client.get("/api/v1/entities/host", params={"name": name}).json()["facts"]["role"]
        assert told == past.role(one.until, numbers[name]) == role
    assert "server: many contact it" in house.signed_in("viewer1").get("/entity/host?name=srv").text


def test_health_shows_what_the_service_itself_calls_a_problem(build: Callable[..., House]) -> None:
    house = build()
    assert house.settings.service is not None
    write_status(house.settings.service, at=4e9)
    file = house.settings.service / "status.json"
    status = json.loads(file.read_text())
    calm: dict[str, object] = {"sources": [], "outputs": [], "drift": None}
    file.write_text(json.dumps(status | calm | {"problems": ["suppressions.toml:3: no reason"]}))
    page = house.signed_in("viewer1").get("/health").text
    assert "suppressions.toml:3: no reason" in page
    assert "Everything runs as it should" not in page


def test_the_budget_is_that_of_the_model_that_works_over_the_silos_that_it_watches(
    build: Callable[..., House],
) -> None:
    house = build(())  # nobody has raised anything yet
    assert house.settings.service is not None
    service = house.settings.service
    for name, a_day in (("aaaa1111", 10.0), ("ffff0000", 99.0)):
        leave_model(service, name, a_day)
    os.utime(service / "models" / "aaaa1111", (4e9, 4e9))
    remember(service, {name: state_of(["a"], [("a", "b")]) for name in ("east", "west")})
    client = house.machine("viewer")
    assert client.get("/api/v1/health").json()["budget"] == 20.0  # the newest, while the service says nothing
    said = {"model": "ffff0000", "at": 0.0, "sources": [], "outputs": []}
    (service / "status.json").write_text(json.dumps(said))
    assert client.get("/api/v1/health").json()["budget"] == 198.0


def test_an_account_has_the_hosts_and_hours_of_its_alerts_where_no_log_is_at_hand(
    build: Callable[..., House],
) -> None:
    one = alert(1, "ws-1", "srv-1", users=("eve", "backup"))
    rows = (EvidenceRow(START + 3 * HOUR, "auth.csv", 7, "eve"), EvidenceRow(START, "auth.csv", 9, "backup"))
    house = build((replace(one, evidence=rows), alert(5, "ws-1", "srv-2", users=("eve",))))
    told = house.machine("viewer").get("/api/v1/entities/user", params={"name": "eve"}).json()["account"]
    assert (told["from"], told["host_count"]) == ("alerts", 3)
    assert dict(told["hosts"]) == {"ws-1": 2, "srv-1": 1, "srv-2": 1}
    hours = {(START + n * HOUR) // HOUR % 24: 1 for n in (3, 5)}  # of its rows, or of the alert without one
    assert {hour: n for hour, n in enumerate(told["hours"]) if n} == hours
    page = house.signed_in("viewer1").get("/entity/user?name=eve").text
    assert "Hosts in its alerts (3)" in page
    assert "not at hand" in page
