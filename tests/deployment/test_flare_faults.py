"""Faults on a provisioned federation on loopback; every test leaves it as it found it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import Any

import pytest

from entente.artifacts import read_json
from entente.deployment.audit import read, verify
from entente.deployment.process import _descendants, pid_of
from entente.deployment.site import RunState, Site

pytestmark = pytest.mark.slow

SILOS = ("east", "north", "west")


def test_over_sized_damaged_endless_and_late_updates_are_refused_by_name_and_the_rounds_go_on(
    lab: Any,
) -> None:
    experiment = lab.write("rubbish", rounds=5)
    lab.behave("west", oversized=1, damaged=2, endless=3, slow=4, by=lab.deadline + 8)
    done = lab.submit(experiment)
    lab.behave("west")
    assert done.returncode == 0, done.stderr
    run = lab.run(experiment)
    records = [record for record in run.rounds() if record.trained]
    assert "over-sized" in records[0].refused["west"]
    assert "damaged" in records[1].refused["west"]
    assert "loss" in records[2].refused["west"]  # 10**400
    assert "deadline" in records[3].refused["west"]
    assert all(lab.took_part(run, "east"))
    refused = [e for _, e in read(lab.coordinator.audit.path) if e["event"] == "update-refused"]
    assert {entry["silo"] for entry in refused} == {"west"}


def test_a_killed_silo_is_left_out_comes_back_and_takes_part_again(lab: Any) -> None:
    experiment = lab.write("killed", rounds=25)
    for silo in SILOS:
        lab.behave(silo, pace=1.5)
    run = lab.detached(experiment)
    lab.kill("west")
    lab.wait(lambda: not lab.took_part(run, "west")[-1], 60, "a round without the killed silo")
    lab.start("west")
    lab.wait(lambda: RunState(run.path).read()["phase"] == "rejoin", 90, "the pause for the returned silo")
    for silo in SILOS:
        lab.behave(silo)
    assert lab.ended(run)["phase"] == "done"
    took = lab.took_part(run, "west")
    assert took[0]
    assert False in took
    assert took[-1]
    assert all(lab.took_part(run, "east"))
    assert "job-continued" in verify(lab.coordinator.audit.path).events


def test_a_silo_whose_job_breaks_down_is_left_out_and_asked_in_again(lab: Any) -> None:
    """By itself FLARE would end everybody's job; out of memory at one silo is enough for that."""
    experiment = lab.write("broken", rounds=20)
    for silo in SILOS:
        lab.behave(silo, pace=1.0)
    run = lab.detached(experiment)
    pid = pid_of(Site.load(lab.kits["west"]))
    assert pid is not None
    for job in _descendants(pid):
        os.kill(job, signal.SIGKILL)
    lab.wait(lambda: RunState(run.path).read()["phase"] == "rejoin", 90, "the pause for the broken silo")
    for silo in SILOS:
        lab.behave(silo)
    assert lab.ended(run)["phase"] == "done"
    took = lab.took_part(run, "west")
    assert False in took
    assert took[-1]
    assert all(lab.took_part(run, "east"))
    failed = [e for _, e in read(lab.coordinator.audit.path) if e["event"] == "silo-failed"]
    assert {entry["silo"] for entry in failed} == {"west"}


def test_a_killed_coordinator_goes_on_to_the_same_bits(lab: Any) -> None:
    experiment = lab.write("resumed", rounds=8)
    for silo in SILOS:
        lab.behave(silo, pace=1.0)
    run = lab.detached(experiment)
    lab.kill("coordinator")
    reached = len(run.rounds())
    for silo in SILOS:
        lab.behave(silo)
    lab.start("coordinator")
    lab.wait_for(*SILOS)
    again = lab.submit(experiment)
    assert again.returncode == 2
    assert "--resume" in again.stderr
    done = lab.submit(experiment, "--resume")
    assert done.returncode == 0, done.stderr
    assert reached < 8
    assert lab.same(run, lab.in_one_process(experiment))


def test_below_quorum_the_run_waits_then_stops_with_a_checkpoint_and_resumes(lab: Any) -> None:
    experiment = lab.write("quorum", rounds=10)
    for silo in SILOS:
        lab.behave(silo, pace=1.0)
    run = lab.detached(experiment)
    lab.kill("north")
    lab.kill("west")
    state = lab.ended(run, 240)
    assert state["phase"] == "stopped"
    assert "1 of 3 silos" in state["reason"]
    assert "north" in state["reason"]
    assert "west" in state["reason"]
    assert run.checkpoints().load() is not None
    for silo in SILOS:
        lab.behave(silo)
    lab.start("north", "west")
    lab.wait_for(*SILOS)
    done = lab.submit(experiment, "--resume")
    assert done.returncode == 0, done.stderr
    assert lab.took_part(run, "west")[-1]


def test_a_full_disk_at_the_coordinator_stops_the_run_cleanly(lab: Any) -> None:
    """The run folder is on a disk of two megabytes; a checkpoint of this model needs four."""
    experiment = lab.write("full", rounds=3, table=65536)
    run = lab.run(experiment)
    run.path.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(run.path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root; the same is tested without one in test_flare_drive")
    try:
        done = lab.submit(experiment)
        assert done.returncode == 7, done.stderr
        assert "No space left on device" in done.stderr
        state = read_json(run.path / "state.json")
        assert state["phase"] == "stopped"
        told = json.loads(lab.entente("federation", "status", lab.kits["coordinator"], "--json").stdout)
        assert told["running"]
    finally:
        subprocess.run(["umount", "-l", str(run.path)], check=True)


def test_a_revoked_certificate_is_out_at_once_and_does_not_get_in_again(lab: Any) -> None:
    """Neither over the connection it had, nor with a new one; nobody else notices."""
    from cryptography import x509

    own = x509.load_pem_x509_certificate((lab.kits["west"] / "startup" / "client.crt").read_bytes())
    serial = ("--serial", str(own.serial_number))
    assert lab.entente("federation", "revoke", lab.kits["coordinator"], "west", *serial).returncode == 0
    lab.wait_for("east", "north")
    lab.entente("federation", "stop", lab.kits["west"])
    lab.start("west")
    refusal = f"serial {own.serial_number}) is revoked"
    console = lab.kits["coordinator"] / "console.log"
    lab.wait(lambda: refusal in console.read_text(), 90, "the refusal")
    assert set(lab.coordinator.members() or {}) == {"east", "north"}
    lab.entente("federation", "revoke", lab.kits["coordinator"], "west", *serial, "--undo")
    lab.wait_for(*SILOS)
