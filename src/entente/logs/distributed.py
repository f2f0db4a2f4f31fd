"""Ingest by Spark's workers: the event directory that one process would write, from parts of files.

Two steps. Every part of a file (a range of a plain file, a compressed file as a whole) is read by one task
as `ingest` reads it, and leaves its rows by day beside the result. Then every day is put together by one
task, in the order of the parts. Tasks read and write files under the names that the command has: all
workers must reach them, as on one machine or on a shared file system, and need this package.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from entente.errors import EntenteError, LogError
from entente.logs.decompression import is_plain
from entente.logs.engines import DuckDB, spark_session
from entente.logs.formats.base import Delimited, Options
from entente.logs.pipeline import BadRow, BlockReader, Piece, until_end
from entente.logs.plan import Job, Plan
from entente.logs.refine import Refinement
from entente.logs.schema import ORIGIN
from entente.logs.sources import line_blocks, range_blocks
from entente.logs.store import EventWriter, Written, day_name, encode

PART_BYTES = 128 << 20
"""Of a plain file, for one task."""
LINE = ORIGIN[1]
LATER = 1 << 40
"""Number of the first line of a part that does not begin its file; how many are before is known later."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one task reads."""

    number: int
    job: int
    start: int = 0
    stop: int | None = None
    """None = the whole file."""

    @property
    def first_line(self) -> int:
        return 1 if self.start == 0 else LATER


@dataclass(frozen=True, slots=True)
class PartRead:
    """What came of it; its events lie in files."""

    part: Part
    lines: int
    pieces: tuple[Piece, ...]
    """Without their events."""
    kept: tuple[int, ...]
    """Events of each piece."""
    written: Written


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a part could not be read, as the user should hear it."""

    said: str


def parts_of(plan: Plan, size: int) -> list[Part]:
    """The tasks, in the order of the files and of their lines."""
    parts: list[Part] = []
    for index, job in enumerate(plan.jobs):
        for start, stop in _ranges(job, size):
            parts.append(Part(len(parts), index, start, stop))
    return parts


def _ranges(job: Job, size: int) -> Iterator[tuple[int, int | None]]:
    ends = isinstance(job.layout, Delimited) and job.layout.end is not None
    if ends or job.depth is not None or job.file.member is not None or not is_plain(job.file.path):
        yield 0, None
        return
    whole = job.file.path.stat().st_size
    for start in range(0, whole, size):
        yield start, min(whole, start + size)


def read_part(part: Part, job: Job, options: Options, refinement: Refinement, scratch: Path) -> PartRead:
    """Runs in a worker: the rows of a part, by day, under `scratch`."""
    reader = BlockReader(DuckDB, options, refinement)
    folder = scratch / f"part-{part.number:06d}"
    folder.mkdir(parents=True)
    writer = EventWriter(folder)
    pieces, kept, lines = [], [], 0
    for block in _blocks(part, job):
        piece = reader.read(job.format, job.layout, block, part.first_line + lines, str(job.file))
        lines += block.count(b"\n")
        writer.write(piece.events)
        kept.append(piece.events.num_rows)
        pieces.append(_without_events(piece, part.job))
    writer.close()
    return PartRead(part, lines, tuple(pieces), tuple(kept), writer.written())


def _blocks(part: Part, job: Job) -> Iterator[bytes]:
    if part.stop is None:
        return until_end(line_blocks(job.file, lambda _: None, depth=job.depth), job)
    return range_blocks(job.file, part.start, part.stop)


def _without_events(piece: Piece, job: int) -> Piece:
    return replace(piece, job=job, events=piece.events.schema.empty_table())


def write_day(
    day: int, parts: Mapping[int, int], scratch: Path, directory: Path
) -> tuple[Written, frozenset[str]]:
    """Runs in a worker: one day of the result, from what the parts left of it.

    `parts` says of each by how much its line numbers are to be moved.
    """
    writer = EventWriter(directory)
    for number, shift in parts.items():
        folder = scratch / f"part-{number:06d}" / f"day={day_name(day)}"
        for file in sorted(folder.glob("*.parquet")):
            with pq.ParquetFile(file) as stored:
                for batch in stored.iter_batches():
                    writer.write(encode(_moved(pa.Table.from_batches([batch]), shift)))
    writer.close()
    return writer.written(), frozenset(writer.hosts)


def _moved(rows: pa.Table, shift: int) -> pa.Table:
    place = rows.schema.get_field_index(LINE)
    return rows.set_column(place, rows.schema.field(place), pc.add(rows[LINE], shift))


@dataclass(frozen=True, slots=True)
class Distributed:
    """What the workers have done: pieces with their number of events, bad rows with lines of their file."""

    pieces: list[tuple[Piece, int]]
    written: Written


def ingest_on_spark(
    plan: Plan, options: Options, refinement: Refinement, directory: Path, size: int = PART_BYTES
) -> Distributed:
    """Fill `directory` with the events of the plan."""
    context: Any = spark_session("entente ingest").sparkContext
    parts = parts_of(plan, size)
    scratch = directory / "_parts"
    jobs = plan.jobs

    def read(part: Part) -> PartRead | Failure:
        try:
            return read_part(part, jobs[part.job], options, refinement, scratch)
        except EntenteError as error:
            return Failure(str(error))

    try:
        found: list[PartRead] = _collected(context.parallelize(parts, len(parts)).map(read))
        days = sorted({day for one in found for day in one.written.days})
        shifts = _shifts(found)
        owners = {
            day: {one.part.number: shifts[one.part.number] for one in found if day in one.written.days}
            for day in days
        }

        def write(day: int) -> tuple[Written, frozenset[str]]:
            return write_day(day, owners[day], scratch, directory)

        whole = _collected(context.parallelize(days, len(days)).map(write)) if days else []
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return Distributed(list(_placed(found)), _together(found, whole))


def _collected(tasks: Any) -> list[Any]:
    """What the tasks gave; a LogError with what the first of them had to say against its part."""
    try:
        found: list[Any] = tasks.collect()
    except Exception as error:  # Spark raises what the Java side or a worker says, under many names
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise LogError(
            f"a Spark worker failed ({said[-1][:200]})",
            remedy="All workers must reach the files and --out under these names, and need this package.",
        ) from error
    for one in found:
        if isinstance(one, Failure):
            raise LogError(one.said)
    return found


def _shifts(found: list[PartRead]) -> dict[int, int]:
    """Part -> what its line numbers lack to those of the file."""
    before: dict[int, int] = {}
    shifts = {}
    for one in found:
        lines = before.get(one.part.job, 0)
        shifts[one.part.number] = lines - one.part.first_line + 1
        before[one.part.job] = lines + one.lines
    return shifts


def _placed(found: list[PartRead]) -> Iterator[tuple[Piece, int]]:
    """Pieces in order, their bad rows with the line numbers of their files."""
    shifts = _shifts(found)
    for one in found:
        for piece, kept in zip(one.pieces, one.kept, strict=True):
            bad = [BadRow(row.line + shifts[one.part.number], row.reason, row.text) for row in piece.bad]
            yield replace(piece, bad=bad), kept


def _together(found: list[PartRead], whole: list[tuple[Written, frozenset[str]]]) -> Written:
    ordered, last = True, None
    for one in found:
        written = one.written
        if written.first_time is None:
            continue
        ordered = ordered and written.ordered and (last is None or last <= written.first_time)
        last = written.last_time if last is None else max(last, written.last_time or last)
    days = [written for written, _ in whole]
    hosts: set[str] = set().union(*(names for _, names in whole))
    return Written(
        rows=sum(day.rows for day in days),
        first_time=min((day.first_time for day in days if day.first_time is not None), default=None),
        last_time=max((day.last_time for day in days if day.last_time is not None), default=None),
        hosts=len(hosts),
        labelled=sum(day.labelled for day in days),
        malicious=sum(day.malicious for day in days),
        ordered=ordered,
        days={number: rows for day in days for number, rows in day.days.items()},
    )
