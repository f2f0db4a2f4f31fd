"""What is stored or sent: JSON, arrays (safetensors) and text; never pickle.

A file or directory is there whole or not at all. When a writer here returns, its bytes and its name are on
the disk (fsync of the content and of the parent directory), so they survive a power cut.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from entente.errors import StorageError, UsageError

Arrays = dict[str, NDArray[Any]]
FACTS = "facts"
SUMS = "SHA256SUMS"
LOCK = ".lock"


class Bundle(NamedTuple):
    """Facts (JSON) and named arrays: a message, or the state of one party."""

    facts: dict[str, Any]
    arrays: Arrays


# ---- in memory and on the wire ---------------------------------------------------------------


def array_bytes(arrays: Mapping[str, NDArray[Any]], metadata: dict[str, str] | None = None) -> bytes:
    """Named arrays as safetensors; the same arrays give the same bytes."""
    from safetensors.numpy import save

    # safetensors takes an array's bytes as they lie in memory, whatever its strides say.
    return bytes(save({name: np.asarray(arrays[name], order="C") for name in sorted(arrays)}, metadata))


def arrays_of(data: bytes) -> Arrays:
    """The arrays that `array_bytes` was given; ValueError if they are damaged."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(data))
    except (SafetensorError, KeyError, TypeError) as error:
        raise ValueError(f"not safetensors: {error}") from error


def encode_bundle(facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """A bundle as one safetensors file, with the facts in its metadata."""
    return array_bytes(arrays, {FACTS: json.dumps(facts)})


def decode_bundle(data: bytes, limit: int | None = None) -> Bundle:
    """What `encode_bundle` was given; ValueError for anything else. `limit`: bytes of facts and shapes."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise ValueError("it is cut short")
    if limit is not None and size > limit:
        raise ValueError(f"its header has {size} bytes, the limit is {limit}")
    try:
        header = json.loads(data[8 : 8 + size])
        facts = json.loads(header["__metadata__"][FACTS])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError("its facts are not JSON") from error
    if not isinstance(facts, dict):
        raise ValueError("its facts are not an object")
    return Bundle(facts, arrays_of(data))


# ---- files -----------------------------------------------------------------------------------


@contextmanager
def private_files() -> Iterator[None]:
    """What is written meanwhile, and by processes started meanwhile, nobody else can read."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it takes `path`'s place, on failure it is gone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    reason = _in_the_way(path)
    if reason is not None:
        raise StorageError(reason, where=path, remedy="Name a file, new or to be replaced.")
    try:
        yield temporary
        if path.exists():
            temporary.chmod(path.stat().st_mode & 0o777)  # what was private stays so
        _sync(temporary)
        temporary.replace(path)
        _sync(path.parent)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """StorageError unless a file can be put at `path`: to know before hours of work, not after."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        reason = _in_the_way(path)
        if reason is None and not os.access(path.parent, os.W_OK):
            reason = "cannot be written (its directory is read-only)"
    except OSError as error:
        reason = f"cannot be written ({error.strerror or error})"
    if reason is not None:
        raise StorageError(reason, where=path, remedy="Name a file in a directory that can be written.")


def _in_the_way(path: Path) -> str | None:
    """What a file would take the place of: never of a directory, a device or a pipe (/dev/stdout)."""
    if path.is_dir():
        return "is a directory"
    return "is no regular file" if path.exists() and not path.is_file() else None


def write_bytes(path: Path, data: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


def append_line(path: Path, line: str) -> None:
    """Add a line to a text file. A kill may cut it short, so readers drop an incomplete last line."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise _cannot_write(path, error) from error


def parse_json(text: str | bytes) -> Any:
    """JSON as it is written here: ValueError for a number that has no end too."""
    return json.loads(text, parse_float=_finite, parse_constant=_finite)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is no finite number")
    return value


def checksum(table: Mapping[str, Any]) -> str:
    """SHA-256 of a JSON object, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(table, sort_keys=True, allow_nan=False).encode()).hexdigest()


def read_json(path: Path) -> Any:
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise StorageError(f"is not readable JSON ({error})", where=path) from error


def read_bundle(path: Path) -> Bundle:
    """A stored bundle; StorageError if it is damaged."""
    try:
        return decode_bundle(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StorageError(f"is not a readable bundle ({error})", where=path) from error


# ---- directories -----------------------------------------------------------------------------


@contextmanager
def replacing_directory(path: Path) -> Iterator[Path]:
    """Yield an empty directory beside `path`; on success it takes `path`'s place, on failure it is gone.

    What killed processes left beside `path` is removed; a former directory that one of them had moved out
    of the way, and had not replaced yet, is put back.
    """
    path = Path(os.path.abspath(path))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    former = path.with_name(f".{path.name}.{os.getpid()}.old")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear_leftovers(path)
        temporary.mkdir()
        yield temporary
        for item in sorted(temporary.rglob("*")):
            _sync(item)
        _sync(temporary)
        if path.exists():
            path.rename(former)
        temporary.rename(path)
        _sync(path.parent)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(former, ignore_errors=True)


@contextmanager
def sealed_directory(path: Path) -> Iterator[Path]:
    """`replacing_directory` with checksums of its files, for `check_sealed` (or `sha256sum -c`)."""
    with replacing_directory(path) as temporary:
        yield temporary
        seal(temporary)


def seal(folder: Path) -> None:
    """Write the checksums of a folder's files beside them."""
    (folder / SUMS).write_bytes(b"".join(_sums(folder)))


def check_sealed(path: Path) -> None:
    """StorageError unless the directory holds exactly the files that were sealed, unchanged."""
    try:
        recorded, found = (path / SUMS).read_bytes(), _sums(path)
    except OSError as error:
        raise StorageError(f"cannot be read ({error.strerror or error})", where=path) from error
    if recorded != b"".join(found):
        changed = [line for line in found if line not in recorded]
        name = changed[0].decode()[66:-1] if changed else SUMS
        raise StorageError("is damaged: its checksum is not the recorded one", where=path / name)


def fingerprint(path: Path) -> str | None:
    """SHA-256 over a file, or over the names and contents of a directory; None if there is nothing."""
    if not path.exists():
        return None
    files = [path] if path.is_file() else sorted(f for f in path.rglob("*") if f.is_file() and f.name != LOCK)
    whole = hashlib.sha256()
    for file in files:
        name = "" if file == path else file.relative_to(path).as_posix()
        with file.open("rb") as content:
            whole.update(f"{name}\0{hashlib.file_digest(content, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()


def file_digest(file: Path) -> str:
    """SHA-256 of a file."""
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise StorageError(f"cannot be read ({error.strerror})", where=file) from error


def file_sum(file: Path, folder: Path) -> str:
    """The line of a file in the checksums of `folder`."""
    return f"{file_digest(file)}  {file.relative_to(folder).as_posix()}\n"


def _sums(path: Path) -> list[bytes]:
    files = [file for file in sorted(path.iterdir()) if file.is_file() and file.name != SUMS]
    return [file_sum(file, path).encode() for file in files]


def _clear_leftovers(path: Path) -> None:
    """Remove what killed processes left beside `path`; running ones keep theirs."""
    for left in path.parent.glob(f".{path.name}.*.*"):
        owner, kind = left.name.rsplit(".", 2)[1:]
        if kind in ("tmp", "old") and owner.isdigit() and not Path(f"/proc/{owner}").exists():
            if kind == "old" and not path.exists():
                left.rename(path)
            else:
                shutil.rmtree(left, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cannot_write(path: Path, error: OSError) -> StorageError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return StorageError(
        f"{'the disk is full' if full else 'cannot be written'} ({error.strerror or error})",
        where=path,
        remedy="Check free space and permissions; what was there before is untouched.",
    )


@contextmanager
def locked(folder: Path, busy: str, patience: float = 0.0, mode: int = 0o777) -> Iterator[None]:
    """Hold a folder for this process; UsageError (`busy`) if another has it for longer than `patience`.

    A folder that does not exist is made with `mode`.
    """
    until = time.monotonic() + patience
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=mode)
        lock = (folder / LOCK).open("a")
    except OSError as error:
        raise StorageError(f"cannot be written ({error.strerror or error})", where=folder) from error
    with lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if time.monotonic() >= until:
                    raise UsageError(busy, where=folder, remedy="Wait for it or stop it.") from error
            time.sleep(0.2)
        yield
