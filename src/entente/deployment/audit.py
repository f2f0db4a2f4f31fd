"""An append-only record of what a site did: JSON lines, each holding the hash of the one before.

Changing, dropping or reordering any line breaks the chain from there on. Cutting off the end does
not; that is why sites write each other's latest hash (`head`) into their own record: see `witness`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from entente.errors import StorageError
from entente.text import visible

START = "0" * 64
LONGEST_TEXT, MOST_ITEMS = 1000, 10_000
TEXTS = ("site", "event", "time", "previous", "hash")
"""What every entry has, as text."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a verified record holds."""

    entries: int
    first: str | None
    last: str | None
    head: str
    events: dict[str, int]


class Audit:
    """The record of one site. Several processes of that site may append to it."""

    def __init__(self, path: Path, site: str) -> None:
        self.path = path
        self.site = site

    def append(self, event: str, **facts: Any) -> str:
        """Write one entry, durably; returns its hash. `facts` must be JSON-able."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "r+b") as record:
                fcntl.flock(record, fcntl.LOCK_EX)
                number, previous = _tail(record, self.path)
                entry = {
                    "number": number + 1,
                    "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                    "site": self.site,
                    "event": event,
                    **bounded(facts),
                    "previous": previous,
                }
                entry["hash"] = _hash(entry)
                record.seek(0, os.SEEK_END)
                record.write(json.dumps(entry, sort_keys=True).encode() + b"\n")
                record.flush()
                os.fsync(record.fileno())
                return str(entry["hash"])
        except OSError as error:
            raise StorageError(
                f"audit entry cannot be written ({error.strerror})", where=self.path
            ) from error

    def head(self) -> str:
        """The hash of the last entry; zeros for an empty record."""
        if not self.path.exists():
            return START
        with self.path.open("rb") as record:
            return _tail(record, self.path)[1]


def bounded(value: Any) -> Any:
    """`value` with every text in it cut and made visible: entries hold what strangers wrote."""
    if isinstance(value, str):
        return visible(value, LONGEST_TEXT, keep="\n")
    if isinstance(value, dict):
        return {bounded(key): bounded(item) for key, item in list(value.items())[:MOST_ITEMS]}
    if isinstance(value, list | tuple):
        return [bounded(item) for item in value[:MOST_ITEMS]]
    return value


def verify(path: Path) -> Summary:
    """Check the whole chain; StorageError with the line where it breaks."""
    previous, number = START, 0
    first: str | None = None
    last: str | None = None
    events: dict[str, int] = {}
    for line, entry in read(path):
        if entry.get("previous") != previous or entry.get("number") != number + 1:
            raise StorageError(
                "the chain is broken: an entry before this one was changed, moved or removed",
                where=path,
                line=line,
                remedy="Compare with a copy, and with what other sites recorded of this one.",
            )
        if entry.get("hash") != _hash({k: v for k, v in entry.items() if k != "hash"}):
            raise StorageError("this entry was changed", where=path, line=line)
        previous, number = entry["hash"], number + 1
        last = entry["time"]
        first = first or last
        events[entry["event"]] = events.get(entry["event"], 0) + 1
    return Summary(number, first, last, previous, events)


def witness(path: Path, other: Path) -> int:
    """How many heads of `path`'s site `other` recorded; StorageError if one is no longer in `path`.

    This is how a shortened record is found out.
    """
    hashes, sites = set(), set()
    for _, entry in read(path):
        hashes.add(entry.get("hash"))
        sites.add(entry.get("site"))
    seen = 0
    for line, entry in read(other):
        for site, head in entry.get("heads", {}).items():
            if site in sites and head != START:
                seen += 1
                if head not in hashes:
                    raise StorageError(
                        f"{other}:{line} recorded an entry of {site} that is missing here", where=path
                    )
    return seen


def read(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every entry with its line number."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"cannot be read ({error})", where=path) from error
    for line, text in enumerate(lines, start=1):
        try:
            entry = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise StorageError("is not a JSON line", where=path, line=line) from error
        if not _is_entry(entry):
            raise StorageError("is not an audit entry", where=path, line=line)
        yield line, entry


def _is_entry(entry: Any) -> bool:
    """Whether it has the form of one: the record of another site may hold anything."""
    return (
        isinstance(entry, dict)
        and all(isinstance(entry.get(key), str) for key in TEXTS)
        and isinstance(entry.get("heads", {}), dict)
        and all(isinstance(head, str) for head in entry.get("heads", {}).values())
    )


def _hash(entry: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()


def _tail(record: Any, path: Path) -> tuple[int, str]:
    """Number and hash of the last entry, reading only the file's end."""
    size = record.seek(0, os.SEEK_END)
    if size == 0:
        return 0, START
    back = 4096
    while True:
        record.seek(max(0, size - back))
        tail = record.read(min(back, size)).rstrip(b"\n")
        if b"\n" in tail or back >= size:
            break
        back *= 4
    try:
        entry = json.loads(tail.rsplit(b"\n", 1)[-1])
        return int(entry["number"]), str(entry["hash"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise StorageError("the last entry is damaged", where=path) from error
