"""The service's database: one SQLite file with numbered migrations.

Everything that must change together changes in one transaction of it: how far each source was read, which
windows were scored, the alerts they raised and what every output still has to deliver.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from entente.errors import StorageError

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE positions (source TEXT PRIMARY KEY, position TEXT NOT NULL) STRICT;
    CREATE TABLE segments (name TEXT PRIMARY KEY, rows INTEGER NOT NULL) STRICT;
    CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
    CREATE TABLE scorings (
        start INTEGER PRIMARY KEY, stop INTEGER NOT NULL, model TEXT NOT NULL, events INTEGER NOT NULL,
        edges INTEGER NOT NULL, alerts INTEGER NOT NULL, at INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE alerts (
        id TEXT PRIMARY KEY, incident TEXT, time INTEGER NOT NULL,
        silo TEXT NOT NULL, severity INTEGER NOT NULL, score REAL NOT NULL,
        src TEXT NOT NULL, dst TEXT NOT NULL, document TEXT NOT NULL,
        status TEXT NOT NULL DEFAULT 'open', reason TEXT, assignee TEXT, suppressed_by TEXT,
        version INTEGER NOT NULL DEFAULT 1, raised_at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX alerts_by_time ON alerts (time);
    CREATE INDEX alerts_by_status ON alerts (status, severity DESC, time DESC);
    CREATE INDEX alerts_by_incident ON alerts (incident);
    CREATE INDEX alerts_by_src ON alerts (src);
    CREATE INDEX alerts_by_dst ON alerts (dst);
    CREATE TABLE notes (
        number INTEGER PRIMARY KEY, alert TEXT NOT NULL REFERENCES alerts (id), at INTEGER NOT NULL,
        actor TEXT NOT NULL, text TEXT NOT NULL
    ) STRICT;
    CREATE INDEX notes_by_alert ON notes (alert);
    CREATE TABLE audit (
        number INTEGER PRIMARY KEY, at INTEGER NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL,
        target TEXT NOT NULL, detail TEXT NOT NULL
    ) STRICT;
    CREATE INDEX audit_by_target ON audit (target);
    CREATE TABLE outbox (
        number INTEGER PRIMARY KEY, output TEXT NOT NULL, alert TEXT NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0, not_before REAL NOT NULL DEFAULT 0, refused TEXT,
        UNIQUE (output, alert)
    ) STRICT;
    CREATE INDEX outbox_by_output ON outbox (output, number);
    """,
    """
    CREATE TABLE further (
        id TEXT PRIMARY KEY, incident TEXT NOT NULL, time INTEGER NOT NULL, document TEXT NOT NULL
    ) STRICT;
    CREATE INDEX further_by_incident ON further (incident, time);
    """,
)
"""Applied in order, each once; `user_version` counts them. Never edit one that was released."""


def connect(path: Path, migrations: tuple[str, ...] = MIGRATIONS) -> sqlite3.Connection:
    """Open the database, bring it to this version, and leave it in autocommit mode.

    WAL with full synchronisation: what a transaction has committed survives a power cut, and readers (the
    command line, the console) never wait for the service.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=60.0, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.row_factory = sqlite3.Row
        _migrate(connection, path, migrations)
    except (OSError, sqlite3.Error) as error:
        raise StorageError(
            f"cannot be opened as a database ({error})",
            where=path,
            remedy="Check permissions and free space, or restore the file from its backup.",
        ) from error
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """All of it or nothing; the write lock is taken at once, so that nothing read inside can be stale."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def fact(connection: sqlite3.Connection, name: str) -> str | None:
    """One of the service's own facts: its state's number, how far it has scored, an output's mark."""
    row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return str(row["value"]) if row else None


def set_fact(connection: sqlite3.Connection, name: str, value: str) -> None:
    """Store a fact, inside the caller's transaction."""
    connection.execute(
        "INSERT INTO facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )


def _migrate(connection: sqlite3.Connection, path: Path, migrations: tuple[str, ...]) -> None:
    with transaction(connection):
        present = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if present > len(migrations):
            raise StorageError(
                f"was written by a newer version (schema {present}, this one knows {len(migrations)})",
                where=path,
                remedy="Update entente, or choose another folder.",
            )
        for number, script in enumerate(migrations[present:], start=present + 1):
            for statement in script.split(";"):
                if statement.strip():
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
