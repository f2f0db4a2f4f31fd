"""SOURCE arguments -> log files -> blocks of whole lines, decompressed on the way."""

from __future__ import annotations

import glob
import re
import struct
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from entente.errors import LogError
from entente.logs.decompression import PIECE, Chunks, opened
from entente.logs.formats.base import Head
from entente.logs.framing import framed
from entente.logs.manifest import MANIFEST

HEAD_BYTES = 1 << 16
LONGEST_HEAD = 1 << 20
LONGEST_LINE = 1 << 26
BLOCK_BYTES = 8 << 20
MAX_EXPANSION = 200
"""Times its size on disk that a file may unfold to. Logs rarely reach 100, a bomb has 1,000 and more."""
HARMLESS = 64 << 20
"""Text that any file may unfold to."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of lines: a plain or compressed file, or a member of a zip archive."""

    path: Path
    argument: str
    """The SOURCE argument that led here."""
    member: str | None = None
    listed: bool = False
    """Found in a directory or by a glob, so that it may turn out to be something else."""
    size: int = 0
    """Bytes to read, for progress."""
    most: int | None = None
    """Bytes of text that the file may unfold to; more is taken for a decompression bomb."""

    @property
    def name(self) -> str:
        """File name without folder, for recognition."""
        return Path(self.member).name if self.member else self.path.name

    def __str__(self) -> str:
        return f"{self.path}!{self.member}" if self.member else str(self.path)


def find_files(arguments: Sequence[str], max_expansion: int = MAX_EXPANSION) -> list[LogFile]:
    """Every file the arguments lead to, in a fixed order; a LogError where an argument leads nowhere.

    A file may unfold to `max_expansion` times its size on disk, or to 64 MB; 0 is no limit.
    """
    found: dict[tuple[Path, str | None], LogFile] = {}
    for argument in arguments:
        path = Path(argument)
        if path.is_dir():
            paths = _walk(path)
        elif path.is_file():
            paths = [path]
        elif path.exists():
            raise LogError(
                "is not a regular file",
                where=path,
                remedy="A log is looked at twice, so that a pipe will not do; write it to a file first.",
            )
        else:
            paths = [Path(file) for file in glob.glob(argument, recursive=True) if Path(file).is_file()]
            if not paths:
                raise LogError(
                    "does not exist" if not glob.has_magic(argument) else "matches no file",
                    where=argument,
                    remedy="Check the path; quote a glob so that the shell leaves it alone.",
                )
        listed = paths != [path]
        some = False
        for file in sorted(paths, key=_natural):
            for member, size, stored in _members(file):
                some = True
                most = max(HARMLESS, stored * max_expansion) if max_expansion else None
                found.setdefault((file, member), LogFile(file, argument, member, listed, size, most))
        if not some:
            raise LogError("is an archive without any file", where=argument)
    return list(found.values())


def _walk(root: Path) -> list[Path]:
    """The files below a directory, without hidden ones and without those of event directories."""
    if (root / MANIFEST).is_file():
        raise LogError("is an event directory already, not a directory of logs", where=root)
    results = {found.parent for found in root.rglob(MANIFEST)}
    files = [
        file
        for file in root.rglob("*")
        if file.is_file()
        and not any(part.startswith((".", "_")) for part in file.relative_to(root).parts)
        and not results.intersection(file.parents)
    ]
    if not files:
        raise LogError("is a directory without any log file", where=root)
    return files


def _natural(path: Path) -> list[tuple[int, int | str]]:
    """Sort key in which log.2 comes before log.10."""
    parts = re.split(r"(\d+)", str(path))
    return [(0, int(part)) if part.isdigit() else (1, part) for part in parts]


def _members(file: Path) -> list[tuple[str | None, int, int]]:
    """(member, bytes to read, bytes on disk) of each file in a zip archive; of the file itself elsewhere."""
    try:
        with file.open("rb") as opened_file:
            size = file.stat().st_size
            if opened_file.read(4) != b"PK\x03\x04":
                return [(None, size, size)]
        with zipfile.ZipFile(file) as archive:
            members = sorted(
                (info.filename, info.file_size, info.compress_size)
                for info in archive.infolist()
                if info.filename and not info.filename.endswith("/")
            )
    except OSError as error:
        raise unreadable(file, error) from error
    except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as error:
        raise LogError(f"is a damaged zip archive ({error})", where=file, remedy="Fetch it again.") from error
    if sum(stored for _, _, stored in members) > size:
        raise LogError(
            "is a zip archive whose members overlap, as in a decompression bomb",
            where=file,
            remedy="Ask for the logs in another form.",
        )
    return [entry for entry in members if not Path(entry[0]).name.startswith((".", "_"))]


def unreadable(file: Path | str, error: OSError) -> LogError:
    return LogError(
        f"cannot be read ({error.strerror or error})", where=file, remedy="Check its permissions."
    )


@contextmanager
def opened_log(file: LogFile, progress: Callable[[int], None] | None = None) -> Iterator[Chunks]:
    """The file's text in pieces of any size; `progress` hears how many bytes on disk were read."""
    try:
        with opened(file.path, file.member, progress or (lambda _: None)) as chunks:
            yield chunks if file.most is None else _limited(chunks, file, file.most)
    except OSError as error:
        raise unreadable(str(file), error) from error


def _limited(chunks: Chunks, file: LogFile, most: int) -> Chunks:
    unfolded = 0
    for chunk in chunks:
        unfolded += len(chunk)
        if unfolded > most:
            raise LogError(
                f"unfolds to more than {most / 1e6:,.0f} MB of text, far more than a log of its size",
                where=str(file),
                remedy="If you trust the file, allow more, such as --max-expansion 5000; 0 is no limit.",
            )
        yield chunk


def text_beside(path: Path) -> str:
    """The whole text of a file that goes with the logs, such as labels or names; it may be compressed."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise unreadable(path, error) from error
    with opened_log(LogFile(path, str(path), most=max(HARMLESS, size * MAX_EXPANSION))) as chunks:
        return b"".join(chunks).decode("utf-8-sig", "replace")


def read_head(file: LogFile, depth: int | None = None) -> Head:
    """The first lines of the file, or its first objects at a depth."""
    start = bytearray()
    whole = False
    with opened_log(file) as chunks:
        for chunk in _rows(chunks, depth, file):
            start += chunk
            whole = whole or b"\n" in chunk
            # An array may well be one line of any length.
            enough = LONGEST_HEAD if start[:64].lstrip()[:1] == b"[" else LONGEST_LINE
            if len(start) >= HEAD_BYTES and (whole or len(start) > enough):
                break
        else:
            start += b"\n"
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise LogError(
            "is UTF-16 text", where=str(file), remedy="Convert it: iconv -f UTF-16 -t UTF-8 IN > OUT."
        )
    whole_lines = start[: start.rfind(b"\n") + 1] or start[:HEAD_BYTES] + b"\n"
    text = whole_lines.decode("utf-8", "replace")
    return Head(file.name, tuple(line.rstrip("\r") for line in text.split("\n")[:-1]))


def _rows(chunks: Chunks, depth: int | None, file: LogFile) -> Chunks:
    """The text without a byte order mark, with JSON objects at `depth` one per line."""
    plain = _without_mark(chunks)
    return plain if depth is None else framed(plain, depth, str(file))


def _without_mark(chunks: Chunks) -> Chunks:
    first = True
    for chunk in chunks:
        yield chunk.removeprefix(b"\xef\xbb\xbf") if first else chunk
        first = False


def line_blocks(
    file: LogFile, progress: Callable[[int], None], size: int = BLOCK_BYTES, depth: int | None = None
) -> Iterator[bytes]:
    """Blocks of whole lines, each ending in a line end, about `size` bytes long."""
    with opened_log(file, progress) as chunks:
        yield from _in_blocks(_rows(chunks, depth, file), file, size)


def range_blocks(file: LogFile, start: int, stop: int, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Blocks of the lines that begin in [start, stop) of a plain text file."""
    try:
        with file.path.open("rb") as opened_file:
            chunks = _range(opened_file, start, stop)
            yield from _in_blocks(_without_mark(chunks) if start == 0 else chunks, file, size)
    except OSError as error:
        raise unreadable(str(file), error) from error


def _range(file: IO[bytes], start: int, stop: int) -> Chunks:
    if start:
        file.seek(start - 1)
        file.readline(LONGEST_LINE)
    place = file.tell()
    last = b""
    while place < stop:
        last = file.read(min(PIECE, stop - place))
        if not last:
            return
        place += len(last)
        yield last
    if last and not last.endswith(b"\n"):
        yield file.readline(LONGEST_LINE)


def _in_blocks(chunks: Chunks, file: LogFile, size: int) -> Iterator[bytes]:
    kept: list[bytes] = []
    length = 0
    whole = False
    for chunk in chunks:
        kept.append(chunk)
        length += len(chunk)
        whole = whole or b"\n" in chunk
        if length < size:
            continue
        if not whole:
            if length > LONGEST_LINE:
                raise LogError("has a line of more than 64 MB: this is no log", where=str(file))
            continue
        last = next(place for place in range(len(kept) - 1, -1, -1) if b"\n" in kept[place])
        cut = kept[last].rfind(b"\n") + 1
        rest = [kept[last][cut:], *kept[last + 1 :]]
        kept[last:] = [kept[last][:cut]]
        yield b"".join(kept)
        kept, length, whole = rest, sum(map(len, rest)), False
    if end := b"".join(kept):
        yield end if end.endswith(b"\n") else end + b"\n"
