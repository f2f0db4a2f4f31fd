"""Events that wait for their window to close: on disk as segments, in memory as tables."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from entente.errors import StorageError
from entente.logs.clocks import reached
from entente.logs.events import with_all_columns
from entente.logs.schema import MICROSECONDS, STORED_SCHEMA


class Pending:
    """What was read and is not scored yet.

    A segment is written and synchronised before the transaction that names it, so that a position in the
    database never runs ahead of the events on disk. Files that no transaction names are left-overs.
    """

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self._folder = folder
        self._connection = connection
        folder.mkdir(parents=True, exist_ok=True)
        rows = connection.execute("SELECT name FROM segments ORDER BY name").fetchall()
        self._names: list[str] = [row["name"] for row in rows]
        for file in folder.iterdir():
            if file.name not in self._names:
                file.unlink()
        self._tables = [_read(folder / name) for name in self._names]
        self._next = 1 + max((int(name.split(".")[0]) for name in self._names), default=0)

    @property
    def rows(self) -> int:
        return sum(table.num_rows for table in self._tables)

    @property
    def first(self) -> int | None:
        """Time of the earliest event that waits."""
        return min((pc.min(table["time"]).as_py() for table in self._tables), default=None)

    @property
    def last(self) -> int | None:
        """Time of the latest event that waits."""
        return max((pc.max(table["time"]).as_py() for table in self._tables), default=None)

    def prepare(self, events: pa.Table) -> str | None:
        """Write events to disk; the name for `commit`, None when there are none."""
        if not events.num_rows:
            return None
        name = f"{self._next:012d}.arrow"
        self._next += 1
        _write(self._folder / name, events)
        return name

    def commit(self, name: str | None, events: pa.Table) -> Callable[[], None]:
        """Name a prepared segment inside the caller's transaction; call the result once it is committed."""
        if name is None:
            return lambda: None
        self._connection.execute("INSERT INTO segments VALUES (?, ?)", (name, events.num_rows))

        def apply() -> None:
            self._names.append(name)
            self._tables.append(events)

        return apply

    def before(self, bound: int) -> tuple[pa.Table, pa.Table]:
        """All events with a time before `bound`, and the rest."""
        if not self._tables:
            return STORED_SCHEMA.empty_table(), STORED_SCHEMA.empty_table()
        whole = pa.concat_tables(self._tables)
        early = pc.less(whole["time"], bound)
        return whole.filter(early), whole.filter(pc.invert(early))

    def replace(self, name: str | None, rest: pa.Table) -> Callable[[], None]:
        """Keep only `rest`, prepared as `name`, inside the caller's transaction; call the result after it."""
        old = list(self._names)
        self._connection.execute("DELETE FROM segments")
        if name is not None:
            self._connection.execute("INSERT INTO segments VALUES (?, ?)", (name, rest.num_rows))

        def apply() -> None:
            self._names, self._tables = ([name], [rest]) if name is not None else ([], [])
            for former in old:
                (self._folder / former).unlink(missing_ok=True)

        return apply


@dataclass(slots=True)
class SourceClock:
    """How far one source has come, in its own events' time and on our clock."""

    reached: int | None = None  # microseconds
    heard: float = 0.0  # seconds, our clock

    def hear(self, times: np.ndarray[tuple[int], np.dtype[np.int64]], now: float) -> None:
        """Take note of events that arrived."""
        if not len(times):
            return
        self.heard = now
        sure = reached(times)
        if sure is not None:
            self.reached = sure if self.reached is None else max(self.reached, sure)


def watermark(clocks: dict[str, SourceClock], lateness: float, silent: float, now: float) -> int | None:
    """The moment before which no event is expected any more; None while nobody knows.

    Sources that have been silent for `silent` seconds do not hold the others up. When all are silent,
    everything that arrived is complete.
    """
    known = {name: clock for name, clock in clocks.items() if clock.reached is not None}
    if not known:
        return None
    awake = [clock for clock in known.values() if now - clock.heard < silent]
    waiting = any(clock.reached is None and now - clock.heard < silent for clock in clocks.values())
    if waiting:
        return None
    if not awake:
        return max(clock.reached for clock in known.values() if clock.reached is not None) + 1
    slowest = min(clock.reached for clock in awake if clock.reached is not None)
    return slowest - round(lateness * MICROSECONDS)


def _write(path: Path, table: pa.Table) -> None:
    try:
        with path.open("wb") as file, pa.ipc.new_file(file, STORED_SCHEMA) as writer:
            writer.write_table(table.cast(STORED_SCHEMA))
        with path.open("rb") as written:
            os.fsync(written.fileno())
    except OSError as error:
        raise StorageError(
            f"cannot be written ({error.strerror or error})",
            where=path,
            remedy="Free some space; nothing was lost, reading goes on from the last position.",
        ) from error


def _read(path: Path) -> pa.Table:
    try:
        with pa.memory_map(str(path)) as file:
            # A segment of an older version lacks columns.
            return with_all_columns(pa.ipc.open_file(file).read_all())
    except (OSError, pa.ArrowException) as error:
        raise StorageError(
            f"is damaged ({error})",
            where=path,
            remedy="Restore the service's folder from its backup; the source can be read again from there.",
        ) from error
