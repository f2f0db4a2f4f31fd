"""Files as pieces of plain text: gzip, zstd, bzip2, xz, zip members and .evtx, told by their first bytes."""

from __future__ import annotations

import bz2
import json
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

import zstandard

from entente.errors import LogError, MissingExtraError

PIECE = 1 << 22
COMPRESSED_PIECE = 1 << 16
"""Smaller, because it may unfold a thousandfold."""
Chunks = Iterator[bytes]
Progress = Callable[[int], None]


class Decompressor(Protocol):
    """What zlib, bz2, lzma and zstandard have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def _zstd() -> Decompressor:
    made: Decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
    return made


MAGIC: dict[bytes, tuple[str, Callable[[], Decompressor]]] = {
    b"\x1f\x8b": ("gzip", lambda: zlib.decompressobj(31)),
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd),
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\xfd7zXZ\x00": ("xz", lzma.LZMADecompressor),
}


@contextmanager
def opened(path: Path, member: str | None, progress: Progress) -> Iterator[Chunks]:
    """The text of a file, or of a member of a zip archive, in pieces."""
    with path.open("rb") as file:
        if member is not None:
            with zipfile.ZipFile(file) as archive, archive.open(member) as inner:
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
    except (zipfile.BadZipFile, EOFError) as error:
        raise _damaged(path, "zip", str(error)) from error
    except zlib.error as error:
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
                plain = current.decompress(piece)
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
    except (RuntimeError, ValueError) as error:
        raise _damaged(path, "evtx", str(error)) from error
    progress(path.stat().st_size)
