"""JSON that is not one object per line: arrays, pretty-printed objects, answers of search engines."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from entente.errors import LogError

LONGEST_VALUE = 1 << 26
SLICE = 1 << 20
WRAPPED = re.compile(
    rb'"(?:hits|results|records|value|values|events|logs|items|data)"\s*:\s*(\[)\s*\{', re.IGNORECASE
)
"""The key under which an answer or an export keeps its list of rows."""


class Framer:
    """Finds the objects at one depth of nesting in a text that comes in pieces.

    Depth 0 are objects one after the other, however they are printed; depth 1 the elements of an array;
    depth 3 those of `{"hits": {"hits": [...]}}`. Everything else is passed over. Brackets and quotes
    inside a string do not count.
    """

    def __init__(self, depth: int, where: str = "") -> None:
        self._where = where or None
        self._wanted = depth
        self.depth = 0
        """Brackets that are open now."""
        self._in_string = False
        self._escaping = False
        """The text so far ends in an odd number of backslashes."""
        self._open: list[bytes] = []
        """The beginning of an object that has not ended yet."""
        self._length = 0

    def lines(self, piece: bytes) -> bytes:
        """The objects that end in this piece, one per line."""
        found: list[bytes] = []
        for start in range(0, len(piece), SLICE):
            found.extend(self._ended(piece[start : start + SLICE]))
        return b"".join(found)

    def rest(self) -> bytes:
        """What has begun and did not end: a bad row."""
        return _on_one_line(b"".join(self._open)) if self._open else b""

    def _ended(self, piece: bytes) -> Iterator[bytes]:
        depth, opened, closed = self._structure(piece)
        starts = np.flatnonzero(opened & (depth == self._wanted + 1)).tolist()
        ends = np.flatnonzero(closed & (depth == self._wanted)).tolist()
        begun = 0 if self._open else None
        for place, opening in sorted(
            [(place, True) for place in starts] + [(place, False) for place in ends]
        ):
            if begun is not None:
                # An object that begins before the former has ended makes that one a bad row.
                end = place if opening else place + 1
                yield _on_one_line(b"".join(self._open) + piece[begun:end])
                self._open, self._length = [], 0
            begun = place if opening else None
        if begun is not None:
            self._open.append(piece[begun:])
            self._length += len(piece) - begun
            if self._length > LONGEST_VALUE:
                raise LogError("has a JSON object of more than 64 MB: this is no log", where=self._where)

    def _structure(self, piece: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(depth after each byte, whether it opens an object, whether it closes one)."""
        text = np.frombuffer(piece, dtype=np.uint8)
        quote = text == ord('"')
        if self._escaping or b"\\" in piece:
            quote = quote & ~self._escaped(text)
        inside = (np.cumsum(quote) + self._in_string) % 2 == 1
        self._in_string = bool(inside[-1])
        opens = (text == ord("{")) & ~inside
        closes = (text == ord("}")) & ~inside
        change = opens.astype(np.int64) - closes
        change += (text == ord("[")) & ~inside
        change -= (text == ord("]")) & ~inside
        depth = np.cumsum(change) + self.depth
        self.depth = int(depth[-1])
        return depth, opens, closes

    def _escaped(self, text: np.ndarray) -> np.ndarray:
        """Bytes that follow an odd number of backslashes."""
        backslash = text == ord("\\")
        places = np.arange(len(text))
        # The place before the run of backslashes that a byte stands in; -2 if an odd run goes on from before.
        before = np.maximum.accumulate(np.where(backslash, -2 if self._escaping else -1, places))
        odd = backslash & ((places - before) % 2 == 1)
        after = np.concatenate([[self._escaping], odd[:-1]])
        self._escaping = bool(odd[-1])
        return after


def _on_one_line(value: bytes) -> bytes:
    """A line end is no part of a string in JSON, so that it may become a blank."""
    if b"\n" in value or b"\r" in value:
        value = value.replace(b"\r", b" ").replace(b"\n", b" ")
    return value + b"\n"


def framed(chunks: Iterator[bytes], depth: int, where: str = "") -> Iterator[bytes]:
    """The objects at this depth as lines; `where` names the file in an error."""
    framer = Framer(depth, where)
    for chunk in chunks:
        if lines := framer.lines(chunk):
            yield lines
    if rest := framer.rest():
        yield rest


def possible_depths(start: bytes) -> list[int]:
    """At which depths the rows of a text that begins so may lie, where they are not lines."""
    text = start.lstrip()
    if text.startswith(b"["):
        return [1]
    if not text.startswith(b"{"):
        return []
    depths = [0] if text.split(b"\n", 1)[0].strip() == b"{" else []
    found = WRAPPED.search(text)
    if found:
        framer = Framer(0)
        framer.lines(text[: found.end(1)])
        depths.append(framer.depth)
    return depths
