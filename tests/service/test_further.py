"""Edges of incidents that are no alerts: kept in the store, shown beside their alerts, sent to nobody."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from tests.service.conftest import alert

from entente.cli.alerts import show
from entente.service.alerts import AlertStore, Filter
from entente.service.database import MIGRATIONS, connect, transaction
from entente.service.suppression import Suppressions


def test_further_edges_are_kept_once_and_are_no_alerts(database: sqlite3.Connection) -> None:
    store = AlertStore(database)
    edges = [alert(n, incident="one" if n else "other", raised=False) for n in (2, 0, 1)]
    for _ in range(2):
        with transaction(database):
            store.add([alert(3, incident="one")], Suppressions(()))
            store.add_further(edges)
    assert [edge.start for edge in store.further("one")] == [alert(1).start, alert(2).start]
    assert [edge.start for edge in store.further("one", most=1)] == [alert(2).start]
    assert store.count(Filter(suppressed=None)) == 1


def test_an_alert_is_shown_with_the_further_edges_of_its_incident(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = connect(tmp_path / "service.db")
    store = AlertStore(connection)
    raised = alert(3, incident="one")
    with transaction(connection):
        store.add([raised], Suppressions(()))
        store.add_further([alert(4, incident="one", raised=False, dst="srv-\x1b[2J")])
    connection.close()
    show(tmp_path, raised.id)
    assert "further: 1970-01-01 04:00:00 ws-4 → srv-\\u001b[2J (first contact)" in capsys.readouterr().out
    show(tmp_path, raised.id, as_json=True)
    assert [edge["raised"] for edge in json.loads(capsys.readouterr().out)["further"]] == [False]


def test_a_database_of_the_version_before_gets_the_table(tmp_path: Path) -> None:
    old = connect(tmp_path / "service.db", MIGRATIONS[:1])
    with transaction(old):
        AlertStore(old).add([alert(1, incident="one")], Suppressions(()))
    old.close()
    new = connect(tmp_path / "service.db")
    assert AlertStore(new).count(Filter()) == 1
    assert AlertStore(new).further("one") == []
    new.close()
