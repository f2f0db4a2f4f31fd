"""An index of the alert store by incident, in a file of the console's own, that catches up on its own.

New alerts are known by their row number, changed ones by the audit trail's; both only grow. The index holds
nothing that the store does not: delete the file and it is built again.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from entente.artifacts import private_files
from entente.console.cases import LONGEST, Case, summarise
from entente.console.database import Connections
from entente.console.filters import CaseFilter
from entente.detection.alerts import Alert
from entente.detection.metrics import MICROSECONDS, SECONDS_PER_DAY
from entente.service.database import connect, fact, set_fact, transaction

DAY = SECONDS_PER_DAY * MICROSECONDS
BATCH = 5000
MOST_READ = 2000
"""Alerts of one incident that are read for its sentences; counts are of all."""
MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
    CREATE TABLE cases (
        id TEXT PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL, alerts INTEGER NOT NULL,
        open INTEGER NOT NULL, acknowledged INTEGER NOT NULL, closed INTEGER NOT NULL,
        suppressed INTEGER NOT NULL, status TEXT NOT NULL, severity INTEGER NOT NULL, score REAL NOT NULL,
        assignee TEXT, version INTEGER NOT NULL, story TEXT NOT NULL
    ) STRICT;
    CREATE INDEX cases_by_rank ON cases (status, severity DESC, score DESC, last DESC, id);
    CREATE INDEX cases_by_severity ON cases (severity DESC, score DESC, last DESC, id);
    CREATE INDEX cases_by_last ON cases (last);
    CREATE TABLE terms (
        number INTEGER PRIMARY KEY, kind TEXT NOT NULL, value TEXT NOT NULL, UNIQUE (kind, value)
    ) STRICT;
    CREATE TABLE case_terms (
        term INTEGER NOT NULL, incident TEXT NOT NULL, PRIMARY KEY (term, incident)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE days (day INTEGER PRIMARY KEY, raised INTEGER NOT NULL, suppressed INTEGER NOT NULL) STRICT;
    """,
)
ORDERS = {
    "severity": "severity DESC, score DESC, last DESC, id",
    "newest": "last DESC, id",
    "oldest": "first, id",
    "alerts": "alerts DESC, id",
}
OF_CASE = "(incident = ? OR (incident IS NULL AND id = ?))"
"""The alerts of a case: those of the incident, or the one alert that belongs to none."""
COUNTS = f"""
    SELECT min(time) AS first, max(time) AS last, count(*) AS alerts,
        count(*) FILTER (WHERE status = 'open' AND suppressed_by IS NULL) AS open,
        count(*) FILTER (WHERE status = 'acknowledged' AND suppressed_by IS NULL) AS acknowledged,
        count(*) FILTER (WHERE status = 'closed' AND suppressed_by IS NULL) AS closed,
        count(*) FILTER (WHERE suppressed_by IS NOT NULL) AS suppressed, max(score) AS score,
        sum(version) AS version, max(assignee) AS assignee, count(DISTINCT assignee) AS assignees
    FROM alerts WHERE {OF_CASE}
"""  # noqa: S608 - fixed texts
Report = Callable[[int, int], None]
"""Told how many alerts of how many have been read."""


class Index:
    """Incidents of the alert store, found by anything that their alerts name."""

    def __init__(self, path: Path, store: Connections) -> None:
        self._store = store
        self._path = path
        self._connections = Connections(self._open)
        self._lock = threading.Lock()

    def _open(self) -> sqlite3.Connection:
        with private_files():
            connection = connect(self._path, MIGRATIONS)
        connection.execute("PRAGMA synchronous = OFF")  # it can be built again
        return connection

    def close(self) -> None:
        self._connections.close()

    # ---- catching up -----------------------------------------------------------------------------

    def marks(self) -> tuple[int, int]:
        """How far the store has come: its latest alert and its latest change."""
        row = (
            self._store.get()
            .execute(
                "SELECT (SELECT coalesce(max(rowid), 0) FROM alerts), "
                "(SELECT coalesce(max(number), 0) FROM audit)"
            )
            .fetchone()
        )
        return int(row[0]), int(row[1])

    def catch_up(self, report: Report = lambda done, of: None) -> tuple[int, int]:
        """Take in what the store has got since; returns its marks."""
        marks = self.marks()
        with self._lock:
            index = self._connections.get()
            read, changed = (int(fact(index, name) or 0) for name in ("alerts", "audit"))
            if (read, changed) == marks:
                return marks
            touched = set(self._changed(changed, marks[1]))
            while read < marks[0]:
                read = self._take(read, marks[0], touched, report)
            with transaction(index):
                for incident in touched:
                    self._renew(index, incident)
                set_fact(index, "alerts", str(marks[0]))
                set_fact(index, "audit", str(marks[1]))
        return marks

    def _changed(self, after: int, until: int) -> Iterator[str]:
        rows = self._store.get().execute(
            "SELECT DISTINCT coalesce(incident, id) FROM alerts WHERE id IN "
            "(SELECT target FROM audit WHERE number > ? AND number <= ?)",
            (after, until),
        )
        return (str(row[0]) for row in rows)

    def _take(self, after: int, until: int, touched: set[str], report: Report) -> int:
        """Names and days of the next alerts; where it came to."""
        rows = (
            self._store.get()
            .execute(
                "SELECT rowid, coalesce(incident, id) AS incident, time, suppressed_by, document FROM alerts "
                "WHERE rowid > ? AND rowid <= ? ORDER BY rowid LIMIT ?",
                (after, until, BATCH),
            )
            .fetchall()
        )
        if not rows:
            return until
        pairs: set[tuple[str, str, str]] = set()
        days: dict[int, list[int]] = {}
        for row in rows:
            touched.add(row["incident"])
            pairs.update(
                (row["incident"], kind, value[:LONGEST])
                for kind, value in _names(json.loads(row["document"]))
            )
            tally = days.setdefault(row["time"] // DAY, [0, 0])
            tally[0 if row["suppressed_by"] is None else 1] += 1
        with transaction(self._connections.get()) as index:
            words = {(kind, value) for _, kind, value in pairs}
            index.executemany("INSERT OR IGNORE INTO terms (kind, value) VALUES (?, ?)", words)
            index.executemany(
                "INSERT OR IGNORE INTO case_terms SELECT number, ? FROM terms WHERE kind = ? AND value = ?",
                pairs,
            )
            index.executemany(
                "INSERT INTO days VALUES (?, ?, ?) ON CONFLICT (day) DO UPDATE "
                "SET raised = raised + excluded.raised, suppressed = suppressed + excluded.suppressed",
                [(day, *tally) for day, tally in days.items()],
            )
            set_fact(index, "alerts", str(rows[-1]["rowid"]))
        report(int(rows[-1]["rowid"]), until)
        return int(rows[-1]["rowid"])

    def _renew(self, index: sqlite3.Connection, incident: str) -> None:
        """Count an incident again."""
        index.execute("DELETE FROM cases WHERE id = ?", (incident,))
        counts, alerts = self._counts(incident), self._alerts(incident)
        if not alerts:
            return
        case = summarise(incident, counts, alerts)
        index.execute(
            "INSERT INTO cases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                case.id, case.first, case.last, case.alerts, case.open, case.acknowledged, case.closed,
                case.suppressed, case.status, case.level, case.score, case.assignee, case.version,
                json.dumps(case.story),
            ),
        )  # fmt: skip

    def _counts(self, incident: str) -> sqlite3.Row:
        row: sqlite3.Row = self._store.get().execute(COUNTS, (incident, incident)).fetchone()
        return row

    def _alerts(self, incident: str) -> list[Alert]:
        rows = self._store.get().execute(
            f"SELECT document FROM alerts WHERE {OF_CASE} ORDER BY time LIMIT ?",  # noqa: S608 - a fixed text
            (incident, incident, MOST_READ),
        )
        return [Alert.from_dict(json.loads(row["document"])) for row in rows]

    # ---- asking ------------------------------------------------------------------------------------

    def find(self, wanted: CaseFilter, most: int, skip: int) -> list[Case]:
        """Incidents in the wanted order."""
        condition, values = wanted.where()
        rows = self._connections.get().execute(
            f"SELECT * FROM cases WHERE {condition} ORDER BY {ORDERS[wanted.order]} LIMIT ? OFFSET ?",  # noqa: S608
            [*values, most, skip],
        )
        return [Case.of_row(row) for row in rows]

    def count(self, wanted: CaseFilter) -> int:
        condition, values = wanted.where()
        row = (
            self._connections.get()
            .execute(
                f"SELECT count(*) FROM cases WHERE {condition}",  # noqa: S608 - conditions are fixed texts
                values,
            )
            .fetchone()
        )
        return int(row[0])

    def get(self, incident: str) -> Case | None:
        """The incident with this id."""
        row = self._connections.get().execute("SELECT * FROM cases WHERE id = ?", (incident,)).fetchone()
        return Case.of_row(row) if row is not None else None

    def by_status(self) -> dict[str, int]:
        rows = self._connections.get().execute("SELECT status, count(*) FROM cases GROUP BY status")
        return {str(row[0]): int(row[1]) for row in rows}

    def of_term(self, kind: str, value: str, most: int) -> list[Case]:
        """Incidents that name a host, an account, a port, a technique or a silo; open ones first."""
        rows = self._connections.get().execute(
            "SELECT cases.* FROM terms JOIN case_terms ON term = number JOIN cases ON id = incident "
            "WHERE kind = ? AND value = ? ORDER BY status DESC, severity DESC, last DESC LIMIT ?",
            (kind, value, most),
        )
        return [Case.of_row(row) for row in rows]

    def values(self, kind: str, most: int, like: str = "") -> list[str]:
        """Known names of a kind, for instance all silos; with `like`, those that hold this text."""
        rows = self._connections.get().execute(
            "SELECT value FROM terms WHERE kind = ? AND instr(lower(value), lower(?)) > 0 "
            "ORDER BY value LIMIT ?",
            (kind, like, most),
        )
        return [str(row[0]) for row in rows]

    def days(self, most: int) -> list[tuple[int, int, int]]:
        """(day, raised, suppressed) of the last days with alerts, oldest first."""
        rows = self._connections.get().execute("SELECT * FROM days ORDER BY day DESC LIMIT ?", (most,))
        return [(int(r["day"]), int(r["raised"]), int(r["suppressed"])) for r in rows][::-1]


def _names(document: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """(kind, value) of everything that an alert can be found by."""
    yield "host", document["src"]
    yield "host", document["dst"]
    yield "silo", document["silo"]
    for kind, field in (("silo", "also"), ("user", "users"), ("port", "ports"), ("kind", "kinds")):
        for value in document.get(field) or ():
            yield kind, str(value)
    if document.get("technique"):
        yield "technique", document["technique"]
