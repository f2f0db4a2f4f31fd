"""Closing alerts teaches the service; opening them again, or switching it off, takes that back."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from entente.cli import main
from entente.service.alerts import AlertStore
from entente.service.database import connect, set_fact, transaction
from entente.service.suppression import Suppressions

from .conftest import HOUR, alert
from .test_loop import START, World

DAY = 24 * HOUR


def scanner(database: sqlite3.Connection, count: int) -> list[str]:
    alerts = [alert(i, src="scanner", score=2.0 + i) for i in range(count)]
    store = AlertStore(database)
    with transaction(database):
        store.add(alerts, Suppressions())
    for one in alerts:
        store.change(one.id, "maria", status="closed", reason="benign")
    return [one.id for one in alerts]


def test_closed_alerts_teach_for_thirty_days_and_reopening_one_takes_it_back(
    database: sqlite3.Connection,
) -> None:
    names, store = scanner(database, 4), AlertStore(database)
    (lesson,) = store.lessons(DAY).of.values()
    assert (lesson.closed, lesson.bar) == (4, 4.5)
    assert store.lessons(40 * DAY).of == {}
    store.change(names[3], "maria", status="open")
    (lesson,) = store.lessons(DAY).of.values()
    assert (lesson.closed, lesson.bar) == (3, 3.5)
    store.change(names[0], "maria", status="closed", reason="true")
    assert store.lessons(DAY).of == {}


@pytest.mark.parametrize("feedback", [True, False])
def test_the_scorer_is_given_what_was_taught_unless_that_is_switched_off(
    tmp_path: Path, feedback: bool
) -> None:
    world = World(tmp_path, feedback=feedback)
    close = [alert(i, src="scanner", start=START * 1_000_000 + i) for i in range(3)]
    with transaction(world.connection):
        AlertStore(world.connection).add(close, Suppressions())
    for one in close:
        AlertStore(world.connection).change(one.id, "maria", status="closed", reason="benign")
    world.write(START + 10, START + 800)
    world.drain()
    assert bool(world.scorer.lessons.of) == feedback


def test_lessons_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    connection = connect(tmp_path / "service.db")
    scanner(connection, 3)
    with transaction(connection):
        set_fact(connection, "until", str(DAY))
    connection.close()
    with pytest.raises(SystemExit):
        main(["alerts", "lessons", "--service", str(tmp_path), "--json"])
    assert json.loads(capsys.readouterr().out) == [
        {"silo": "porto", "src": "scanner", "closed": 3, "bar": 3.5}
    ]
