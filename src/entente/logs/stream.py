"""Lines as they arrive -> events: for logs that are still being written."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from entente.errors import LogError
from entente.logs.engines import DuckDB
from entente.logs.formats import format_named, recognise
from entente.logs.formats.base import Format, Head, Layout, Options, Skip
from entente.logs.pipeline import BlockReader, Piece
from entente.logs.plan import AUTO
from entente.logs.refine import Refinement

HEAD_LINES = 200
WORKERS = min(4, os.cpu_count() or 1)
LEAST = 1 << 20
"""Bytes that are worth a worker of their own."""


@dataclass(slots=True)
class _Log:
    """One log whose format is known; None: it holds no events, for `reason`."""

    format: Format | None
    layout: Layout | None
    reason: str


class LineReader:
    """Reads blocks of whole lines of any number of logs, large ones by several workers.

    Which format a log has is decided once, by its first lines. A log that holds no events (a dns.log among
    Zeek's) is read as nothing, with its reason.
    """

    def __init__(self, format: str, options: Options, refinement: Refinement) -> None:
        self._format = format
        self._options = options
        self._refinement = refinement
        self._mine = threading.local()
        self._pool = ThreadPoolExecutor(WORKERS)
        self._logs: dict[str, _Log] = {}

    def read(self, log: str, head: bytes, block: bytes, first: int) -> list[Piece] | str:
        """What became of the lines, in order, or why the log is not read; LogError if its format is unknown.

        `head` are the log's first lines where `block` does not begin with them.
        """
        known = self._logs.get(log)
        if known is None or (first == 1 and not head):  # a new log, or a new one under an old name
            known = self._recognise(log, head or block)
            self._logs[log] = known
        format, layout = known.format, known.layout
        if format is None or layout is None:
            return known.reason

        def work(part: tuple[bytes, int]) -> Piece:
            return self._reader().read(format, layout, *part, log)

        parts = list(_cut(block, first))
        return [work(part) for part in parts] if len(parts) == 1 else list(self._pool.map(work, parts))

    def _reader(self) -> BlockReader:
        """This thread's own."""
        found: BlockReader | None = getattr(self._mine, "reader", None)
        if found is None:
            found = self._mine.reader = BlockReader(DuckDB, self._options, self._refinement)
        return found

    def _recognise(self, log: str, start: bytes) -> _Log:
        lines = start[: 1 << 16].decode("utf-8", "replace").splitlines()[:HEAD_LINES]
        head = Head(log.rsplit("/", 1)[-1].removesuffix(".gz"), tuple(lines))
        if self._format != AUTO:
            wanted = format_named(self._format)
        else:
            found = recognise(head)
            if found is None:
                raise LogError(
                    f"is of no known format; it begins with {head.first[:60]!r}",
                    where=log,
                    remedy="Name the source's format in its section of the configuration.",
                )
            wanted = found[0]
        layout = wanted.layout(head, self._options)
        if isinstance(layout, Skip):
            return _Log(None, None, layout.reason)
        return _Log(wanted, layout, "")


def _cut(block: bytes, first: int) -> Iterator[tuple[bytes, int]]:
    """Whole lines in parts of about the same size, one per worker, each with the number of its first line."""
    size = max(LEAST, -(-len(block) // WORKERS))
    start = 0
    while start < len(block):
        end = block.find(b"\n", start + size - 1) + 1 or len(block)
        part = block[start:end]
        yield part, first
        start, first = end, first + part.count(b"\n")
