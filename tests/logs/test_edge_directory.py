"""What lies in an edge directory is as `entente edges` left it, or an error in words."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.logs.test_edges import contents, some_events

from entente.artifacts import checksum, locked
from entente.cli import main
from entente.errors import EntenteError, StorageError, UsageError
from entente.graphs.snapshots import read_timeline
from entente.logs.edges.engines import opened_table
from entente.logs.edges.query import TableMapping
from entente.logs.edges.store import MANIFEST, EdgeManifest, EdgeRequest, read_edge_manifest, write_edges
from entente.logs.events import write_events
from entente.logs.schema import DAY, MICROSECONDS

WIDTH = 3600 * MICROSECONDS
SEEN: dict[str, Any] = {"width": 3600, "context": True}


def extended(folder: Path, table: pa.Table) -> EdgeManifest:
    """The edges of some events, after those that the folder holds already."""
    write_events(table, folder / "events")
    opened = opened_table("duckdb", str(folder / "events"), {})
    request = EdgeRequest(TableMapping(time_unit="us", day="day"), WIDTH, folder / "edges")
    return write_edges(opened, request)


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    table = some_events(60)
    extended(tmp_path, table.filter(pa.array(table["time"].to_numpy() < DAY)))
    return tmp_path / "edges"


def document(edges: Path) -> dict[str, Any]:
    table: dict[str, Any] = json.loads((edges / MANIFEST).read_text())
    return table


def put(edges: Path, table: dict[str, Any], **changes: Any) -> None:
    """A changed list of files, its own checksum made to fit."""
    facts = {name: value for name, value in {**table, **changes}.items() if name != "sha256"}
    (edges / MANIFEST).write_text(json.dumps(facts | {"sha256": checksum(facts)}))


def as_version_1(edges: Path) -> None:
    """As the versions before checksums left it."""
    table = document(edges)
    files = [{name: file[name] for name in file if name != "sha256"} for file in table["files"]]
    facts = {name: value for name, value in table.items() if name != "sha256"}
    (edges / MANIFEST).write_text(json.dumps(facts | {"files": files, "version": 1}))


def test_a_flipped_bit_in_a_file_or_in_the_list_is_noticed(edges: Path) -> None:
    for file in (max(edges.rglob("*.parquet"), key=lambda file: file.stat().st_size), edges / MANIFEST):
        content = file.read_bytes()
        for place in np.random.default_rng(0).integers(0, len(content), 200):
            changed = bytearray(content)
            changed[place] ^= 1
            file.write_bytes(changed)
            with pytest.raises(StorageError):
                read_timeline(edges, **SEEN)
        file.write_bytes(content)
    assert read_timeline(edges, **SEEN).num_windows == 24


def test_a_damaged_file_is_named(edges: Path) -> None:
    file = next(edges.rglob("*.parquet"))
    file.write_bytes(file.read_bytes() + b"\0")
    with pytest.raises(StorageError, match=rf"{file.name}: is damaged"):
        read_timeline(edges, **SEEN)


def test_any_value_in_the_list_of_files_is_a_value_or_an_error_in_words(edges: Path) -> None:
    good = document(edges)
    odd: tuple[Any, ...] = (
        None,
        "x",
        -1,
        0,
        3,
        10**30,
        1.5,
        [],
        {},
        [None],
        True,
        "../events/day=1970-01-01/part-0000.parquet",
    )
    for value in odd:
        for name in good:
            put(edges, good, **{name: value})
            with suppress(EntenteError):
                read_timeline(edges, **SEEN)
        for name in good["files"][0]:
            put(edges, good, files=[{**good["files"][0], name: value}, *good["files"][1:]])
            with suppress(EntenteError):
                read_timeline(edges, **SEEN)
    for text in ("[]", "[" * 20_000, "3", json.dumps(good).replace("86400", "1e999"), "null"):
        (edges / MANIFEST).write_text(text)
        with pytest.raises(StorageError):
            read_timeline(edges, **SEEN)


@pytest.mark.parametrize(
    ("name", "value"),
    [("width", "x"), ("width", 0), ("first_time", None), ("last_time", 10**30), ("files", None)],
)
def test_a_crafted_list_is_refused_by_every_command_that_reads_it(
    edges: Path, name: str, value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    put(edges, document(edges), **{name: value})
    with pytest.raises(SystemExit) as end:
        main(["edges", str(edges.parent / "events"), "--window", "3600", "--out", str(edges)])
    assert end.value.code == StorageError.exit_code
    assert MANIFEST in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../events/day=1970-01-01/part-0000.parquet", "/etc/passwd", 3])
def test_a_file_elsewhere_is_not_read(edges: Path, name: object) -> None:
    table = document(edges)
    put(edges, table, files=[{**table["files"][0], "name": name}])
    with pytest.raises(StorageError, match=MANIFEST):
        read_edge_manifest(edges)


def test_a_directory_of_an_earlier_version_is_read_and_gets_checksums_as_it_is_extended(
    edges: Path, tmp_path: Path
) -> None:
    before = read_timeline(edges, **SEEN)
    as_version_1(edges)
    assert read_timeline(edges, **SEEN).src.tolist() == before.src.tolist()
    manifest = extended(tmp_path, some_events(60))
    assert [file.sha256 != "" for file in manifest.files][-1]
    assert read_edge_manifest(edges) == manifest
    assert document(edges)["version"] == 2
    assert read_timeline(edges, **SEEN).num_windows > 24


def test_a_damaged_file_without_checksums_is_an_error_in_words(edges: Path) -> None:
    as_version_1(edges)
    file = max(edges.rglob("*.parquet"), key=lambda file: file.stat().st_size)
    table = pq.read_table(file, partitioning=None)
    for name in ("src", "time"):
        place = table.column_names.index(name)
        field = table.schema.field(name).with_nullable(True)
        column = pa.array([None, *table[name].to_pylist()[1:]], field.type)
        pq.write_table(table.set_column(place, field, column), file)
        with pytest.raises(StorageError, match=rf"{file.name}: cannot be read .*{name}"):
            read_timeline(edges, **SEEN)
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(StorageError, match="cannot be read"):
        read_timeline(edges, **SEEN)


def test_two_processes_do_not_write_one_directory(edges: Path, tmp_path: Path) -> None:
    before = {**contents(edges), MANIFEST: (edges / MANIFEST).read_bytes()}
    with locked(edges, "busy"), pytest.raises(UsageError, match="another `entente edges`"):
        extended(tmp_path, some_events(60))
    assert {**contents(edges), MANIFEST: (edges / MANIFEST).read_bytes()} == before


def test_a_folder_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "edges").mkdir()
    (tmp_path / "edges" / "thesis.txt").write_text("x")
    with pytest.raises(UsageError, match="not an edge directory"):
        extended(tmp_path, some_events(60))
    assert [file.name for file in (tmp_path / "edges").iterdir()] == ["thesis.txt"]


def test_who_reads_by_the_former_list_finds_its_files_unchanged(edges: Path, tmp_path: Path) -> None:
    """A file that a list names is never written over: a stopped call leaves a directory that reads."""
    table = some_events(60)
    early = table.filter(pa.array(table["time"].to_numpy() < DAY))
    last = read_edge_manifest(edges).files[-1]
    times = pa.array(np.full(len(early), last.start))
    more = early.set_column(0, "time", times).cast(early.schema)
    former = (edges / last.name).read_bytes()
    write_events(pa.concat_tables([early, more]), tmp_path / "events")
    opened = opened_table("duckdb", str(tmp_path / "events"), {})
    request = EdgeRequest(TableMapping(time_unit="us", day="day"), WIDTH, edges)
    seen: list[bytes] = []
    manifest = write_edges(opened, request, lambda _: seen.append((edges / last.name).read_bytes()))
    assert seen == [former]
    assert manifest.files[-1].events > last.events
    assert set(contents(edges)) == {file.name for file in manifest.files}
    assert asdict(read_edge_manifest(edges)) == asdict(manifest)
