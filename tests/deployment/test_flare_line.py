"""A bad day for one federation on loopback: a slow line that breaks, a silo that sleeps, one whose clock is
ten minutes off, one that floods; and the morning after, a coordinator restored from an old backup.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from entente.deployment.audit import read, verify
from entente.deployment.process import _descendants, pid_of
from entente.deployment.site import RunState, Site

from .line import Line, point

pytestmark = pytest.mark.slow

SILOS = ("east", "north", "west")
RATE = 1_000_000
"""Bytes a second in each direction of the slow line."""
ROUNDS = 7


class Flood(threading.Thread):
    """A silo that greets and then sends frames as fast as they are taken."""

    def __init__(self, port: int, kit: Path) -> None:
        super().__init__(daemon=True)
        self.port, self.kit = port, kit
        self.sent = 0
        self.stopped = threading.Event()

    def run(self) -> None:
        import msgpack
        from nvflare.fuel.f3.sfm.constants import Types
        from nvflare.fuel.f3.sfm.prefix import PREFIX_LEN, Prefix

        def frame(kind: int, payload: bytes) -> bytes:
            buffer = bytearray(PREFIX_LEN + len(payload))
            Prefix(len(buffer), 0, kind, 0, 0, 1, 1, 1).to_buffer(buffer, 0)
            buffer[PREFIX_LEN:] = payload
            return bytes(buffer)

        startup = self.kit / "startup"
        context = ssl.create_default_context(cafile=str(startup / "rootCA.pem"))
        context.check_hostname = False
        context.load_cert_chain(startup / "client.crt", startup / "client.key")
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port)) as plain,
            context.wrap_socket(plain) as secure,
        ):
            name = f"{self.kit.name}.flood"
            secure.sendall(
                frame(Types.HELLO, msgpack.packb({"endpoint_name": name, "timestamp": time.time()}))
            )
            junk = frame(Types.DATA, os.urandom(100_000))
            secure.settimeout(0.5)
            while not self.stopped.is_set():
                with contextlib.suppress(TimeoutError):
                    self.sent += secure.send(junk)


def _memory(pid: int) -> int:
    """Megabytes that a process holds."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) // 1000
    return 0


def _signal(lab: Any, silo: str, what: signal.Signals) -> None:
    pid = pid_of(Site.load(lab.kits[silo]))
    assert pid is not None
    for process in (pid, *_descendants(pid)):
        os.kill(process, what)


class Day:
    """What was seen on the bad day."""

    def __init__(self, lab: Any, line: Line, backup: Path) -> None:
        self.lab, self.line, self.backup = lab, line, backup
        self.experiment = lab.write("bad-day", rounds=ROUNDS, table=16384)
        self.run = lab.detached(self.experiment)
        shutil.copytree(self.run.path, backup)
        pid = pid_of(lab.coordinator)
        assert pid is not None
        before, self.log = _memory(pid), (lab.kits["coordinator"] / "console.log").stat().st_size
        line.break_after(300_000, 1_500_000)  # a model has 527 kB
        flood = Flood(lab.port, lab.kits["north"])
        flood.start()
        _signal(lab, "east", signal.SIGSTOP)
        try:
            time.sleep(lab.deadline + 5)
        finally:
            _signal(lab, "east", signal.SIGCONT)
        flood.stopped.set()
        flood.join(10)
        self.flooded = flood.sent
        self.grown = _memory(pid) - before
        self.log = (lab.kits["coordinator"] / "console.log").stat().st_size - self.log
        for silo in SILOS:
            lab.behave(silo)
        self.state = lab.ended(self.run, 240)
        self.rounds = [record for record in self.run.rounds() if record.trained]


@pytest.fixture(scope="module")
def day(lab: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    line = Line(lab.port, RATE)
    for silo in ("north", "west"):
        lab.entente("federation", "stop", lab.kits[silo])
    point(lab.kits["west"], line.port)
    for silo in SILOS:
        lab.behave(silo, pace=1.0, clock=-600 if silo == "north" else 0)
    lab.start("north", "west")
    lab.wait_for(*SILOS)
    try:
        yield Day(lab, line, tmp_path_factory.mktemp("backup") / "run")
    finally:
        for silo in SILOS:
            lab.behave(silo)
        line.rate = 1 << 40  # a line like any other from now on


def test_the_run_comes_to_its_end(day: Day) -> None:
    assert day.state["phase"] == "done", day.state
    assert {record.round for record in day.rounds if record.aggregated} == set(range(1, ROUNDS + 1))


def test_a_slow_line_that_breaks_costs_its_silo_a_round_at_most_and_it_is_back_by_itself(day: Day) -> None:
    assert day.line.cuts == 2
    assert day.line.carried > ROUNDS * 500_000
    took = day.lab.took_part(day.run, "west")
    assert took[-1], took


def test_a_silo_that_slept_past_the_deadline_is_left_out_and_is_back_when_it_wakes(day: Day) -> None:
    took = day.lab.took_part(day.run, "east")
    assert False in took
    assert took[-1], took


def test_a_clock_ten_minutes_off_makes_no_difference(day: Day) -> None:
    assert all(day.lab.took_part(day.run, "north"))
    own = [entry for _, entry in read(Site.load(day.lab.kits["north"]).audit.path)]
    assert verify(Site.load(day.lab.kits["north"]).audit.path).entries == len(own)


def test_a_flood_is_taken_slowly_and_costs_neither_memory_nor_disk(day: Day) -> None:
    assert day.flooded > 1_000_000
    assert day.grown < 300, day.grown
    assert day.log < 20_000_000, day.log


def test_a_coordinator_restored_from_an_old_backup_goes_on_from_there(day: Day) -> None:
    """Its silos are farther than they remember: they start afresh where it stands, and say so."""
    lab = day.lab
    lab.entente("federation", "stop", lab.kits["coordinator"])
    shutil.rmtree(day.run.path)
    shutil.copytree(day.backup, day.run.path)
    lab.start("coordinator")
    lab.wait_for(*SILOS)
    done = lab.submit(day.experiment, "--resume", "--detach")
    assert done.returncode == 0, done.stderr
    lab.wait(lambda: RunState(day.run.path).read().get("phase") == "running", 120, "the resumed run")
    assert lab.ended(day.run)["phase"] == "done"
    assert {record.round for record in day.run.rounds() if record.aggregated} == set(range(1, ROUNDS + 1))
    events = verify(Site.load(lab.kits["north"]).audit.path).events
    assert "state-forgotten" in events
