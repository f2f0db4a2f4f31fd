"""Reading event directories, and storing a table as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from entente.artifacts import SUMS
from entente.errors import LogError, StorageError
from entente.logs.manifest import FILES, Manifest, ReadSource, read_manifest, seal_events, write_manifest
from entente.logs.schema import COLUMNS, DAY, REQUIRED, STORED_SCHEMA
from entente.logs.store import (
    ENCODED_SCHEMA,
    NAMES,
    EventWriter,
    Written,
    day_name,
    day_number,
    encode,
    replacing_events,
)

__all__ = ["Manifest", "load_events", "read_manifest", "scan_events", "write_events"]


def scan_events(
    path: Path,
    columns: Sequence[str] = COLUMNS,
    start: int | None = None,
    end: int | None = None,
    *,
    encoded: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The events with start <= time < end (microseconds), day by day, in stored order within a day.

    `columns` may name those of ORIGIN too. With `encoded`, columns of names are dictionaries: much smaller
    where few names fill many rows.
    """
    files = event_files(path, start, end)
    unknown = [name for name in columns if name not in STORED_SCHEMA.names]
    if unknown:
        raise LogError(f"has no column {unknown[0]!r}", where=path, remedy=f"Columns: {', '.join(COLUMNS)}.")
    if not files:
        return
    wanted = None
    if start is not None:
        wanted = ds.field("time") >= start
    if end is not None:
        before = ds.field("time") < end
        wanted = before if wanted is None else wanted & before
    options = ds.ParquetReadOptions(dictionary_columns=NAMES if encoded else None)
    dataset = ds.dataset(
        [str(file) for file in files],
        schema=ENCODED_SCHEMA if encoded else STORED_SCHEMA,
        format=ds.ParquetFileFormat(read_options=options),
    )
    unsealed = not (path / SUMS).is_file()
    try:
        for batch in dataset.to_batches(columns=list(columns), filter=wanted):
            if batch.num_rows:
                if unsealed:
                    check_rows(batch, [name for name in columns if name in REQUIRED])
                yield batch
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"cannot be read ({error})", where=path) from error


def check_rows(rows: pa.Table | pa.RecordBatch, whole: Sequence[str]) -> None:
    """ArrowInvalid for damaged rows of a file without a checksum; the columns `whole` have no gaps."""
    rows.validate(full=True)
    for name in whole:
        if rows[name].null_count:
            raise pa.ArrowInvalid(f"no value in column {name}")


def load_events(
    path: Path,
    columns: Sequence[str] = COLUMNS,
    start: int | None = None,
    end: int | None = None,
    *,
    encoded: bool = False,
) -> pa.Table:
    """`scan_events` as one table in memory."""
    whole = ENCODED_SCHEMA if encoded else STORED_SCHEMA
    schema = pa.schema([whole.field(name) for name in columns if name in whole.names])
    return pa.Table.from_batches(scan_events(path, columns, start, end, encoded=encoded), schema)


def event_files(path: Path, start: int | None = None, end: int | None = None) -> list[Path]:
    """The Parquet files of the days that meet [start, end), in order of day."""
    read_manifest(path)
    files = []
    for file in path.glob(FILES):
        try:
            first = day_number(file.parent.name.removeprefix("day=")) * DAY
        except ValueError as error:
            raise StorageError("is not the folder of a day", where=file.parent) from error
        if (start is None or first + DAY > start) and (end is None or first < end):
            files.append(file)
    return sorted(files)


def write_events(
    table: pa.Table, path: Path, sources: Sequence[ReadSource] = (), labels: dict[str, int] | None = None
) -> Manifest:
    """Store a table as an event directory, atomically; columns it lacks become null."""
    missing = [name for name in REQUIRED if name not in table.column_names]
    if missing:
        raise LogError(f"the table has no column {missing[0]!r}", where=path)
    with replacing_events(path) as directory:
        writer = EventWriter(directory)
        writer.write(encode(with_all_columns(table)))
        writer.close()
        manifest = summarise(writer.written(), tuple(sources), labels=labels)
        write_manifest(directory, manifest)
        seal_events(directory)
    return manifest


def with_all_columns(table: pa.Table) -> pa.Table:
    """The stored columns of a table of events; those it lacks are null."""
    columns = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in STORED_SCHEMA
    ]
    return pa.table(columns, schema=STORED_SCHEMA)


def summarise(
    written: Written,
    sources: tuple[ReadSource, ...],
    skipped: dict[str, str] | None = None,
    labels: dict[str, int] | None = None,
    unknown_labels: dict[str, int] | None = None,
    names: dict[str, int] | None = None,
) -> Manifest:
    """The manifest of what was written."""
    return Manifest(
        rows=written.rows,
        first_time=written.first_time or 0,
        last_time=written.last_time or 0,
        hosts=written.hosts,
        labelled=written.labelled > 0,
        malicious=written.malicious,
        ordered=written.ordered,
        days={day_name(day): written.days[day] for day in sorted(written.days)},
        sources=sources,
        skipped=skipped or {},
        labels=labels or {},
        unknown_labels=unknown_labels or {},
        names=names or {},
    )
