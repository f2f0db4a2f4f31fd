"""Lines as they arrive -> events: for logs that are still being written."""

from __future__ import annotations

from dataclasses import dataclass

from entente.errors import LogError
from entente.logs.engines import DuckDB
from entente.logs.formats import format_named, recognise
from entente.logs.formats.base import Format, Head, Layout, Options, Skip
from entente.logs.pipeline import BlockReader, Piece
from entente.logs.plan import AUTO
from entente.logs.refine import Refinement

HEAD_LINES = 200


@dataclass(slots=True)
class _Log:
    """One log whose format is known; None: it holds no events, for `reason`."""

    format: Format | None
    layout: Layout | None
    reason: str


class LineReader:
    """Reads blocks of whole lines of any number of logs, in one thread.

    Which format a log has is decided once, by its first lines. A log that holds no events (a dns.log among
    Zeek's) is read as nothing, with its reason.
    """

    def __init__(self, format: str, options: Options, refinement: Refinement) -> None:
        self._format = format
        self._options = options
        self._reader = BlockReader(DuckDB, options, refinement)
        self._logs: dict[str, _Log] = {}

    def read(self, log: str, head: bytes, block: bytes, first: int) -> Piece | str:
        """What became of the lines, or why the log is not read; LogError where its format is unknown.

        `head` are the log's first lines where `block` does not begin with them.
        """
        known = self._logs.get(log)
        if known is None or (first == 1 and not head):  # a new log, or a new one under an old name
            known = self._recognise(log, head or block)
            self._logs[log] = known
        if known.format is None or known.layout is None:
            return known.reason
        return self._reader.read(known.format, known.layout, block, first, log)

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
