"""What an event directory holds, beside its rows: `_manifest.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from entente.artifacts import SUMS, file_sum, read_json, write_json, write_text
from entente.errors import LogError, StorageError
from entente.logs.schema import ADDED_SINCE, MICROSECONDS, SCHEMA_VERSION

MANIFEST = "_manifest.json"
FILES = "day=*/*.parquet"
LATER = ("unknown_labels", "names")
"""Fields that manifests of older versions lack."""
FIRST_MOMENT, LAST_MOMENT = (seconds * MICROSECONDS for seconds in (-62_135_596_800, 253_402_300_800))
"""The years 1 to 9999."""


@dataclass(frozen=True, slots=True)
class ReadSource:
    """One log file and what became of its rows: seen = kept + filtered + bad."""

    file: str
    format: str
    seen: int
    kept: int
    filtered: Mapping[str, int] = field(default_factory=dict)
    """Reason -> rows that are fine but not wanted (another event type, an unused logon)."""
    bad: Mapping[str, int] = field(default_factory=dict)
    """Reason -> rows that cannot be read; each is in `quarantine/` with its line number."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Summary of an event directory."""

    rows: int
    first_time: int
    """Microseconds (UTC) of the earliest event."""
    last_time: int
    hosts: int
    """Distinct names in `src` and `dst`."""
    labelled: bool
    """True when at least one row carries a label, 0 or 1."""
    malicious: int
    """Rows with label 1."""
    ordered: bool
    """Whether the rows stand in order of time, as most logs write them."""
    days: Mapping[str, int]
    """Day (UTC, YYYY-MM-DD) -> rows."""
    sources: tuple[ReadSource, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    """File -> why nothing of it was read."""
    labels: Mapping[str, int] = field(default_factory=dict)
    """With a labels file: how many of its entries were matched and unmatched."""
    unknown_labels: Mapping[str, int] = field(default_factory=dict)
    """Words in a label column that are neither malicious nor benign -> rows, the most frequent ones."""
    names: Mapping[str, int] = field(default_factory=dict)
    """Ends of events, two per event, whose host was `respelt` by rule, `mapped` to a machine, known to the
    table of addresses but `outside` every lease, or an address that it does not know (`unmapped`)."""
    version: int = SCHEMA_VERSION
    """Of the event schema. A directory of an older one that is still read keeps its number here."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Event columns that the files of an older version do not have; they read as null."""
        return ADDED_SINCE.get(self.version, ())

    @property
    def seen(self) -> int:
        return sum(source.seen for source in self.sources)

    @property
    def filtered(self) -> dict[str, int]:
        return total(source.filtered for source in self.sources)

    @property
    def bad(self) -> dict[str, int]:
        return total(source.bad for source in self.sources)

    def as_json(self) -> dict[str, Any]:
        """The manifest as stored, with the totals over all sources."""
        return {**asdict(self), "seen": self.seen, "filtered": self.filtered, "bad": self.bad}


class Spanning(Protocol):
    """What every summary of a directory says."""

    @property
    def first_time(self) -> int: ...
    @property
    def last_time(self) -> int: ...


Kind = TypeVar("Kind", bound=Spanning)


def total(counts: Any) -> dict[str, int]:
    """Add up counts per reason, most frequent first."""
    added: dict[str, int] = {}
    for part in counts:
        for reason, rows in part.items():
            added[reason] = added.get(reason, 0) + rows
    return dict(sorted(added.items(), key=lambda item: (-item[1], item[0])))


def write_manifest(directory: Path, manifest: Manifest) -> None:
    write_json(directory / MANIFEST, manifest.as_json())


def seal_events(directory: Path) -> None:
    """Write the checksums of all stored days beside them, as `sha256sum` does."""
    files = sorted(directory.glob(FILES))
    write_text(directory / SUMS, "".join(file_sum(file, directory) for file in files))


def check_events(path: Path, files: Iterable[Path]) -> None:
    """StorageError if one of these files of an event directory is not as it was written.

    A directory of an older version has no checksums, and its files are taken as they are.
    """
    try:
        recorded = set((path / SUMS).read_text(encoding="utf-8", errors="replace").splitlines(keepends=True))
    except FileNotFoundError:
        return
    for file in files:
        if file_sum(file, path) not in recorded:
            raise StorageError(
                "is damaged: its checksum is not the recorded one",
                where=file,
                remedy="Bring it back from a copy, or run `entente ingest` again.",
            )


def typed(kind: type[Kind], values: Mapping[str, Any], where: Path) -> Kind:
    """A summary from what JSON holds; StorageError unless every value is of its field's type."""
    from pydantic import ValidationError

    try:
        summary: Kind = _adapter(kind).validate_python(values)
    except ValidationError as error:
        fields = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3])
        raise StorageError(f"is not a manifest of this version ({fields})", where=where) from error
    if not FIRST_MOMENT <= summary.first_time <= summary.last_time < LAST_MOMENT:
        raise StorageError("first_time and last_time are no times", where=where)
    return summary


@cache
def _adapter(kind: type[Any]) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def read_manifest(path: Path) -> Manifest:
    """The manifest of event directory `path`; a LogError says what to do when it is none."""
    stored = path / MANIFEST
    if not stored.is_file():
        raise LogError(
            "is not an event directory (no _manifest.json)" if path.exists() else "does not exist",
            where=path,
            remedy="Make one with `entente ingest SOURCE... --format auto --out EVENTS`.",
        )
    document = read_json(stored)
    try:
        known = {name: document[name] for name in Manifest.__slots__ if name in document or name not in LATER}
    except (KeyError, TypeError) as error:
        raise StorageError(f"is not a manifest of this version ({error})", where=stored) from error
    manifest = typed(Manifest, known, stored)
    if manifest.version != SCHEMA_VERSION and manifest.version not in ADDED_SINCE:
        raise StorageError(
            f"has version {manifest.version}, this program reads {SCHEMA_VERSION}",
            where=stored,
            remedy="Run `entente ingest` again with this version.",
        )
    return manifest
