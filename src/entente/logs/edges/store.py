"""Edge directories: Parquet by day with a list of the files that count, extended window by window."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from entente.artifacts import LOCK, checksum, file_digest, locked, read_json, write_json
from entente.errors import LogError, StorageError, UsageError
from entente.logs.edges.engines import TableEngine
from entente.logs.edges.query import EdgeQuery, Span, TableMapping
from entente.logs.edges.schema import EDGE_SCHEMA, NAMES
from entente.logs.events import check_rows
from entente.logs.manifest import FIRST_MOMENT, LAST_MOMENT, typed
from entente.logs.schema import DAY
from entente.logs.store import MOST_DAYS, day_name, time_text

MANIFEST = "_edges.json"
VERSION = 2
UNSEALED = 1
"""The version without checksums: its files are taken as they are."""
NAME = re.compile(r"day=[0-9-]+/[0-9a-f-]+\.parquet")


@dataclass(frozen=True, slots=True)
class EdgeFile:
    """One file, and the windows that it answers for."""

    name: str
    start: int
    end: int
    edges: int
    events: int
    sha256: str = ""
    """Of its bytes; nothing where the version that wrote it took none."""


@dataclass(frozen=True, slots=True)
class EdgeManifest:
    """What an edge directory holds."""

    width: int
    """Microseconds of a window; windows begin at multiples of it."""
    first_time: int
    """Of the table's first and last row, microseconds (UTC)."""
    last_time: int
    files: tuple[EdgeFile, ...] = ()
    version: int = VERSION

    @property
    def edges(self) -> int:
        return sum(file.edges for file in self.files)

    @property
    def events(self) -> int:
        return sum(file.events for file in self.files)


def is_edges(path: Path) -> bool:
    """Whether the folder is an edge directory."""
    return (path / MANIFEST).is_file()


def read_edge_manifest(path: Path) -> EdgeManifest:
    """The list of an edge directory; StorageError if it was changed, or is none."""
    stored = path / MANIFEST
    table = read_json(stored)
    if not isinstance(table, dict):
        raise StorageError("is not a list of edge files", where=stored)
    recorded, version = table.pop("sha256", None), table.get("version")
    if version not in (UNSEALED, VERSION):
        raise StorageError(
            f"has version {version!r}, this program reads {VERSION}",
            where=stored,
            remedy="Run `entente edges` again with this version, into another folder.",
        )
    if version == VERSION and recorded != checksum(table):
        raise StorageError("was changed or damaged: its checksum is not the recorded one", where=stored)
    manifest = typed(EdgeManifest, table, stored)
    for file in manifest.files:
        if not NAME.fullmatch(file.name) or not FIRST_MOMENT <= file.start < file.end <= LAST_MOMENT:
            raise StorageError(f"names a file that is none of edges ({file.name})", where=stored)
    if not 0 < manifest.width < LAST_MOMENT:
        raise StorageError(f"has windows of {manifest.width} microseconds", where=stored)
    return manifest


def scan_edges(path: Path, columns: list[str], start: int, end: int) -> Iterator[pa.Table]:
    """The edges of windows that begin in [start, end), file by file in order; names are encoded."""
    manifest = read_edge_manifest(path)
    names = [name for name in columns if name in NAMES]
    for file in sorted(manifest.files, key=lambda file: file.start):
        if file.end <= start or file.start >= end or not file.edges:
            continue
        place = path / file.name
        if file.sha256 and file_digest(place) != file.sha256:
            raise StorageError(
                "is damaged: its checksum is not the recorded one",
                where=place,
                remedy="Bring it back from a copy, or run `entente edges` into another folder.",
            )
        try:
            table = pq.read_table(
                place,
                columns=columns,
                read_dictionary=names,
                partitioning=None,
                filters=(pc.field("window") >= start) & (pc.field("window") < end),
            )
            if not file.sha256:
                check_rows(table, [name for name in columns if not EDGE_SCHEMA.field(name).nullable])
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"cannot be read ({error})", where=place) from error
        yield table


@dataclass(frozen=True, slots=True)
class EdgeRequest:
    """Which edges are wanted, and where they go."""

    mapping: TableMapping
    width: int
    out: Path
    at_once: int = DAY
    """Microseconds that one query covers, rounded to windows."""
    start: int | None = None
    """From this moment on; from the table's first row by default."""
    end: int | None = None

    def __post_init__(self) -> None:
        for name, moment in (("--start", self.start), ("--end", self.end)):
            if moment is not None and moment % self.width:
                raise UsageError(
                    f"{name} is not the border of a window", remedy="Windows begin at multiples of --window."
                )


def write_edges(
    engine: TableEngine, request: EdgeRequest, report: Callable[[EdgeFile], None] = lambda _: None
) -> EdgeManifest:
    """Ask for the edges of one span after the other; what is there already is not asked for again.

    The manifest names a file once it is complete, so that a run that was stopped goes on where it was. The
    last window is a file of its own and is asked for anew next time: more events of it may have come. One
    process at a time writes a directory.
    """
    _former(request.out, request.width)  # before anything is put into somebody else's folder
    with locked(request.out, "another `entente edges` is writing this directory"):
        return _write_edges(engine, request, report)


def _write_edges(
    engine: TableEngine, request: EdgeRequest, report: Callable[[EdgeFile], None]
) -> EdgeManifest:
    out, width = request.out, request.width
    query = EdgeQuery(engine.source, request.mapping, here=engine.here)
    manifest = _former(out, width)
    done = manifest.files[-1].start if manifest is not None and manifest.files else None
    first, last = _extent(engine, query, request, done)
    if manifest is None:
        manifest = EdgeManifest(width, first, last)
    manifest = replace(
        manifest,
        version=VERSION,
        first_time=min(first, manifest.first_time),
        last_time=max(last, manifest.last_time),
        files=tuple(file for file in manifest.files if done is None or file.start < done),
    )
    begin = first // width * width if done is None else done
    stop = -(-(last + 1) // width) * width
    for span in spans(begin, stop, width, request.at_once):
        table = query.finished(engine.rows(query.edges(span)))
        file = _write(out, span, table)
        manifest = replace(manifest, files=(*manifest.files, file))
        facts = asdict(manifest)
        write_json(out / MANIFEST, facts | {"sha256": checksum(facts)})
        report(file)
    _remove_others(out, manifest)
    return manifest


def spans(start: int, end: int, width: int, at_once: int) -> Iterator[Span]:
    """Windows cut into spans of one query each: within a day, and the last window alone."""
    step = max(1, at_once // width) * width
    low, last = start, end - width
    while low < last:
        next_day = -(-((low // DAY + 1) * DAY) // width) * width
        high = min(low + step, max(next_day, low + width), last)
        yield Span(low, high, width)
        low = high
    yield Span(low, end, width)


def first_span(engine: TableEngine, query: EdgeQuery, request: EdgeRequest) -> Span:
    """What the first query of a new directory would cover."""
    first, last = _extent(engine, query, request, None)
    begin, stop = first // request.width * request.width, -(-(last + 1) // request.width) * request.width
    return next(spans(begin, stop, request.width, request.at_once))


def _former(out: Path, width: int) -> EdgeManifest | None:
    if not out.exists() or (out.is_dir() and {file.name for file in out.iterdir()} <= {LOCK}):
        return None
    if not is_edges(out):
        raise UsageError(
            "exists and is not an edge directory",
            where=out,
            remedy="Name another --out, or remove it yourself.",
        )
    manifest = read_edge_manifest(out)
    if manifest.width != width:
        raise UsageError(
            f"holds windows of {manifest.width / 1e6:g} s, not of {width / 1e6:g} s",
            where=out,
            remedy="Name another --out.",
        )
    return manifest


def _extent(engine: TableEngine, query: EdgeQuery, request: EdgeRequest, done: int | None) -> tuple[int, int]:
    since = done if done is not None else request.start
    found: dict[str, Any] = engine.rows(query.extent(since, request.end)).to_pylist()[0]
    if not found["rows"]:
        raise LogError(
            "holds no row with a time, a source and a target"
            + ("" if since is None else f" from {time_text(since)} on"),
            remedy="Check the mapping; --start and --end.",
        )
    last = int(found["last"])
    if last - int(found["first"]) > MOST_DAYS * DAY:
        raise LogError(
            f"the rows lie on more than {MOST_DAYS:,} different days",
            remedy="Their times are read in the wrong unit: set time_unit in the mapping.",
        )
    return int(found["first"]), last


def _write(out: Path, span: Span, table: pa.Table) -> EdgeFile:
    folder = f"day={day_name(span.start // DAY)}"
    name = f"{folder}/{span.start // 10**6:012d}-{span.end // 10**6:012d}.parquet"
    try:
        (out / folder).mkdir(parents=True, exist_ok=True)
        whole = (out / name).with_suffix(".part")
        pq.write_table(
            table,
            whole,
            compression="zstd",
            compression_level=1,
            use_dictionary=list(NAMES),
            write_statistics=["window", "time"],
            store_schema=False,
        )
        digest = file_digest(whole)
        if (out / name).exists() and file_digest(out / name) != digest:
            # What a list names is never written over: whoever reads by the former list finds its files.
            name = f"{name.removesuffix('.parquet')}-{digest[:8]}.parquet"
        whole.replace(out / name)
    except OSError as error:
        raise StorageError(f"cannot be written ({error.strerror or error})", where=out / name) from error
    events = pc.sum(table["count"]).as_py() or 0
    return EdgeFile(name, span.start, span.end, table.num_rows, events, digest)


def _remove_others(out: Path, manifest: EdgeManifest) -> None:
    """Files that a stopped run left and nothing names."""
    named = {file.name for file in manifest.files}
    for file in [*out.glob("day=*/*.parquet"), *out.glob("day=*/*.part")]:
        if str(file.relative_to(out)) not in named:
            file.unlink()
