"""Log lines on standard input, as a pipe from another program brings them."""

from __future__ import annotations

import os
import select
import sys

from entente.config import Section
from entente.service.sources.base import Batch, Lines, Position, Source

HEAD = 64 * 1024
LONGEST_LINE = 16 << 20


class StdinOptions(Section):
    """Standard input."""


class Stdin(Source):
    """What was read and not yet stored when the service is killed is gone: a pipe cannot be read again."""

    name = "stdin"
    summary = "lines on standard input"
    Options = StdinOptions

    def __init__(self, options: StdinOptions, where: str) -> None:
        super().__init__(options, where)
        self._handle = sys.stdin.fileno()
        self._rest = b""
        self._head = b""
        self._line = 1
        self._ended = False

    def read(self, position: Position | None, most: int) -> Batch:
        parts, size = [self._rest], len(self._rest)
        while size < most and not self._ended:
            ready, _, _ = select.select([self._handle], [], [], 0.0 if size else 0.2)
            if not ready:
                break
            part = os.read(self._handle, 1 << 20)
            self._ended = not part
            parts.append(part)
            size += len(part)
        block = b"".join(parts)
        if self._ended and block and not block.endswith(b"\n"):
            block += b"\n"
        end = block.rfind(b"\n") + 1
        if not end and len(block) >= LONGEST_LINE:
            block, end = block + b"\n", len(block) + 1
        whole, self._rest = block[:end], block[end:]
        if not whole:
            return Batch((), None)
        lines = Lines("standard input", self._head, whole, self._line)
        self._line += whole.count(b"\n")
        if len(self._head) < HEAD:
            self._head = (self._head + whole)[:HEAD]
            self._head = self._head[: self._head.rfind(b"\n") + 1]
        return Batch((lines,), None)

    @property
    def finished(self) -> bool:
        return self._ended and not self._rest
