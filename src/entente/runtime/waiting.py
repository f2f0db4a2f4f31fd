"""Windows that are not complete yet: their events wait, and are scored with those that come later.

A log that ends within a window, and events that are written after others that happened later (Zeek stamps a
connection at its start and writes it at its end), would be lost if every call scored to the end of its log. A
window is complete once the log has come `lateness` seconds beyond its end. Until then its events stay with
the silos' states, and the next call takes them together with its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from entente.artifacts import SUMS
from entente.logs.clocks import reached
from entente.logs.events import event_files, load_events, read_manifest, write_events
from entente.logs.manifest import Manifest, check_events, total, write_manifest
from entente.logs.refine import CLOCK_TOLERANCE
from entente.logs.schema import COLUMNS, MICROSECONDS, ORIGIN, STORED_SCHEMA

EVERYTHING = (*COLUMNS, *ORIGIN)


@dataclass(frozen=True, slots=True)
class Closing:
    """Up to where events are scored. Times are microseconds."""

    limit: int = 1 << 62
    """Events from here on are from the future, and are set aside."""
    moment: int | None = None
    """No more events are expected before this; None: the log is complete, its last window too."""

    def end(self, until: int, width: int, last: int) -> int:
        """Where reading stops for a silo whose next window begins at `until`; `last` is the latest event."""
        if self.moment is None:
            return min(last + 1, self.limit)
        return until + max(0, (self.moment - until) // width) * width


ALL_OF_IT = Closing()


def closing(events: Path, lateness: float | None, now: int) -> Closing:
    """What of an event directory is complete; with no `lateness`, all of it is."""
    limit = now + CLOCK_TOLERANCE
    if lateness is None:
        return Closing(limit)
    found = reached(_times(events, None, limit))
    return Closing(limit, None if found is None else found - round(lateness * MICROSECONDS))


def late_events(events: Path, until: int) -> int:
    """Events of windows that were scored before."""
    return len(_times(events, None, until)) if read_manifest(events).first_time < until else 0


def early_events(events: Path, limit: int) -> int:
    """Events from the future."""
    return len(_times(events, limit, None)) if read_manifest(events).last_time >= limit else 0


def left_open(events: Path, start: int, limit: int) -> pa.Table:
    """The events that no window was complete for."""
    if read_manifest(events).last_time < start:
        return STORED_SCHEMA.empty_table()
    return load_events(events, EVERYTHING, start, limit)


@contextmanager
def joined_events(waiting: pa.Table, events: Path) -> Iterator[Path]:
    """An event directory with the events that waited and those of `events`; gone after use.

    Days are linked, not copied. An event that waited and is in `events` again, because logs overlap, counts
    once.
    """
    waiting = _not_in(waiting, events)
    if not waiting.num_rows:
        yield events
        return
    with tempfile.TemporaryDirectory(prefix="entente-") as scratch:
        folder = Path(scratch) / "events"
        former = write_events(waiting, folder)
        for file in event_files(folder):
            file.rename(file.with_name(f"waiting-{file.name}"))
        check_events(events, event_files(events))
        for file in event_files(events):
            day = folder / file.parent.name
            day.mkdir(exist_ok=True)
            (day / file.name).symlink_to(file.resolve())
        (folder / SUMS).unlink()  # both were looked at
        write_manifest(folder, _together(former, read_manifest(events)))
        yield folder


def _together(one: Manifest, other: Manifest) -> Manifest:
    """Of both; the number of hosts is a bound, which is all that readers of windows need."""
    return replace(
        other,
        rows=one.rows + other.rows,
        first_time=min(one.first_time, other.first_time),
        last_time=max(one.last_time, other.last_time),
        hosts=one.hosts + other.hosts,
        labelled=one.labelled or other.labelled,
        malicious=one.malicious + other.malicious,
        ordered=False,
        days=dict(sorted(total((one.days, other.days)).items())),
    )


def _times(events: Path, start: int | None, end: int | None) -> NDArray[np.int64]:
    times: NDArray[np.int64] = load_events(events, ("time",), start, end)["time"].to_numpy()
    return times


def _not_in(waiting: pa.Table, events: Path) -> pa.Table:
    """Rows of `waiting` that `events` does not have as often."""
    if not waiting.num_rows:
        return waiting
    first, last = pc.min(waiting["time"]).as_py(), pc.max(waiting["time"]).as_py()
    manifest = read_manifest(events)
    if manifest.first_time > last or manifest.last_time < first:
        return waiting
    # By what happened: a log may be read again under another name.
    present = load_events(events, COLUMNS, first, last + 1)
    codes = _codes(pa.concat_tables([waiting.select(COLUMNS), present]))
    mine, theirs = codes[: waiting.num_rows], codes[waiting.num_rows :]
    there = np.bincount(theirs, minlength=int(codes.max()) + 1)
    order = np.argsort(mine, kind="stable")
    starts = np.flatnonzero(np.diff(mine[order], prepend=-1))
    turn = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    kept = np.sort(order[turn >= there[mine[order]]])
    return waiting.take(pa.array(kept))


def _codes(table: pa.Table) -> NDArray[np.int64]:
    """A number for every row; equal rows have the same."""
    codes = np.zeros(table.num_rows, dtype=np.int64)
    for column in table.columns:
        values = column.combine_chunks().dictionary_encode(null_encoding="encode")
        part = np.asarray(values.indices.fill_null(0), dtype=np.int64)
        codes = np.unique(codes * (int(part.max()) + 1) + part, return_inverse=True)[1]
    return codes
