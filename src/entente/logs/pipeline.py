"""Read, split and evaluate side by side; results come out in the order of the lines."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from entente.logs.blocks import RawBlock, Splitter, raw_columns
from entente.logs.engines import Engine
from entente.logs.formats.base import Delimited, Format, Layout, Options
from entente.logs.manifest import total
from entente.logs.plan import Job
from entente.logs.projection import projection
from entente.logs.refine import Refinement
from entente.logs.schema import COLUMNS, ORIGIN
from entente.logs.sources import line_blocks
from entente.logs.store import encode


@dataclass(frozen=True, slots=True)
class BadRow:
    line: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Piece:
    """What became of one block of lines."""

    job: int
    events: pa.Table
    seen: int
    filtered: dict[str, int]
    bad: list[BadRow]
    matched: set[str]
    """Keys of the labels file that occurred."""
    names: dict[str, int]
    """What became of the names of hosts (`hosts.Counts`)."""
    words: dict[str, int]
    """Labels that nobody understands -> rows."""
    read: int
    """Bytes on disk that have been read so far, over all files."""


class Pipeline:
    """One reader thread, and workers that each have an engine of their own."""

    def __init__(
        self,
        jobs: tuple[Job, ...],
        engine: type[Engine],
        options: Options,
        refinement: Refinement,
        workers: int | None = None,
    ) -> None:
        self._jobs = jobs
        self._engine = engine
        self._options = options
        self._refinement = refinement
        self._workers = workers or min(4, os.cpu_count() or 1)
        for job in jobs:  # translated here once, before the workers ask
            _compiled(engine, job.format, raw_columns(job.layout), options)
        self._mine = threading.local()
        self._stop = threading.Event()
        self._room = threading.Semaphore(self._workers + 2)
        self._ready: queue.SimpleQueue[Future[Piece] | BaseException | None] = queue.SimpleQueue()
        self._read = 0

    def __iter__(self) -> Iterator[Piece]:
        with ThreadPoolExecutor(self._workers) as pool:
            reader = threading.Thread(target=self._feed, args=(pool,), daemon=True)
            reader.start()
            try:
                while (item := self._ready.get()) is not None:
                    if isinstance(item, BaseException):
                        raise item
                    piece = item.result()
                    self._room.release()
                    yield piece
            finally:
                self._stop.set()
                self._room.release()
                reader.join()
                pool.shutdown(cancel_futures=True)

    def _feed(self, pool: ThreadPoolExecutor) -> None:
        try:
            for index, job in enumerate(self._jobs):
                line = 1
                blocks = line_blocks(job.file, self._progress, depth=job.depth)
                for block in until_end(blocks, job):
                    self._room.acquire()
                    if self._stop.is_set():
                        return
                    self._ready.put(pool.submit(self._work, index, block, line, self._read))
                    line += block.count(b"\n")
        except BaseException as error:  # handed over to the thread that waits
            self._ready.put(error)
        else:
            self._ready.put(None)

    def _progress(self, read: int) -> None:
        self._read += read

    def _work(self, index: int, block: bytes, line: int, read: int) -> Piece:
        job = self._jobs[index]
        reader: BlockReader | None = getattr(self._mine, "reader", None)
        if reader is None:
            reader = self._mine.reader = BlockReader(self._engine, self._options, self._refinement)
        events = reader.read(job.format, job.layout, block, line, str(job.file))
        return replace(events, job=index, read=read)


class BlockReader:
    """Blocks of whole lines -> events, for one thread."""

    def __init__(self, engine: type[Engine], options: Options, refinement: Refinement) -> None:
        self._engine = engine
        self._options = options
        self._refinement = refinement
        self._splitter = Splitter()
        self._engines: dict[int, Engine] = {}

    def read(self, format: Format, layout: Layout, block: bytes, line: int, log: str) -> Piece:
        """What became of the lines of `log`, the first of which is number `line`."""
        compiled = _compiled(self._engine, format, raw_columns(layout), self._options)
        raw = self._splitter.split(block, line, layout, compiled.unchanged.values())
        if id(compiled) not in self._engines:
            self._engines[id(compiled)] = self._engine(compiled.query)
        rows = self._engines[id(compiled)].evaluate(raw.fields)
        for name, column in compiled.unchanged.items():
            rows = rows.append_column(name, raw.fields[column])
        name = pa.DictionaryArray.from_arrays(np.zeros(rows.num_rows, dtype=np.int32), pa.array([log]))
        rows = rows.append_column(ORIGIN[0], name)
        rows = rows.append_column(ORIGIN[1], pa.array(raw.lines, pa.int64()))
        return _sort_out(rows, raw, block, line, format, self._refinement)


@dataclass(frozen=True, slots=True)
class _Compiled:
    query: Any
    """The projection in the engine's own language."""
    unchanged: Mapping[str, str]


@cache
def _compiled(engine: type[Engine], format: Format, columns: tuple[str, ...], options: Options) -> _Compiled:
    """Building and translating expressions takes longer than reading a small file, so it is done once."""
    wanted = projection(format, columns, options)
    return _Compiled(engine.compile(wanted.expression), wanted.unchanged)


def until_end(blocks: Iterator[bytes], job: Job) -> Iterator[bytes]:
    """Blocks up to the line that ends the rows, where the layout has one."""
    end = job.layout.end if isinstance(job.layout, Delimited) else None
    if end is None:
        yield from blocks
        return
    for block in blocks:
        place = (b"\n" + block.replace(b"\r\n", b"\n")).find(f"\n{end}\n".encode())
        if place >= 0:
            if place:
                yield block.replace(b"\r\n", b"\n")[:place]
            return
        yield block


def _sort_out(
    rows: pa.Table, raw: RawBlock, block: bytes, first_line: int, format: Format, refinement: Refinement
) -> Piece:
    """Kept rows from filtered and bad ones, with counts of the former and places of the latter."""
    seen = raw.fields.num_rows
    reasons: dict[int, str] = {}
    filtered = dict(raw.left_out)
    dropped = np.zeros(seen, dtype=bool)
    for name in ("filtered", "bad"):
        column = rows[name]
        if column.null_count == seen:
            continue
        hit = column.is_valid().to_numpy()
        if raw.malformed:
            hit = hit.copy()
            hit[list(raw.malformed)] = False
        dropped |= hit
        if name == "bad":
            places = np.flatnonzero(hit)
            reasons = dict(zip(places.tolist(), column.take(pa.array(places)).to_pylist(), strict=True))
        else:
            counts = pc.value_counts(column.filter(pa.array(hit)))
            found = {entry["values"]: entry["counts"] for entry in counts.to_pylist()}
            filtered = total((filtered, found))
    reasons.update(raw.malformed)
    dropped[list(raw.malformed)] = True
    kept = rows.filter(pa.array(~dropped)) if dropped.any() else rows
    refined = refinement.apply(kept, format)
    kept = refined.rows
    if refined.bad:
        places = np.flatnonzero(~dropped)
        reasons |= {int(places[row]): reason for row, reason in refined.bad.items()}
        stays = np.ones(len(places), dtype=bool)
        stays[list(refined.bad)] = False
        kept = kept.filter(pa.array(stays))
    bad = []
    if reasons:
        texts = block.decode("utf-8", "replace").split("\n")
        for row in sorted(reasons):
            line = int(raw.lines[row])
            bad.append(BadRow(line, reasons[row], texts[line - first_line].rstrip("\r")))
    events = encode(kept.select([*COLUMNS, *ORIGIN]))
    seen += sum(raw.left_out.values())
    return Piece(0, events, seen, filtered, bad, refined.matched, refined.names, refined.words, len(block))


Observer = Callable[[int, int], None]
"""Hears (rows seen, bytes read) now and then."""
