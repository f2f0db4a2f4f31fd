"""An index of the alert store by incident, in a file of the console's own, that catches up on its own.

New alerts are known by their row number, changed ones by the audit trail's; both only grow. The index holds
nothing that the store does not: delete the file and it is built again.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from entente.artifacts import private_files
from entente.console.cases import LONGEST, Case, Found, summarise
from entente.console.database import Connections
from entente.console.filters import CaseQuery, Term, address_place
from entente.detection.alerts import Alert
from entente.detection.metrics import MICROSECONDS, SECONDS_PER_DAY
from entente.service.database import connect, fact, set_fact, transaction

DAY = SECONDS_PER_DAY * MICROSECONDS
BATCH = 5000
RENEWED = 500
"""Incidents that are counted again in one transaction."""
MANY = 50_000
"""Entries from which on it is faster to look at every case than to collect those that an entry names."""
MOST_READ = 2000
"""Alerts of one incident that are read for its sentences; counts are of all."""
TABLES = """
    CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
    CREATE TABLE incidents (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE) STRICT;
    CREATE TABLE stale (number INTEGER PRIMARY KEY) STRICT;
    CREATE TABLE cases (
        number INTEGER PRIMARY KEY, id TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
        alerts INTEGER NOT NULL, open INTEGER NOT NULL, acknowledged INTEGER NOT NULL,
        closed INTEGER NOT NULL, suppressed INTEGER NOT NULL, status TEXT NOT NULL,
        severity INTEGER NOT NULL, score REAL NOT NULL, assignee TEXT, version INTEGER NOT NULL,
        story TEXT NOT NULL
    ) STRICT;
    CREATE INDEX cases_by_rank ON cases (status, severity DESC, score DESC, last DESC, id);
    CREATE INDEX cases_by_severity ON cases (severity DESC, score DESC, last DESC, id);
    CREATE INDEX cases_by_last ON cases (last);
    CREATE TABLE terms (
        number INTEGER PRIMARY KEY, kind TEXT NOT NULL, value TEXT NOT NULL, address BLOB,
        UNIQUE (kind, value)
    ) STRICT;
    CREATE INDEX terms_by_address ON terms (address) WHERE address IS NOT NULL;
    CREATE TABLE case_terms (
        term INTEGER NOT NULL, incident INTEGER NOT NULL, PRIMARY KEY (term, incident)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX terms_of_case ON case_terms (incident, term);
    CREATE TABLE days (day INTEGER PRIMARY KEY, raised INTEGER NOT NULL, suppressed INTEGER NOT NULL) STRICT;
"""
MIGRATIONS: tuple[str, ...] = (
    "",
    "".join(f"DROP TABLE IF EXISTS {name};" for name in ("facts", "cases", "terms", "case_terms", "days"))
    + TABLES,
)
"""An index of the first schema is dropped: it can be built again."""
ORDERS = {
    "severity": "severity DESC, score DESC, last DESC, id",
    "newest": "last DESC, id",
    "oldest": "first, id",
    "alerts": "alerts DESC, id",
}
CASE = (
    "id, first, last, alerts, open, acknowledged, closed, suppressed, status, severity, score, assignee, "
    "version, story"
)
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
"""  # noqa: S608 - fixed texts # nosec B608
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
            if (read, changed) == marks and index.execute("SELECT 1 FROM stale").fetchone() is None:
                return marks
            with transaction(index):
                self._mark(index, self._changed(changed, marks[1]))
                set_fact(index, "audit", str(marks[1]))
            while read < marks[0]:
                read = self._take(read, marks[0], report)
            while self._renew_some(index):
                pass
        return marks

    def _changed(self, after: int, until: int) -> list[str]:
        rows = self._store.get().execute(
            "SELECT DISTINCT coalesce(incident, id) FROM alerts WHERE id IN "
            "(SELECT target FROM audit WHERE number > ? AND number <= ?)",
            (after, until),
        )
        return [str(row[0]) for row in rows]

    def _mark(self, index: sqlite3.Connection, incidents: Iterable[str]) -> dict[str, int]:
        """Have incidents counted again; the number of each."""
        found = sorted(set(incidents))
        index.executemany("INSERT OR IGNORE INTO incidents (id) VALUES (?)", ((one,) for one in found))
        rows = index.execute(
            "SELECT id, number FROM incidents WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(found),),
        )
        numbers = {str(row[0]): int(row[1]) for row in rows}
        index.executemany("INSERT OR IGNORE INTO stale VALUES (?)", ((n,) for n in numbers.values()))
        return numbers

    def _take(self, after: int, until: int, report: Report) -> int:
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
        pairs: set[tuple[str, tuple[str, str]]] = set()
        days: dict[int, list[int]] = {}
        for row in rows:
            document = json.loads(row["document"])
            pairs.update((row["incident"], (kind, value[:LONGEST])) for kind, value in _names(document))
            tally = days.setdefault(row["time"] // DAY, [0, 0])
            tally[0 if row["suppressed_by"] is None else 1] += 1
        came = int(rows[-1]["rowid"]) if rows else until
        with transaction(self._connections.get()) as index:
            numbers = self._mark(index, (row["incident"] for row in rows))
            terms = _numbered(index, {term for _, term in pairs})
            index.executemany(
                "INSERT OR IGNORE INTO case_terms VALUES (?, ?)",
                sorted((terms[term], numbers[incident]) for incident, term in pairs),
            )
            index.executemany(
                "INSERT INTO days VALUES (?, ?, ?) ON CONFLICT (day) DO UPDATE "
                "SET raised = raised + excluded.raised, suppressed = suppressed + excluded.suppressed",
                [(day, *tally) for day, tally in days.items()],
            )
            set_fact(index, "alerts", str(came))
        report(came, until)
        return came

    def _renew_some(self, index: sqlite3.Connection) -> bool:
        """Count some of the marked incidents again; whether there were any."""
        with transaction(index):
            rows = index.execute(
                "SELECT number, id FROM stale JOIN incidents USING (number) LIMIT ?", (RENEWED,)
            ).fetchall()
            for row in rows:
                self._renew(index, int(row["number"]), str(row["id"]))
                index.execute("DELETE FROM stale WHERE number = ?", (row["number"],))
        return bool(rows)

    def _renew(self, index: sqlite3.Connection, number: int, incident: str) -> None:
        """Count an incident again."""
        index.execute("DELETE FROM cases WHERE number = ?", (number,))
        counts, alerts = self._counts(incident), self._alerts(incident)
        if not alerts:
            return
        case = summarise(incident, counts, alerts)
        index.execute(
            "INSERT INTO cases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                number, case.id, case.first, case.last, case.alerts, case.open, case.acknowledged,
                case.closed, case.suppressed, case.status, case.level, case.score, case.assignee,
                case.version, json.dumps(case.story),
            ),
        )  # fmt: skip

    def _counts(self, incident: str) -> sqlite3.Row:
        row: sqlite3.Row = self._store.get().execute(COUNTS, (incident, incident)).fetchone()
        return row

    def _alerts(self, incident: str) -> list[Alert]:
        rows = self._store.get().execute(
            f"SELECT document FROM alerts WHERE {OF_CASE} ORDER BY time LIMIT ?",  # noqa: S608 - a fixed text # nosec B608
            (incident, incident, MOST_READ),
        )
        return [Alert.from_dict(json.loads(row["document"])) for row in rows]

    # ---- asking ------------------------------------------------------------------------------------

    def find(self, query: CaseQuery, page: int, size: int) -> Found:
        """One page of incidents in the wanted order; the last one where there are fewer pages."""
        index = self._connections.get()
        condition, values = self._where(query)
        total = index.execute(f"SELECT count(*) FROM cases WHERE {condition}", values).fetchone()[0]  # noqa: S608 # nosec B608
        page = min(page, max(1, -(-total // size)))
        rows = index.execute(
            f"SELECT {CASE} FROM cases WHERE {condition} "  # noqa: S608 - conditions are fixed texts # nosec B608
            f"ORDER BY {ORDERS[query.order]} LIMIT ? OFFSET ?",
            [*values, size, (page - 1) * size],
        )
        return Found(tuple(Case.of_row(row) for row in rows), int(total), page, size)

    def _where(self, query: CaseQuery) -> tuple[str, list[Any]]:
        """The condition in SQL, and its values."""
        parts, values = query.plain()
        for term in query.terms():
            condition, found = self._naming(term)
            parts.append(condition)
            values += found
        return " AND ".join(["1", *parts]), values

    def _naming(self, term: Term) -> tuple[str, list[Any]]:
        """The cases that one of some names occurs in, asked for in the faster of two ways."""
        index = self._connections.get()
        rows = index.execute(
            f"SELECT number FROM terms WHERE {term.condition}",  # noqa: S608 - fixed texts # nosec B608
            term.values,
        )
        numbers = json.dumps([int(row[0]) for row in rows])
        entries = index.execute(
            "SELECT count(*) FROM (SELECT 1 FROM case_terms "
            "WHERE term IN (SELECT value FROM json_each(?)) LIMIT ?)",
            (numbers, MANY),
        ).fetchone()[0]
        listed = "term IN (SELECT value FROM json_each(?))"
        few = f"number IN (SELECT incident FROM case_terms WHERE {listed})"  # noqa: S608 # nosec B608
        many = f"EXISTS (SELECT 1 FROM case_terms WHERE incident = number AND +{listed})"  # noqa: S608 # nosec B608
        condition = few if entries < MANY else many
        if term.incident is None:
            return condition, [numbers]
        return f"(id = ? OR {condition})", [term.incident, numbers]

    def get(self, incident: str) -> Case | None:
        """The incident with this id."""
        row = (
            self._connections.get()
            .execute(
                f"SELECT {CASE} FROM cases WHERE number = (SELECT number FROM incidents WHERE id = ?)",  # noqa: S608 # nosec B608
                (incident,),
            )
            .fetchone()
        )
        return Case.of_row(row) if row is not None else None

    def by_status(self) -> dict[str, int]:
        rows = self._connections.get().execute("SELECT status, count(*) FROM cases GROUP BY status")
        return {str(row[0]): int(row[1]) for row in rows}

    def of_term(self, kind: str, value: str, most: int) -> list[Case]:
        """Incidents that name a host, an account, a port, a technique or a silo; open ones first."""
        rows = self._connections.get().execute(
            f"SELECT {CASE} FROM cases WHERE number IN (SELECT incident FROM case_terms WHERE term = "  # noqa: S608 # nosec B608
            "(SELECT number FROM terms WHERE kind = ? AND value = ?)) "
            "ORDER BY status DESC, severity DESC, last DESC LIMIT ?",
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


def _numbered(index: sqlite3.Connection, terms: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """The number of each term; new ones get one, and addresses also their place among addresses."""
    before = int(index.execute("SELECT coalesce(max(number), 0) FROM terms").fetchone()[0])
    index.executemany("INSERT OR IGNORE INTO terms (kind, value) VALUES (?, ?)", sorted(terms))
    fresh = index.execute(
        "SELECT number, value FROM terms WHERE number > ? AND kind = 'host'", (before,)
    ).fetchall()
    placed = [(place, row["number"]) for row in fresh if (place := address_place(row["value"])) is not None]
    index.executemany("UPDATE terms SET address = ? WHERE number = ?", placed)
    rows = index.execute(
        "SELECT number, kind, terms.value AS value FROM json_each(?) AS one CROSS JOIN terms "
        "ON kind = one.value ->> 0 AND terms.value = one.value ->> 1",  # in this order: by the terms' index
        (json.dumps(sorted(terms)),),
    )
    return {(str(row["kind"]), str(row["value"])): int(row["number"]) for row in rows}


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
