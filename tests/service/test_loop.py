"""Every event is kept once and every window scored once, whatever happens in between."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import entente.service.loop as loop_module
from entente.detection.feedback import Lessons
from entente.logs.events import with_all_columns
from entente.logs.formats.base import Options
from entente.logs.refine import Refinement
from entente.logs.schema import ORIGIN
from entente.logs.stream import LineReader
from entente.service.config import Watch
from entente.service.database import connect
from entente.service.loop import Input, Outcome, WatchLoop, named_rows, state_number
from entente.service.sources.base import Lines
from entente.service.sources.spool import Spool, SpoolOptions

from .conftest import alert

MINUTE = 60
WIDTH = 600 * 1_000_000
START = 1_700_000_000 // 600 * 600


class Counting:
    """A scorer that remembers the events of every window and raises one alert per window that has any."""

    model = "counting"
    width = WIDTH
    drift = None

    def __init__(self, folder: Path | None) -> None:
        table = json.loads((folder / "state.json").read_text()) if folder and folder.is_dir() else {}
        self.seen: list[str] = table.get("seen", [])
        self.until: int | None = table.get("until")
        self.windows: list[int] = table.get("windows", [])

    def score(self, events: pa.Table, start: int, end: int, lessons: Lessons) -> Outcome:
        self.lessons = lessons
        rows = events.to_pylist()
        self.seen += [f"{row['time'] // 1_000_000} {row['src']}" for row in rows]
        self.windows += list(range(start, end, WIDTH))
        self.until = end
        busy = sorted({row["time"] // WIDTH * WIDTH for row in rows})
        alerts = tuple(alert(0, start=one, end=one + WIDTH) for one in busy)
        return Outcome(alerts, len(rows))

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        table = {"seen": self.seen, "until": self.until, "windows": self.windows}
        (folder / "state.json").write_text(json.dumps(table))

    def refresh(self) -> str | None:
        return None


class World:
    """A spool folder and a service over it that can die and come back."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.now = float(START)
        source = {"name": "zeek", "type": "spool"}
        values = {"run": "run", "folder": str(folder / "service"), "sources": [source], "lateness": 120}
        outputs = [{"name": "files", "type": "file"}]
        self.config = Watch.model_validate(values | {"outputs": outputs} | settings)
        self.connection: sqlite3.Connection
        self.said: list[str] = []
        self.start()

    def start(self) -> None:
        self.connection = connect(self.config.folder / "service.db")
        states = self.config.folder / "states"
        self.scorer = Counting(states / f"{state_number(self.connection):08d}")
        spool = Spool(SpoolOptions(path=self.logs), "sources.zeek")
        reader = LineReader("auto", Options(), Refinement())
        self.engine = WatchLoop(
            self.config,
            self.connection,
            [Input("zeek", spool, reader)],
            self.scorer,
            clock=lambda: self.now,
            report=self.said.append,
        )

    def write(self, *seconds: float, file: str = "conn.log") -> None:
        with (self.logs / file).open("a") as log:
            for second in seconds:
                row = {
                    "ts": second,
                    "uid": "C",
                    "id.orig_h": "10.0.0.1",
                    "id.resp_h": "10.0.0.2",
                    "proto": "tcp",
                }
                log.write(json.dumps(row) + "\n")

    def drain(self) -> None:
        while self.engine.step():
            pass

    def count(self, query: str) -> int:
        return int(self.connection.execute(query).fetchone()[0])


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_window_stays_open_until_its_late_events_have_come(world: World) -> None:
    world.write(START + 10, START + 590)
    world.drain()
    assert world.scorer.windows == []
    world.write(START + 650, START + 20)  # the second one was written late
    world.drain()
    assert world.scorer.windows == []
    world.write(START + 721)
    world.drain()
    assert world.scorer.windows == [START * 1_000_000]
    assert len(world.scorer.seen) == 3


def test_what_comes_later_than_that_is_counted_and_not_scored(world: World) -> None:
    world.write(START + 10, START + 800)
    world.drain()
    world.write(START + 20, START + 2000)
    world.drain()
    assert world.engine.tally.dropped == {"later than `lateness`": 1}
    assert world.count("SELECT CAST(value AS INTEGER) FROM facts WHERE name LIKE 'dropped/later%'") == 1


def test_a_row_with_a_wrong_clock_is_set_aside_and_closes_nothing(world: World) -> None:
    world.write(START + 10, START + 2 * 86400, START + 30)
    world.drain()
    assert world.engine.tally.dropped == {"ahead of the clock": 1}
    assert world.scorer.windows == []
    world.write(*(START + second for second in range(40, 800, 10)))
    world.drain()
    assert world.scorer.windows == [START * 1_000_000]


def test_one_row_that_is_ahead_within_the_tolerance_does_not_close_windows(world: World) -> None:
    world.write(*(START + second for second in range(300)))
    world.write(START + 3000)
    world.drain()
    assert world.scorer.windows == []


def test_a_silent_source_is_named_and_its_windows_are_closed(world: World) -> None:
    world.write(START + 10)
    world.drain()
    assert world.engine.silent() == []
    world.now += 1000
    world.drain()
    assert world.engine.silent() == ["zeek"]
    world.write(START + 1300)
    world.drain()
    assert world.scorer.windows == [START * 1_000_000]


def test_logs_of_no_use_and_bad_rows_are_counted_with_their_reasons(world: World) -> None:
    (world.logs / "notes.log").write_text("hello\n")
    with (world.logs / "conn.log").open("w") as log:
        log.write("not json\n")
    world.write(START + 5)
    world.drain()
    assert world.engine.tally.dropped["unknown format"] == 1
    assert sum(world.engine.tally.dropped.values()) == 2
    assert any("notes.log" in line for line in world.said)


@pytest.mark.parametrize("again", [False, True])
def test_a_suppression_file_that_is_not_valid_is_named_and_the_rules_before_go_on(
    world: World, again: bool
) -> None:
    file = world.config.folder / "suppressions.toml"
    file.write_text('[[suppress]]\nid = "known"\nreason = "scanner"\nsrc = "ws-0"\n')
    world.write(START + 10, START + 800)
    world.drain()
    file.write_text("[[suppress]\nid = ")
    if again:
        world.start()
    world.write(START + 1500, START + 3000)
    world.drain()
    assert world.count("SELECT count(*) FROM alerts WHERE suppressed_by = 'known'") == 3
    assert len([line for line in world.said if "suppressions.toml" in line]) == 1
    assert "go on" in world.engine.problems()[0]
    file.unlink()
    world.now += 3600
    world.write(START + 4500)
    world.drain()
    assert world.engine.problems() == ()
    assert world.count("SELECT count(*) FROM alerts WHERE suppressed_by IS NULL") == 1


def test_suppressed_alerts_are_kept_and_not_sent(world: World) -> None:
    rule = '[[suppress]]\nid = "known"\nreason = "scanner"\nsrc = "ws-0"\n'
    (world.config.folder / "suppressions.toml").write_text(rule)
    world.write(START + 10, START + 800)
    world.drain()
    assert world.count("SELECT count(*) FROM alerts WHERE suppressed_by = 'known'") == 1
    assert world.count("SELECT count(*) FROM outbox") == 0


class Killed(Exception):
    """Stands for kill -9."""


def dying(world: World, monkeypatch: pytest.MonkeyPatch, place: int) -> Callable[[], None]:
    """Let the service die at the n-th moment at which it touches the disk."""
    left = place

    def tick() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed

    original: Callable[..., AbstractContextManager[sqlite3.Connection]] = vars(loop_module)["transaction"]

    class Around:
        def __init__(self, connection: sqlite3.Connection) -> None:
            self.inner = original(connection)

        def __enter__(self) -> sqlite3.Connection:
            tick()
            return self.inner.__enter__()

        def __exit__(self, *error: Any) -> bool | None:
            try:
                if error[0] is None:
                    tick()  # just before the commit
            except Killed as stop:
                self.inner.__exit__(Killed, stop, None)
                raise
            ended = self.inner.__exit__(*error)
            tick()  # just after it
            return ended

    monkeypatch.setattr(loop_module, "transaction", Around)
    return tick


@pytest.mark.parametrize("place", range(1, 14))
def test_killed_anywhere_the_service_goes_on_as_if_nothing_had_happened(
    world: World, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    world.now += 4000
    times = [START + second for second in range(0, 4000, 7)]
    with monkeypatch.context() as patch:
        dying(world, patch, place)
        try:
            for begin in range(0, len(times), 100):
                world.write(*times[begin : begin + 100])
                world.drain()
        except Killed:
            written = begin + 100
        else:
            written = len(times)
    world.connection.close()
    world.start()
    world.write(*times[written:])
    world.drain()
    world.engine.flush()
    assert sorted(world.scorer.seen) == sorted(f"{second} 10.0.0.1" for second in times)
    assert world.scorer.windows == sorted(set(world.scorer.windows))
    assert world.count("SELECT count(*) FROM alerts") == len(world.scorer.windows) == 7
    assert world.count("SELECT count(*) FROM outbox") == 7


def test_a_window_of_more_events_than_may_wait_is_read_to_its_end_and_said(tmp_path: Path) -> None:
    world = World(tmp_path, pending=1000)
    world.write(*(START + n / 10 for n in range(1500)))
    world.drain()
    world.write(*(START + 150 + n / 10 for n in range(1500)))
    world.drain()
    assert world.engine.pending.rows == 3000
    (problem,) = world.engine.problems()
    assert "zeek" in problem
    assert "3,000" in problem
    world.write(*(START + 700 + 10 * n for n in range(100)))
    world.drain()
    assert START * 1_000_000 in world.scorer.windows
    assert len(world.scorer.seen) + world.engine.pending.rows == 3100
    assert world.engine.problems() == ()


def test_a_source_that_is_ahead_is_not_read_while_too_much_waits_and_does_not_count_as_silent(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, pending=1000)
    slow = Spool(SpoolOptions(path=world.logs, pattern="slow*"), "sources.slow")
    fast = Spool(SpoolOptions(path=world.logs, pattern="fast*"), "sources.fast")
    world.engine.inputs = {
        name: Input(name, source, LineReader("auto", Options(), Refinement()))
        for name, source in (("slow", slow), ("fast", fast))
    }
    world.write(START + 1, file="slow.log")
    world.write(*(START + 300 + n / 10 for n in range(1500)), file="fast.log")
    world.drain()
    world.write(*(START + 500 + n / 10 for n in range(1500)), file="fast.log")
    for _ in range(10):
        world.now += 100
        world.write(START + 2, file="slow.log")
        world.drain()
    assert world.engine.pending.rows == 1511  # of the fast source nothing more
    assert world.engine.silent() == []
    assert world.engine.problems()[0].count("slow") == 1
    for file in ("slow.log", "fast.log"):
        assert world.scorer.windows == []
        world.write(*(START + 1300 + n for n in range(100)), file=file)
        world.drain()
    assert world.scorer.windows == [START * 1_000_000, (START + 600) * 1_000_000]
    assert world.engine.tally.dropped == {}
    assert len(world.scorer.seen) + world.engine.pending.rows == 1 + 10 + 3000 + 200


def test_evidence_names_a_row_as_its_source_does() -> None:
    rows = [
        {"time": 1, "src": "a", "dst": "b", "log": "topic t partition 3 offset", "line": n} for n in (8, 9)
    ]
    events = with_all_columns(pa.Table.from_pylist(rows))
    offsets = named_rows(events, Lines("topic t partition 3 offset", b"", b"x\ny\nz\n", 7, (100, 200, 300)))
    assert offsets.select(ORIGIN).to_pylist()[1] == {"log": "topic t partition 3 offset", "line": 300}
    named = named_rows(events, Lines("index logs", b"", b"x\ny\nz\n", 7, ("logs/_doc/a", "logs/_doc/b", "c")))
    assert named.select(ORIGIN).to_pylist()[0] == {"log": "logs/_doc/b", "line": None}
    assert named.schema == events.schema
