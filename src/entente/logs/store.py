"""Event tables on disk: Parquet by day, written whole or not at all, same rows giving same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from entente.artifacts import replacing_directory
from entente.errors import LogError, UsageError
from entente.logs.manifest import MANIFEST
from entente.logs.schema import DAY, STORED_SCHEMA

BLOCK = 1 << 16
"""Rows per decision of the writer: the same rows are cut the same way, however they arrive."""
ROW_GROUP = 4 * BLOCK
HELD = 16 * BLOCK
"""Rows held for all days together before the fullest day is written out."""
FIRST_DAY = datetime(1970, 1, 1, tzinfo=UTC)
OPEN_FILES = 64
MOST_DAYS = 3660
"""Ten years of logs are a mistake in the unit of time; a file per day for them would fill the disk."""
"""A day that is written again after its file was closed gets another file."""
NAMES = ("src", "dst", "user", "kind", "logon", "log")
ENCODED_SCHEMA = pa.schema(
    [
        field.with_type(pa.dictionary(pa.int32(), pa.string())) if field.name in NAMES else field
        for field in STORED_SCHEMA
    ]
)
"""How rows are held: few names, many rows. In the files they are plain strings."""


def day_name(day: int) -> str:
    """Day number since 1970 -> YYYY-MM-DD."""
    return (FIRST_DAY + timedelta(days=day)).strftime("%Y-%m-%d")


def time_text(time: int) -> str:
    """Microseconds -> a time to read; years 1 to 9999."""
    return (FIRST_DAY + timedelta(microseconds=time)).strftime("%Y-%m-%d %H:%M:%S UTC")


def day_number(name: str) -> int:
    return (datetime.strptime(name, "%Y-%m-%d").replace(tzinfo=UTC) - FIRST_DAY).days


@contextmanager
def replacing_events(path: Path) -> Iterator[Path]:
    """`replacing_directory` for an event directory; any other directory that holds something is refused."""
    if path.exists() and not (path / MANIFEST).is_file() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(
            "exists and is not an event directory",
            where=path,
            remedy="Name another --out, or remove it yourself.",
        )
    with replacing_directory(path) as directory:
        yield directory


def encode(rows: pa.Table) -> pa.Table:
    """Rows with all stored columns -> rows that `EventWriter` takes; an empty nullable name becomes null."""
    columns = []
    for field in ENCODED_SCHEMA:
        column = rows[field.name]
        if field.name in NAMES:
            column = (
                column.cast(field.type) if column.num_chunks != 1 else column.chunk(0).dictionary_encode()
            )
            column = column if isinstance(column, pa.DictionaryArray) else column.combine_chunks()
            if field.nullable and pc.index(column.dictionary, "").as_py() >= 0:
                empty = pc.equal(column.dictionary.take(column.indices), "")
                indices = pc.if_else(empty, pa.scalar(None, pa.int32()), column.indices)
                column = pa.DictionaryArray.from_arrays(indices, column.dictionary)
        columns.append(column.cast(field.type))
    return pa.table(columns, schema=ENCODED_SCHEMA)


@dataclass(frozen=True, slots=True)
class Written:
    """What is known of the rows of an event directory once they are written."""

    rows: int
    first_time: int | None
    last_time: int | None
    hosts: int
    labelled: int
    malicious: int
    ordered: bool
    days: Mapping[int, int]


class EventWriter:
    """Writes events into `day=.../part-0000.parquet` in the order they come, within bounded memory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._held: dict[int, list[pa.Table]] = {}
        self._held_rows: dict[int, int] = {}
        self._writers: dict[int, pq.ParquetWriter] = {}  # the one written last stands last
        self._parts: dict[int, int] = {}
        self._hosts: set[str] = set()
        self.days: dict[int, int] = {}
        self.rows = 0
        self.labelled = 0
        self.malicious = 0
        self.first_time: int | None = None
        self.last_time: int | None = None
        self.ordered = True

    @property
    def hosts(self) -> set[str]:
        """The names of `src` and `dst` that were written."""
        return self._hosts

    def written(self) -> Written:
        """What has been written so far."""
        return Written(
            self.rows,
            self.first_time,
            self.last_time,
            len(self._hosts),
            self.labelled,
            self.malicious,
            self.ordered,
            dict(self.days),
        )

    def write(self, rows: pa.Table) -> None:
        """Add rows, as `encode` makes them."""
        self._pending.extend(rows.to_batches())
        self._pending_rows += rows.num_rows
        if self._pending_rows >= BLOCK:
            self._drain(BLOCK)

    def close(self) -> None:
        """Write what is still held. Without this call the files are not valid."""
        self._drain(1)
        for day in sorted(self._held):
            self._flush(day)
        for writer in self._writers.values():
            writer.close()

    def abandon(self) -> None:
        """Close the files after a failure, so that they can be removed."""
        for writer in self._writers.values():
            try:
                writer.close()
            except (OSError, pa.ArrowException):
                continue  # the failure that brought us here is the one to report

    def _drain(self, least: int) -> None:
        table = pa.Table.from_batches(self._pending, ENCODED_SCHEMA)
        start = 0
        while table.num_rows - start >= least:
            self._add(table.slice(start, BLOCK))
            start += BLOCK
        rest = table.slice(start)
        self._pending = rest.to_batches()
        self._pending_rows = rest.num_rows

    def _add(self, block: pa.Table) -> None:
        times = block["time"].to_numpy()
        first, last = int(times.min()), int(times.max())
        goes_on = self.last_time is None or self.last_time <= first
        self.ordered = self.ordered and goes_on and bool((times[1:] >= times[:-1]).all())
        self.first_time = first if self.first_time is None else min(self.first_time, first)
        self.last_time = last if self.last_time is None else max(self.last_time, last)
        self.rows += block.num_rows
        self.labelled += block.num_rows - block["label"].null_count
        self.malicious += pc.sum(block["label"]).as_py() or 0
        if first // DAY == last // DAY:
            self._hold(first // DAY, block)
        else:
            days = times // DAY
            for day in np.unique(days).tolist():
                self._hold(day, block.filter(pa.array(days == day)))
        while sum(self._held_rows.values()) > HELD:
            self._flush(max(sorted(self._held_rows), key=lambda day: self._held_rows[day]))

    def _hold(self, day: int, rows: pa.Table) -> None:
        if day not in self.days and len(self.days) >= MOST_DAYS:
            raise LogError(
                f"the events lie on more than {MOST_DAYS:,} different days",
                remedy="Their times are read in the wrong unit. csv: --map time_unit=ms, us or ns.",
            )
        self.days[day] = self.days.get(day, 0) + rows.num_rows
        # A row group is cut by the day's own rows alone, so that a day can also be written apart from others.
        while rows.num_rows:
            taken = rows.slice(0, ROW_GROUP - self._held_rows.get(day, 0))
            rows = rows.slice(taken.num_rows)
            self._held.setdefault(day, []).append(taken)
            self._held_rows[day] = self._held_rows.get(day, 0) + taken.num_rows
            if self._held_rows[day] >= ROW_GROUP:
                self._flush(day)

    def _flush(self, day: int) -> None:
        rows = pa.concat_tables(self._held.pop(day)).unify_dictionaries().combine_chunks()
        del self._held_rows[day]
        for place, name in enumerate(ENCODED_SCHEMA.names):
            if name in NAMES:
                compact = _compact(rows[name].chunk(0))
                rows = rows.set_column(place, ENCODED_SCHEMA.field(name), compact)
                if name in ("src", "dst"):
                    self._hosts.update(compact.dictionary.to_pylist())
        writer = self._writers.pop(day, None) or self._new_writer(day)
        self._writers[day] = writer
        writer.write_table(rows, row_group_size=2 * HELD)
        if len(self._writers) > OPEN_FILES:
            self._writers.pop(next(iter(self._writers))).close()

    def _new_writer(self, day: int) -> pq.ParquetWriter:
        folder = self._directory / f"day={day_name(day)}"
        folder.mkdir(exist_ok=True)
        part = self._parts[day] = self._parts.get(day, -1) + 1
        return pq.ParquetWriter(
            folder / f"part-{part:04}.parquet",
            ENCODED_SCHEMA,
            compression="zstd",
            compression_level=1,
            use_dictionary=list(NAMES),
            column_encoding={"time": "DELTA_BINARY_PACKED", "line": "DELTA_BINARY_PACKED"},
            # Bounds of names help nobody and take half of the writing time.
            write_statistics=["time", "label"],
            store_schema=False,
        )


def _compact(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """Only the names that occur, in the order they do: the same rows then give the same bytes."""
    codes = column.indices.dictionary_encode()
    return pa.DictionaryArray.from_arrays(codes.indices, column.dictionary.take(codes.dictionary))
