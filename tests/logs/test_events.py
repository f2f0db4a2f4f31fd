"""Event directories: storing, reading back, counting per window."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from entente.errors import LogError, StorageError, UsageError
from entente.logs.events import load_events, read_manifest, scan_events, write_events
from entente.logs.ingest import Request, ingest
from entente.logs.schema import DAY, EVENT_SCHEMA, ORIGIN


def some_events(rows: int, seed: int = 0, days: int = 3, labels: bool = True) -> pa.Table:
    rng = np.random.default_rng(seed)
    hosts = np.array([f"h{i}" for i in range(9)])
    return pa.table(
        {
            "time": pa.array(np.sort(rng.integers(0, days * DAY, rows))),
            "src": pa.array(hosts[rng.integers(0, 9, rows)]),
            "dst": pa.array(hosts[rng.integers(0, 9, rows)]),
            "label": pa.array(rng.choice([0, 1], rows).astype(np.int8), mask=rng.random(rows) < 0.4)
            if labels
            else pa.nulls(rows, pa.int8()),
        }
    )


def directory_bytes(path: Path) -> dict[str, bytes]:
    return {str(f.relative_to(path)): f.read_bytes() for f in sorted(path.rglob("*")) if f.is_file()}


def test_a_stored_table_reads_back_the_same_in_order(tmp_path: Path) -> None:
    table = some_events(5000)
    manifest = write_events(table, tmp_path / "events")
    back = load_events(tmp_path / "events")
    assert back.schema.equals(EVENT_SCHEMA)
    assert back.select(table.column_names).equals(table.cast(back.select(table.column_names).schema))
    assert read_manifest(tmp_path / "events") == manifest
    assert manifest.rows == 5000
    assert manifest.hosts == 9
    assert manifest.labelled
    assert sum(manifest.days.values()) == 5000


def test_unordered_times_end_in_their_day_and_nothing_is_lost(tmp_path: Path) -> None:
    table = some_events(300_000, days=40)
    shuffled = table.take(pa.array(np.random.default_rng(1).permutation(300_000)))
    write_events(shuffled, tmp_path / "events")
    back = load_events(tmp_path / "events", ["time", "src", "dst"])
    key = [("time", "ascending"), ("src", "ascending"), ("dst", "ascending")]
    assert back.sort_by(key).equals(table.select(["time", "src", "dst"]).sort_by(key).cast(back.schema))
    for file in (tmp_path / "events").glob("day=*/*.parquet"):
        times = pa.parquet.read_table(file, partitioning=None)["time"].to_numpy()
        assert len(set((times // DAY).tolist())) == 1


def test_rows_all_over_many_days_need_few_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entente.logs.store.OPEN_FILES", 3)
    monkeypatch.setattr("entente.logs.store.HELD", 2000)
    monkeypatch.setattr("entente.logs.store.BLOCK", 500)
    table = some_events(20_000, days=30)
    shuffled = table.take(pa.array(np.random.default_rng(1).permutation(20_000)))
    assert not write_events(shuffled, tmp_path / "events").ordered
    assert write_events(table, tmp_path / "ordered").ordered
    assert len(list((tmp_path / "events").glob("day=*/*.parquet"))) > 30
    back = load_events(tmp_path / "events", ["time"])["time"].to_numpy()
    assert np.array_equal(np.sort(back), table["time"].to_numpy())


def test_the_same_rows_give_the_same_bytes_however_they_arrive(tmp_path: Path) -> None:
    table = some_events(200_000, days=5)
    write_events(table, tmp_path / "one")
    pieces = pa.concat_tables([table.slice(i, 777) for i in range(0, table.num_rows, 777)])
    write_events(pieces, tmp_path / "two")
    assert directory_bytes(tmp_path / "one") == directory_bytes(tmp_path / "two")


def test_a_scan_returns_only_the_asked_time_and_columns(tmp_path: Path) -> None:
    table = some_events(4000)
    write_events(table, tmp_path / "events")
    start, end = DAY // 2, 2 * DAY + 5
    got = pa.Table.from_batches(scan_events(tmp_path / "events", ["time", "dst"], start, end))
    times = table["time"].to_numpy()
    expected = table.filter(pa.array((times >= start) & (times < end))).select(["time", "dst"])
    assert got.equals(expected.cast(got.schema))
    assert list(scan_events(tmp_path / "events", ["time"], 100 * DAY, None)) == []
    assert load_events(tmp_path / "events", ["time"], 100 * DAY).num_rows == 0


def test_an_unknown_column_is_named(tmp_path: Path) -> None:
    write_events(some_events(10), tmp_path / "events")
    with pytest.raises(LogError, match="no column 'source'"):
        list(scan_events(tmp_path / "events", ["source"]))


def test_a_directory_that_is_no_event_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="does not exist"):
        read_manifest(tmp_path / "nowhere")
    with pytest.raises(LogError, match=r"no _manifest\.json"):
        read_manifest(tmp_path)


def test_a_directory_of_something_else_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    with pytest.raises(UsageError, match="not an event directory"):
        write_events(some_events(10), tmp_path / "thesis")
    assert (tmp_path / "thesis" / "chapter.tex").read_text() == "years of work"


def test_a_former_event_directory_is_replaced_whole(tmp_path: Path) -> None:
    write_events(some_events(3000, days=9), tmp_path / "events")
    write_events(some_events(10, days=1), tmp_path / "events")
    assert load_events(tmp_path / "events").num_rows == 10
    assert [p.name for p in tmp_path.iterdir()] == ["events"]


def as_version_1(path: Path) -> None:
    """Turn an event directory into what the version without `logon` and `outcome` wrote."""
    for file in path.glob("day=*/*.parquet"):
        table = pa.parquet.read_table(file, partitioning=None).drop_columns(["logon", "outcome"])
        pa.parquet.write_table(table, file)
    manifest = json.loads((path / "_manifest.json").read_text())
    (path / "_manifest.json").write_text(json.dumps({**manifest, "version": 1}))


def test_a_directory_without_outcome_and_logon_is_still_read(tmp_path: Path) -> None:
    events = tmp_path / "events"
    write_events(some_events(2000), events)
    as_version_1(events)
    assert read_manifest(events).missing == ("logon", "outcome", "log", "line")
    back = load_events(events)
    assert back.schema.equals(EVENT_SCHEMA)
    assert back["outcome"].null_count == back["logon"].null_count == 2000
    assert load_events(events, encoded=True)["outcome"].null_count == 2000
    assert load_events(events, ("time", *ORIGIN))["line"].null_count == 2000


def test_every_event_says_in_which_line_of_which_log_it_stands(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("time,src,dst\n\n5,a,b\nnot a row\n6,b,c\n")
    ingest(Request([str(log)], tmp_path / "events"))
    found = load_events(tmp_path / "events", ("src", *ORIGIN)).to_pylist()
    assert found == [
        {"src": "a", "log": str(log), "line": 3},
        {"src": "b", "log": str(log), "line": 5},
    ]


def test_a_directory_of_an_unknown_version_is_refused_with_the_command_that_renews_it(tmp_path: Path) -> None:
    write_events(some_events(10), tmp_path / "events")
    manifest = json.loads((tmp_path / "events" / "_manifest.json").read_text())
    (tmp_path / "events" / "_manifest.json").write_text(json.dumps({**manifest, "version": 99}))
    with pytest.raises(StorageError, match="version 99") as caught:
        read_manifest(tmp_path / "events")
    assert "entente ingest" in (caught.value.remedy or "")
