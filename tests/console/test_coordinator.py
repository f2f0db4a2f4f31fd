"""The coordinator's pages, and starting and stopping experiments."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from entente.deployment.revoke import revoke
from entente.deployment.site import Site

from .house import House
from .places import make_kit, make_run, write_status


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_kit(tmp_path_factory.mktemp("kit"))


def test_the_federation_page_says_who_is_in_and_how_long_certificates_last(
    build: Callable[..., House], kit: Path
) -> None:
    client = build(kit=kit).signed_in("viewer1")
    page = client.get("/federation").text
    assert "Who is in" in page
    told = client.get("/api/v1/federation").json()
    assert {one["name"] for one in told["silos"]} == {"east", "north", "west"}
    assert {one["name"] for one in told["silos"] if one["since"]} == {"east", "north"}
    assert [one["version"] for one in told["silos"]] == [None, "0.0.9", None]
    assert '<span class="wrong">0.0.9</span>' in page
    assert all(300 < one["days"] < 4000 for one in told["certificates"])
    assert {one["site"] for one in told["certificates"]} == {"coordinator", "east", "north", "west"}
    revoke(Site.load(kit), "west")
    try:
        told = client.get("/api/v1/federation").json()
    finally:
        revoke(Site.load(kit), "west", undo=True)
    assert {one["site"] for one in told["certificates"] if one["revoked"]} == {"west"}
    assert told["audit"]["entries"] >= 2
    assert "whole" in page


def test_a_broken_audit_chain_is_named(build: Callable[..., House], tmp_path: Path, kit: Path) -> None:
    import shutil

    copy = tmp_path / "kit"
    shutil.copytree(kit, copy)
    record = copy / "audit.jsonl"
    record.write_text(record.read_text().replace('"silo": "east"', '"silo": "other"'))
    assert "this entry was changed" in build(kit=copy).signed_in().get("/federation").text


def test_a_run_shows_contributions_with_their_parts_norms_refusals_and_warnings(
    build: Callable[..., House], tmp_path: Path
) -> None:
    run = make_run(tmp_path / "runs" / "first")
    client = build(run=run).signed_in("viewer1")
    page = client.get("/runs/first").text
    for words in (
        "refused: an update that is not finite",
        "lyon stands out",
        "clipped to M",
        "8.3 kB",
        "canaries",
    ):
        assert words in page
    rounds = client.get("/api/v1/runs/first").json()["rounds"]
    assert set(rounds[0]["silos"]["graz"]) >= {"j", "s", "d", "r", "norm", "bytes_up", "seconds"}


def test_a_run_is_shown_while_it_grows_and_when_its_last_line_is_cut(
    build: Callable[..., House], tmp_path: Path
) -> None:
    run = make_run(tmp_path / "runs" / "first", rounds=3)
    (run / "metrics.json").unlink()
    client = build(run=run).signed_in("viewer1")
    assert "3 rounds" in client.get("/runs/first").text
    lines = (run / "rounds.jsonl").read_text().splitlines()
    fourth = json.dumps(json.loads(lines[-1]) | {"round": 4, "id": 4})
    (run / "rounds.jsonl").write_text("\n".join([*lines, fourth, lines[0][:40]]))
    assert "4 rounds" in client.get("/runs/first").text


def test_a_damaged_run_is_named_and_the_others_are_shown(build: Callable[..., House], tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "first")
    make_run(tmp_path / "runs" / "second")
    (tmp_path / "runs" / "second" / "rounds.jsonl").write_text("{}\nnonsense\n{}\n")
    client = build(run=run).signed_in("viewer1")
    assert "unreadable" in client.get("/runs").text
    assert client.get("/runs/second").status_code == 200
    assert client.get("/runs/../../etc").status_code == 404
    assert client.get("/runs/none").status_code == 404


def test_two_runs_are_compared_by_what_differs(build: Callable[..., House], tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "first", seed=0)
    make_run(tmp_path / "runs" / "second", seed=5)
    page = build(run=run).signed_in("viewer1").get("/runs/compare?one=first&other=second").text
    assert "<code>seed</code>" in page
    assert "average precision" in page
    assert "federation.rounds" not in page


class FakeProcess:
    """Stands in for a training process."""

    pid = 4_000_000

    def __init__(self, command: list[str], **options: Any) -> None:
        type(self).last = tuple(command)

    last: tuple[str, ...] = ()

    def poll(self) -> None:
        return None


def test_only_an_operator_starts_an_experiment_and_its_command_is_fixed(
    build: Callable[..., House], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tmp_path / "experiments"
    (files / "events").mkdir(parents=True)
    (files / "monday.toml").write_text('name = "monday"\nseed = 4\n[federation]\nrounds = 7\n')
    (files / "lacking.toml").write_text('[data]\nevents = "elsewhere"\n')
    (files / "broken.toml").write_text("rounds = = 7\n")
    house = build(experiments=files)
    monkeypatch.setattr(subprocess, "Popen", FakeProcess)
    page = house.signed_in("viewer1").get("/runs").text
    assert "At most 7 rounds of behaviour" in page
    assert "Only an operator" in page
    assert "is not valid TOML" in page
    assert f"there is no folder {files / 'elsewhere'}" in page
    start = {"action": "start"}
    assert house.signed_in("analyst1").post("/experiments/monday.toml", data=start).status_code == 403
    operator = house.signed_in("operator1")
    assert operator.post("/experiments/monday.toml", data=start).status_code == 200
    assert FakeProcess.last[1:4] == ("-m", "entente", "train")
    assert FakeProcess.last[-3:] == ("--out", str(files / "runs" / "monday-4"), "--quiet")
    assert operator.post("/experiments/broken.toml", data=start).status_code == 400
    assert operator.post("/experiments/lacking.toml", data=start).status_code == 400
    assert operator.post("/experiments/..%2Fservice.toml", data=start).status_code == 404
    assert operator.post("/experiments/monday.toml", data={"action": "resume"}).status_code == 400
    assert operator.post("/experiments/monday.toml", data={"action": "stop"}).status_code == 400
    assert house.entries()[-1]["event"] == "experiment-started"


def test_a_run_that_was_cut_off_is_resumed(
    build: Callable[..., House], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tmp_path / "experiments"
    (files / "events").mkdir(parents=True)
    (files / "monday.toml").write_text('name = "monday"\nseed = 4\n')
    run = make_run(files / "runs" / "monday-4", rounds=3)
    (run / "metrics.json").unlink()
    house = build(experiments=files)
    monkeypatch.setattr(subprocess, "Popen", FakeProcess)
    operator = house.signed_in("operator1")
    assert "It was begun and can go on. Resuming it:" in operator.get("/runs").text
    assert operator.post("/experiments/monday.toml", data={"action": "start"}).status_code == 400
    told = operator.post("/experiments/monday.toml", data={"action": "resume"})
    assert (told.status_code, "Resumed: monday.toml." in told.text) == (200, True)
    assert FakeProcess.last[-4:] == ("--out", str(run), "--quiet", "--resume")
    assert (house.entries()[-1]["run"], house.entries()[-1]["resume"]) == ("monday-4", True)


def test_an_attempt_that_failed_says_why(build: Callable[..., House], tmp_path: Path) -> None:
    files = tmp_path / "experiments"
    (files / "events").mkdir(parents=True)  # empty: `entente train` will not like it
    (files / "monday.toml").write_text('name = "monday"\nseed = 4\n')
    client = build(experiments=files).signed_in("operator1")
    assert client.post("/experiments/monday.toml", data={"action": "start"}).status_code == 200
    until = time.monotonic() + 120
    while "The last attempt ended with" not in (page := client.get("/runs").text):
        assert time.monotonic() < until, page
        time.sleep(0.2)
    assert "events" in page.partition("The last attempt ended with")[2]


def test_a_started_experiment_is_stopped_by_an_interrupt(
    build: Callable[..., House], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tmp_path / "experiments"
    (files / "events").mkdir(parents=True)
    (files / "monday.toml").write_text('name = "monday"\n')
    house = build(experiments=files)
    experiments = house.app.state.experiments
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(type(experiments), "_pid", lambda self, run: 4711)
    monkeypatch.setattr("os.kill", lambda pid, number: sent.append((pid, number)))
    answer = house.signed_in("operator1").post("/experiments/monday.toml", data={"action": "stop"})
    assert answer.status_code == 200
    assert sent == [(4711, signal.SIGINT)]


def test_a_job_that_is_under_way_is_aborted_through_flare(kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from contextlib import contextmanager

    from entente.deployment import submit
    from entente.deployment.site import RunState, Site
    from entente.errors import UsageError

    aborted: list[str] = []

    class Flare:
        def abort_job(self, job: str) -> None:
            aborted.append(job)

    @contextmanager
    def session(*_: Any) -> Any:
        yield Flare()

    monkeypatch.setattr(submit, "session", session)
    site = Site.load(kit)
    run = site.run("monday")
    with pytest.raises(UsageError, match="no job"):
        submit.abort(site, run)
    run.mkdir(parents=True)
    RunState(run).write("running", job="job-1")
    submit.abort(site, run)
    assert aborted == ["job-1"]


def test_health_says_what_to_look_after(build: Callable[..., House]) -> None:
    house = build()
    client = house.signed_in("viewer1")
    assert "never run here" in client.get("/health").text
    assert house.settings.service is not None
    write_status(house.settings.service, at=0.0)
    page = client.get("/health").text
    for words in (
        "does not run", "Source vpn is silent", "Output siem takes no alerts: 3 to deliver after 2 attempts",
        "refused 1 alert for good",
        "4.2 times as many unusual edges", "late",
    ):  # fmt: skip
        assert words in page, words
