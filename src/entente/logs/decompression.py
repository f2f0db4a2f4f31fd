"""Files as pieces of plain text: gzip, zstd, bzip2, xz, zip members and .evtx, told by their first bytes."""

from __future__ import annotations

import bz2
import json
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Protocol

import zstandard

from entente.errors import LogError, MissingExtraError

PIECE = 1 << 22
COMPRESSED_PIECE = 1 << 16
ZSTD_PIECE = 1 << 10
"""zstd cannot be told to stop: four bytes may unfold to 128 kB, so that this much unfolds to 32 MB."""
XZ_MEMORY = 1 << 29
Chunks = Iterator[bytes]
Progress = Callable[[int], None]


class Decompressor(Protocol):
    """One compressed stream, unfolded in pieces of a bounded size."""

    def unfold(self, data: bytes) -> Chunks:
        """The plain text of the next `data`; nothing more is taken once the stream has ended."""
        ...

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes:
        """What came after the end of the stream."""
        ...


class _Gzip:
    def __init__(self) -> None:
        self._stream = zlib.decompressobj(31)

    def unfold(self, data: bytes) -> Chunks:
        plain = self._stream.decompress(data, PIECE)
        while plain:
            yield plain
            if self._stream.eof or (len(plain) < PIECE and not self._stream.unconsumed_tail):
                return
            plain = self._stream.decompress(self._stream.unconsumed_tail, PIECE)

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data


class _Library:
    """bz2 and lzma, which share an interface."""

    def __init__(self, stream: bz2.BZ2Decompressor | lzma.LZMADecompressor) -> None:
        self._stream = stream

    def unfold(self, data: bytes) -> Chunks:
        yield self._stream.decompress(data, PIECE)
        while not self._stream.eof and not self._stream.needs_input:
            yield self._stream.decompress(b"", PIECE)

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data


class _Zstd:
    def __init__(self) -> None:
        self._stream = zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
        self._after = b""

    def unfold(self, data: bytes) -> Chunks:
        for start in range(0, len(data), ZSTD_PIECE):
            yield self._stream.decompress(data[start : start + ZSTD_PIECE])
            if self._stream.eof:
                self._after = self._stream.unused_data + data[start + ZSTD_PIECE :]
                return

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._after


MAGIC: dict[bytes, tuple[str, Callable[[], Decompressor]]] = {
    b"\x1f\x8b": ("gzip", _Gzip),
    b"\x28\xb5\x2f\xfd": ("zstd", _Zstd),
    b"BZh": ("bzip2", lambda: _Library(bz2.BZ2Decompressor())),
    b"\xfd7zXZ\x00": ("xz", lambda: _Library(lzma.LZMADecompressor(memlimit=XZ_MEMORY))),
}


def is_plain(path: Path) -> bool:
    """Whether the file is text as it stands, so that its parts can be read apart."""
    with path.open("rb") as file:
        start = file.read(8)
    return not start.startswith((*MAGIC, b"PK\x03\x04", b"ElfFile\x00"))


@contextmanager
def opened(path: Path, member: str | None, progress: Progress) -> Iterator[Chunks]:
    """The text of a file, or of a member of a zip archive, in pieces."""
    with path.open("rb") as file:
        if member is not None:
            with ExitStack() as stack:
                try:
                    archive = stack.enter_context(zipfile.ZipFile(file))
                    inner = stack.enter_context(archive.open(member))
                # An encrypted member is a RuntimeError, as is a method of compression that is not known; an
                # offset before the file is an OSError.
                except (
                    zipfile.BadZipFile,
                    KeyError,
                    RuntimeError,
                    ValueError,
                    OSError,
                    struct.error,
                ) as error:
                    raise _damaged(path, "zip", str(error)) from error
                yield _decompressed(inner, path, progress, zipped=True)
        elif file.read(8) == b"ElfFile\x00":
            yield _evtx(path, progress)
        else:
            file.seek(0)
            yield _decompressed(file, path, progress, zipped=False)


def _decompressed(file: IO[bytes], path: Path, progress: Progress, *, zipped: bool) -> Chunks:
    try:
        piece = file.read(COMPRESSED_PIECE)
        for magic, (kind, make) in MAGIC.items():
            if piece.startswith(magic):
                yield from _members(file, piece, path, progress, kind, make)
                return
        while piece:
            progress(len(piece))
            yield piece
            piece = file.read(PIECE)
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError) as error:
        if not zipped:
            raise
        raise _damaged(path, "zip", str(error)) from error


def _members(
    file: IO[bytes], piece: bytes, path: Path, progress: Progress, kind: str, make: Callable[[], Decompressor]
) -> Chunks:
    """A compressed file may be several ones end to end, as rotation and parallel compressors leave them."""
    current: Decompressor | None = None
    try:
        while piece:
            progress(len(piece))
            while piece:
                if current is None:
                    # Zeros between members are padding of tapes and blocks.
                    piece = piece.lstrip(b"\x00")
                    if not piece:
                        break
                    current = make()
                for plain in current.unfold(piece):
                    if plain:
                        yield plain
                piece = current.unused_data if current.eof else b""
                if current.eof:
                    current = None
            piece = file.read(COMPRESSED_PIECE)
    except (zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError, ValueError) as error:
        raise _damaged(path, kind, str(error)) from error
    if current is not None:
        raise LogError(
            f"is a truncated {kind} file: it ends in the middle of the data",
            where=path,
            remedy="Copy or download it again, or wait until it is written completely.",
        )


def _damaged(path: Path, kind: str, detail: str) -> LogError:
    return LogError(f"is a damaged {kind} file ({detail})", where=path, remedy="Copy or download it again.")


def _evtx(path: Path, progress: Progress) -> Chunks:
    """The records of a Windows event log, one JSON object per line."""
    try:
        import evtx
    except ImportError as error:
        raise MissingExtraError(
            "reading .evtx files needs the evtx package", where=path, remedy="pip install 'entente[evtx]'"
        ) from error
    try:
        for record in evtx.PyEvtxParser(str(path)).records_json():
            if record is not None:
                yield json.dumps(json.loads(record["data"])).encode() + b"\n"
    except (RuntimeError, ValueError, OSError) as error:
        raise _damaged(path, "evtx", str(error)) from error
    except BaseException as error:
        # A panic of the parser, which is written in Rust, is not an Exception in Python.
        if type(error).__name__ != "PanicException":
            raise
        raise _damaged(path, "evtx", str(error)) from error
    progress(path.stat().st_size)
