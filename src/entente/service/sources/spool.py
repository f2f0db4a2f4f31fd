"""A folder of growing and rotating log files, read line by line as they are written."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, Any, cast

from pydantic import Field

from entente.config import Section
from entente.errors import ConfigError
from entente.service.sources.base import Batch, Lines, Position, Source

HEAD = 64 * 1024
LONGEST_LINE = 16 << 20
SIGNATURE = 1024
"""Bytes from a file's beginning that tell it from another with the same inode."""
GONE = 500
"""So many files that were removed are remembered, to know them again when they come back compressed."""


class SpoolOptions(Section):
    """A folder of logs."""

    path: Path
    """Folder that holds the logs, sub-folders included."""
    pattern: str = "*.log*"
    """Names of the files to read."""
    rest: float = Field(default=300.0, ge=0)
    """Seconds after which the last line of a file that has no line feed is taken as it stands."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A file as it lies in the folder."""

    path: Path
    key: str  # device and inode
    size: int
    modified: float


class Spool(Source):
    """Files are known by device, inode and first bytes: a rotated file is read to its end under its new name,
    and the new one from its beginning. A file that shrank, or begins otherwise, is a new file. A compressed
    copy of a file that was read before is read on from where reading had stopped.
    """

    name = "spool"
    summary = "a folder of growing and rotating log files"
    Options = SpoolOptions

    def __init__(self, options: SpoolOptions, where: str) -> None:
        super().__init__(options, where)
        if not options.path.is_dir():
            raise ConfigError(f"{options.path} is not a folder", where=where)
        self._compressed: dict[str, IO[bytes]] = {}

    def close(self) -> None:
        for stream in self._compressed.values():
            stream.close()
        self._compressed.clear()

    def read(self, position: Position | None, most: int) -> Batch:
        known: dict[str, dict[str, Any]] = {k: dict(v) for k, v in (position or {}).items()}
        notes: list[str] = []
        lines: list[Lines] = []
        room, behind = most, 0
        found = list(self._files())
        for file in found:
            try:
                part = self._read_file(file, known, room, notes)
            except OSError as error:
                notes.append(f"{file.path} cannot be read ({error.strerror})")
                continue
            if part is not None:
                lines.append(part)
                room = max(0, room - len(part.block))
            state = known.get(file.key)
            if state is not None and not state.get("whole"):
                behind += max(0, file.size - int(state["offset"]))
        present = {file.key for file in found}
        gone = [key for key in known if key not in present]
        for key in gone[:-GONE]:
            del known[key]
        return Batch(tuple(lines), known, behind, tuple(notes))

    def _files(self) -> Iterator[_Found]:
        """Matching files, the one that was written to longest ago first."""
        found = []
        for folder, _, names in os.walk(self.options.path):
            for name in names:
                if not fnmatch(name, self.options.pattern):
                    continue
                path = Path(folder) / name
                try:
                    about = path.stat()
                except OSError:
                    continue  # rotated away between listing and looking
                found.append(_Found(path, f"{about.st_dev}:{about.st_ino}", about.st_size, about.st_mtime))
        return iter(sorted(found, key=lambda file: (file.modified, str(file.path))))

    def _read_file(
        self, file: _Found, known: dict[str, dict[str, Any]], room: int, notes: list[str]
    ) -> Lines | None:
        if file.path.suffix == ".gz":
            return self._read_compressed(file, known, room)
        with file.path.open("rb") as stream:
            start = stream.read(SIGNATURE)
            state = known.get(file.key)
            if state is not None and not _same_file(state, file, start):
                notes.append(f"{file.path} begins anew; it is read from its beginning")
                state = None
            if state is None:
                state = {"offset": 0, "line": 1}
            known[file.key] = state
            state["start"] = start.hex()
            if file.size <= state["offset"] or room <= 0:
                return None
            stream.seek(state["offset"])
            block = stream.read(max(room, 1))
            whole, size = self._whole_lines(stream, block, file)
            if not whole:
                return None
            head = b"" if state["offset"] == 0 else _head(stream)
        result = Lines(str(file.path), head, whole, int(state["line"]))
        state["offset"] += size
        state["line"] += whole.count(b"\n")
        return result

    def _whole_lines(self, stream: IO[bytes], block: bytes, file: _Found) -> tuple[bytes, int]:
        """`block` up to its last line feed; at the end of a file that rests, also the line without one.

        Beside them the bytes of the file that they are.
        """
        while (end := block.rfind(b"\n")) < 0 and len(block) < LONGEST_LINE:
            more = stream.read(1 << 20)
            if not more:
                break
            block += more
        if end >= 0:
            return block[: end + 1], end + 1
        resting = time.time() - file.modified > self.options.rest
        return (block + b"\n", len(block)) if resting or len(block) >= LONGEST_LINE else (b"", 0)

    def _read_compressed(self, file: _Found, known: dict[str, dict[str, Any]], room: int) -> Lines | None:
        state = known.get(file.key)
        if state is None:
            state = {"offset": 0, "line": 1, "start": "", "whole": False}
        if state.get("whole") or room <= 0:
            return None
        try:
            stream = self._opened(file, state, known)
            block = stream.read(room)
            if block and not block.endswith(b"\n"):
                block += stream.readline(LONGEST_LINE)
            head = b""
            if state["offset"]:
                with gzip.open(file.path, "rb") as beginning:
                    head = _first_lines(beginning.read(HEAD))
        except (EOFError, gzip.BadGzipFile):
            self._forget(file.key)
            return None  # still being written; `known` has not moved
        known[file.key] = state
        if not block:
            state["whole"] = True
            self._forget(file.key)
            return None
        whole = block if block.endswith(b"\n") else block + b"\n"
        result = Lines(str(file.path), head, whole, int(state["line"]))
        state["offset"] += len(block)
        state["line"] += whole.count(b"\n")
        return result

    def _opened(self, file: _Found, state: dict[str, Any], known: dict[str, dict[str, Any]]) -> IO[bytes]:
        """The file decompressed, at its offset; kept open, as going to an offset means reading up to it."""
        stream = self._compressed.get(file.key)
        if stream is not None and stream.tell() == state["offset"]:
            return stream
        self._forget(file.key)
        self._compressed[file.key] = opened = cast(IO[bytes], gzip.open(file.path, "rb"))  # noqa: SIM115
        first = opened.read(SIGNATURE)
        if not state["start"]:
            state["start"] = first.hex()
            original = _original(first, known)
            if original is not None:
                state["offset"], state["line"] = original["offset"], original["line"]
        opened.seek(state["offset"])
        return opened

    def _forget(self, key: str) -> None:
        stream = self._compressed.pop(key, None)
        if stream is not None:
            stream.close()


def _original(first: bytes, known: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    """The file that begins with these bytes and was read while it was written."""
    return next((s for s in known.values() if s["offset"] and first.hex().startswith(s["start"])), None)


def _same_file(state: dict[str, Any], file: _Found, start: bytes) -> bool:
    before = bytes.fromhex(state.get("start", ""))
    return file.size >= state["offset"] and start.startswith(before)


def _head(stream: IO[bytes]) -> bytes:
    stream.seek(0)
    return _first_lines(stream.read(HEAD))


def _first_lines(data: bytes) -> bytes:
    return data[: data.rfind(b"\n") + 1]
