"""The supervisor in a made-up FLARE server: joins, broken jobs, runs that go on or are given up."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from entente.artifacts import write_json
from entente.deployment.audit import read, verify
from entente.deployment.settings import parse_federation
from entente.deployment.site import RunState, Site

pytest.importorskip("nvflare")


class FakeManager:
    """Jobs by id, each with its status."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}

    def get_job(self, job: str, _: Any) -> Any:
        return SimpleNamespace(meta=self.jobs[job]) if job in self.jobs else None

    def clone(self, job: str, meta: dict[str, Any], _: Any) -> dict[str, Any]:
        made = f"{job}+"
        self.jobs[made] = {**meta, "job_id": made, "status": "SUBMITTED"}
        return self.jobs[made]


class FakeEngine:
    def __init__(self) -> None:
        self.manager = FakeManager()

    def get_component(self, _: str) -> FakeManager:
        return self.manager

    @contextmanager
    def new_context(self) -> Any:
        yield SimpleNamespace(get_engine=lambda: self)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    federation = parse_federation({"silos": ["east", "west"]})
    table = {"site": "coordinator", "role": "coordinator", "version": "0"}
    write_json(tmp_path / "kit.json", {**table, "federation": federation.model_dump(mode="json")})
    monkeypatch.chdir(tmp_path)
    return Site.load(tmp_path)


@pytest.fixture
def supervisor(site: Site) -> Any:
    from entente.deployment.supervisor import Supervisor

    return Supervisor()


def _run(site: Site, phase: str, job: str = "j", reached: int = 2) -> RunState:
    state = RunState(site.run("lab"))
    state.write(phase, job=job, round=reached)
    return state


def test_a_paused_run_goes_on_as_a_new_job(supervisor: Any, site: Site) -> None:
    engine, state = FakeEngine(), _run(site, "rejoin")
    engine.manager.jobs["j"] = {"name": "lab", "submitter_role": "lead", "status": "FINISHED:COMPLETED"}
    supervisor.sweep(engine)
    assert state.read()["job"] == "j+"
    assert engine.manager.jobs["j+"]["submitter_role"] == "lead"
    supervisor.sweep(engine)  # the new job is not over yet
    assert state.read()["job"] == "j+"


@pytest.mark.parametrize("phase", ["done", "stopped", "failed"])
def test_an_ended_run_is_left_alone(supervisor: Any, site: Site, phase: str) -> None:
    engine, state = FakeEngine(), _run(site, phase)
    engine.manager.jobs["j"] = {"status": "FINISHED:COMPLETED"}
    supervisor.sweep(engine)
    assert state.read()["job"] == "j"


def test_a_run_whose_jobs_never_start_is_given_up_instead_of_waited_for(supervisor: Any, site: Site) -> None:
    engine, state = FakeEngine(), _run(site, "rejoin")
    engine.manager.jobs["j"] = {"name": "lab"}
    for _ in range(10):
        for meta in engine.manager.jobs.values():
            meta["status"] = "FINISHED:CAN_NOT_SCHEDULE"
        supervisor.sweep(engine)
    assert state.read()["phase"] == "failed"
    assert "in the same round" in state.read()["reason"]
    assert verify(site.audit.path).events == {"job-continued": 3, "run-failed": 1}


def test_progress_earns_new_patience(supervisor: Any, site: Site) -> None:
    engine, state = FakeEngine(), _run(site, "rejoin")
    engine.manager.jobs["j"] = {"name": "lab"}
    for reached in range(3, 12):
        for meta in engine.manager.jobs.values():
            meta["status"] = "FINISHED:COMPLETED"
        state.write("rejoin", round=reached)
        supervisor.sweep(engine)
    assert state.read()["phase"] == "rejoin"


def test_a_restarted_coordinator_does_not_call_a_lost_run_running(supervisor: Any, site: Site) -> None:
    state = _run(site, "running")
    supervisor._close_lost_runs()
    assert state.read()["phase"] == "stopped"
    assert "--resume" in state.read()["reason"]


def test_a_failure_report_ends_only_the_part_of_a_known_reporter(supervisor: Any, site: Site) -> None:
    from nvflare.fuel.f3.cellnet.core_cell import make_reply
    from nvflare.fuel.f3.cellnet.defs import ReturnCode
    from nvflare.private.defs import CellMessageHeaderKeys, JobFailureMsgKey, new_cell_message

    seen = []

    def handled(request: Any) -> Any:
        seen.append(request.payload[JobFailureMsgKey.CODE])
        known = request.get_header(CellMessageHeaderKeys.TOKEN) == "t"
        return make_reply(ReturnCode.OK if known else ReturnCode.UNAUTHENTICATED, "", None)

    clients = {"t": SimpleNamespace(name="west")}
    server = SimpleNamespace(process_job_failure=handled, client_manager=SimpleNamespace(clients=clients))
    for token in ("t", "stranger"):
        report = {JobFailureMsgKey.JOB_ID: "j", JobFailureMsgKey.CODE: 101}
        supervisor._silo_failed(server, new_cell_message({CellMessageHeaderKeys.TOKEN: token}, report))
    assert seen == [0, 0]  # FLARE never sees a code that would end everybody's job
    assert supervisor.failed == {"west": {"failed": "j", "failures": 1}}
    assert [entry["silo"] for _, entry in read(site.audit.path)] == ["west"]


def test_joins_and_departures_are_recorded_once(supervisor: Any, site: Site) -> None:
    east = {"east": {"session": "a"}}
    supervisor._record({}, east)
    supervisor._record(east, east)
    supervisor._record(east, {"east": {"session": "b"}})
    supervisor._record({"east": {"session": "b"}}, {})
    assert [entry["event"] for _, entry in read(site.audit.path)] == [
        "silo-joined",
        "silo-joined",
        "silo-left",
    ]
