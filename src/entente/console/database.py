"""The console's own database (users, sessions, tokens, undo), and a connection per thread to any of them."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

from entente.artifacts import private_files
from entente.service.database import connect

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE users (
        name TEXT PRIMARY KEY, role TEXT NOT NULL, password TEXT NOT NULL, made INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE failures (what TEXT PRIMARY KEY, count INTEGER NOT NULL, until REAL NOT NULL) STRICT;
    CREATE TABLE sessions (
        secret TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, csrf TEXT NOT NULL,
        origin TEXT NOT NULL, started REAL NOT NULL, seen REAL NOT NULL
    ) STRICT;
    CREATE TABLE links (
        secret TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, until REAL NOT NULL
    ) STRICT;
    CREATE TABLE tokens (
        name TEXT PRIMARY KEY, secret TEXT NOT NULL UNIQUE, role TEXT NOT NULL, made REAL NOT NULL,
        until REAL NOT NULL
    ) STRICT;
    CREATE TABLE undo (
        id TEXT PRIMARY KEY, actor TEXT NOT NULL, at REAL NOT NULL, before TEXT NOT NULL
    ) STRICT;
    """,
)


def connect_console(folder: Path) -> sqlite3.Connection:
    """The console's database in its folder; nobody else can read either."""
    with private_files():
        folder.mkdir(parents=True, exist_ok=True)
        connection = connect(folder / "console.db", MIGRATIONS)
    connection.execute("PRAGMA synchronous = NORMAL")  # a power cut may end a session, no more
    return connection


class Connections:
    """One connection per thread: a transaction of one request must not take in statements of another."""

    def __init__(self, open_one: Callable[[], sqlite3.Connection]) -> None:
        self._open = open_one
        self._local = threading.local()
        self._all: list[sqlite3.Connection] = []
        self._lock = threading.Lock()

    def get(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = self._local.connection = self._open()
            with self._lock:
                self._all.append(found)
        return found

    def close(self) -> None:
        with self._lock:
            for connection in self._all:
                connection.close()
            self._all.clear()
        self._local = threading.local()
