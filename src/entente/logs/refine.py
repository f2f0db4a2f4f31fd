"""What files beside the log say about its events: labels, names of addresses, the time zone of its clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from entente.errors import LogError, UsageError
from entente.logs.formats.base import Format
from entente.logs.hosts import HostNames, NameCounts
from entente.logs.projection import NO_DST, NO_SRC
from entente.logs.schema import MICROSECONDS
from entente.logs.sources import text_beside
from entente.text import visible

QUARTER = 900 * MICROSECONDS
"""Offsets of time zones change at multiples of a quarter of an hour."""
CLOCK_TOLERANCE = 3_600 * MICROSECONDS
FROM_THE_FUTURE = "time in the future"


@dataclass(frozen=True, slots=True)
class Refined:
    """Rows as they are stored, and what was noticed on the way."""

    rows: pa.Table
    bad: dict[int, str]
    """Row -> why it is set aside after all; it is still in `rows`."""
    matched: set[str] = field(default_factory=set)
    """Keys of the labels file that occurred."""
    names: dict[str, int] = field(default_factory=dict)
    """What became of the names of hosts, in ends of events (`hosts.NameCounts`)."""
    words: dict[str, int] = field(default_factory=dict)
    """Labels that nobody understands -> rows."""


def system_clock() -> int:
    return time.time_ns() // 1_000


@dataclass(frozen=True, slots=True)
class Refinement:
    """Applied to the kept rows of each block, after the engine."""

    keys: pa.Array | None = None
    """Keys of the malicious events; with it, every row gets a label."""
    names: HostNames = field(default_factory=HostNames)
    zone: ZoneInfo | None = None
    tolerance: int | None = CLOCK_TOLERANCE
    """Microseconds that a row may lie ahead of the clock; None trusts every time."""
    clock: Callable[[], int] = system_clock

    def apply(self, rows: pa.Table, format: Format) -> Refined:
        matched: set[str] = set()
        bad: dict[int, str] = {}
        if self.zone is not None and "local" in rows.column_names:
            rows = _set(rows, "time", _from_local(rows["time"], rows["local"], self.zone))
        times = rows["time"].to_numpy()
        if self.tolerance is not None and len(times):
            ahead = np.flatnonzero(times > self.clock() + self.tolerance)
            bad |= dict.fromkeys(ahead.tolist(), FROM_THE_FUTURE)
        if self.keys is not None:
            hit = pc.is_in(rows["key"], value_set=self.keys)
            matched.update(pc.unique(rows["key"].filter(hit)).to_pylist())
            rows = _set(rows, "label", hit.cast(pa.int8()))
        counts = NameCounts()
        spelling = self.names.spelling(format.exact_names, format.short_names)
        for name, reason in (("src", NO_SRC), ("dst", NO_DST)):
            column, missing = self.names.apply(rows[name], times, spelling, counts)
            rows = rows if column is rows[name] else _set(rows, name, column)
            bad |= dict.fromkeys(missing.tolist(), reason)
        return Refined(rows, bad, matched, counts.as_dict(), _not_understood(rows))


def _not_understood(rows: pa.Table) -> dict[str, int]:
    """Words in a label column that are neither malicious nor benign."""
    if "word" not in rows.column_names:
        return {}
    words = rows["word"].filter(pc.and_(rows["label"].is_null(), rows["word"].is_valid()))
    found = {entry["values"]: entry["counts"] for entry in pc.value_counts(words).to_pylist()}
    return {visible(word, 40): count for word, count in found.items() if word.strip() not in ("", "-")}


def _set(rows: pa.Table, name: str, column: pa.ChunkedArray | pa.Array) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), name, column)


def _from_local(time: pa.ChunkedArray, local: pa.ChunkedArray, zone: ZoneInfo) -> pa.Array:
    """Times without a zone were read as if UTC; set them right."""
    clock = time.to_numpy()
    quarters, inverse = np.unique(clock // QUARTER, return_inverse=True)
    offsets = []
    for quarter in quarters.tolist():
        wall = datetime.fromtimestamp(quarter * QUARTER // MICROSECONDS, UTC).replace(tzinfo=zone)
        offset = wall.utcoffset()
        offsets.append(0 if offset is None else round(offset.total_seconds()) * MICROSECONDS)
    shift = np.array(offsets, dtype=np.int64)[inverse]
    return pa.array(np.where(local.fill_null(False).to_numpy(), clock - shift, clock))


def read_labels(path: Path, formats: list[Format]) -> pa.Array:
    """The keys in a labels file; it may be compressed like any log."""
    able = [format for format in formats if format.labels]
    if not able:
        raise UsageError(
            f"{formats[0].name} logs take no --labels file",
            remedy="Formats that do: see `entente formats`. Others carry labels in a column, or none.",
        )
    format = able[0]
    lines = [line.strip() for line in text_beside(path).splitlines()]
    filled = [number for number, line in enumerate(lines) if line]
    keys = format.label_keys([lines[number] for number in filled])
    for number, key in zip(filled, keys, strict=True):
        if not key and number > 0:
            raise LogError(
                f"is not a label of {format.name}: {lines[number][:80]!r}",
                where=path,
                line=number + 1,
                remedy=f"Expected {format.labels}.",
            )
    kept = sorted({key for key in keys if key})
    if not kept:
        raise LogError("holds no label", where=path, remedy=f"Expected {format.labels}.")
    return pa.array(kept, pa.string())


def read_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise UsageError(
            f"there is no time zone {name!r}", remedy="Use a name such as Europe/Prague or UTC."
        ) from error
