"""Events become edges with their context, against a plain reading of one event after the other."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from entente.graphs import merging
from entente.graphs.context import NOTHING, TOP, EdgeContext, Frequent
from entente.graphs.snapshots import Timeline, read_timeline
from entente.logs.events import write_events
from entente.logs.schema import EVENT_SCHEMA, MICROSECONDS

WIDTH = 100
SPAN = 1000


def some_events(rows: int = 3000, seed: int = 0) -> pa.Table:
    """Events over ten windows between five hosts, with gaps in every column that may have them."""
    rng = np.random.default_rng(seed)

    def words(letter: str, count: int) -> pa.Array:
        names = [f"{letter}{i}" for i in range(count)]
        drawn = rng.choice(np.array([*names, None], dtype=object), rows)
        return pa.array(drawn.tolist(), pa.string())

    def numbers(high: int, kind: pa.DataType) -> pa.Array:
        return pa.array(rng.integers(0, high, rows).tolist(), kind, mask=rng.random(rows) < 0.3)

    columns = {
        "time": pa.array(rng.integers(0, SPAN * MICROSECONDS, rows)),
        "src": pa.array(rng.choice([f"h{i}" for i in range(5)], rows).tolist()),
        "dst": pa.array(rng.choice([f"h{i}" for i in range(5)], rows).tolist()),
        "user": words("u", 6),
        "kind": words("k", 3),
        "logon": words("l", 2),
        "port": numbers(9, pa.int32()),
        "bytes": numbers(1000, pa.int64()),
        "outcome": pa.array(rng.random(rows) < 0.7, mask=rng.random(rows) < 0.5),
        "label": numbers(2, pa.int8()),
    }
    return pa.table(columns, schema=EVENT_SCHEMA)


Edge = tuple[int, str, str]


def by_hand(table: pa.Table, start: int, end: int) -> dict[Edge, dict[str, Any]]:
    """Every edge with all it should carry, from one event after the other."""
    rows: dict[Edge, list[dict[str, Any]]] = defaultdict(list)
    for row in table.to_pylist():
        if row["src"] != row["dst"] and start <= row["time"] < end:
            window = (row["time"] - start) // (WIDTH * MICROSECONDS)
            rows[window, row["src"], row["dst"]].append(row)
    return {edge: described(events) for edge, events in rows.items()}


def described(events: list[dict[str, Any]]) -> dict[str, Any]:
    def values(name: str) -> list[Any]:
        return [row[name] for row in events if row[name] is not None]

    found: dict[str, Any] = {
        "weight": len(events),
        "time": min(values("time")),
        "last_time": max(values("time")),
        "label": max(values("label"), default=0),
        "bytes": sum(values("bytes")) if values("bytes") else NOTHING,
        "failures": values("outcome").count(False) if values("outcome") else NOTHING,
    }
    for name in ("user", "kind", "logon", "port"):
        counted = Counter(values(name))
        ranked = sorted(counted, key=lambda value: (-counted[value], value))
        found[name] = (tuple(ranked[:TOP]), len(counted))
    return found


def as_read(timeline: Timeline) -> dict[Edge, dict[str, Any]]:
    context = timeline.context
    assert context is not None
    window = np.repeat(np.arange(timeline.num_windows), np.diff(timeline.offsets))
    found = {}
    for i in range(len(timeline.src)):
        edge = (int(window[i]), str(timeline.hosts[timeline.src[i]]), str(timeline.hosts[timeline.dst[i]]))
        found[edge] = one_edge(timeline, context, i)
    assert len(found) == len(timeline.src)
    return found


def one_edge(timeline: Timeline, context: EdgeContext, i: int) -> dict[str, Any]:
    assert context.bytes is not None
    assert context.failures is not None
    assert timeline.label is not None
    found: dict[str, Any] = {
        "weight": int(timeline.weight[i]),
        "time": int(timeline.time[i]),
        "last_time": int(context.last_time[i]),
        "label": int(timeline.label[i]),
        "bytes": int(context.bytes[i]),
        "failures": int(context.failures[i]),
    }
    for name in ("user", "kind", "logon", "port"):
        column = getattr(context, name)
        assert isinstance(column, Frequent)
        found[name] = (column.of(i), int(column.distinct[i]))
    return found


@pytest.mark.parametrize("rows", [100, 700, 10**9])
def test_edges_carry_what_their_events_say_however_many_are_read_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(merging, "SPAN_ROWS", rows)
    table = some_events()
    write_events(table, tmp_path / "events")
    for start, end in ((0, SPAN), (130, 770)):
        timeline = read_timeline(tmp_path / "events", WIDTH, start, end, context=True)
        assert as_read(timeline) == by_hand(table, start * MICROSECONDS, end * MICROSECONDS)
        order = [
            timeline.dst,
            timeline.src,
            timeline.offsets.searchsorted(np.arange(len(timeline.src)), "right"),
        ]
        assert np.array_equal(np.lexsort(tuple(map(np.asarray, order))), np.arange(len(timeline.src)))
        assert timeline.hosts.tolist() == sorted(timeline.hosts.tolist())


def test_without_context_the_edges_are_the_same(tmp_path: Path) -> None:
    write_events(some_events(), tmp_path / "events")
    plain, full = (read_timeline(tmp_path / "events", WIDTH, context=context) for context in (False, True))
    assert plain.context is None
    for name in ("hosts", "offsets", "src", "dst", "time", "weight", "label"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(full, name))


def test_single_events_keep_their_own_context(tmp_path: Path) -> None:
    table = some_events(400)
    write_events(table, tmp_path / "events")
    timeline = read_timeline(tmp_path / "events", WIDTH, merged=False, context=True)
    assert timeline.context is not None
    rows = [row for row in table.to_pylist() if row["src"] != row["dst"]]
    rows.sort(key=lambda row: (row["time"], row["src"], row["dst"]))
    assert len(timeline.src) == len(rows)
    for i, row in enumerate(rows):
        expected = described([row])
        assert one_edge(timeline, timeline.context, i) == expected


def test_the_order_of_the_rows_does_not_matter(tmp_path: Path) -> None:
    table = some_events()
    shuffled = table.take(pa.array(np.random.default_rng(1).permutation(table.num_rows)))
    write_events(table, tmp_path / "one")
    write_events(shuffled, tmp_path / "two")
    one, two = (as_read(read_timeline(tmp_path / name, WIDTH, context=True)) for name in ("one", "two"))
    assert one == two


def test_columns_that_no_event_has_are_none(tmp_path: Path) -> None:
    table = some_events()
    for name in ("user", "logon", "port", "bytes", "outcome", "label"):
        field = EVENT_SCHEMA.field(name)
        table = table.set_column(EVENT_SCHEMA.names.index(name), field, pa.nulls(table.num_rows, field.type))
    write_events(table, tmp_path / "events")
    timeline = read_timeline(tmp_path / "events", WIDTH, context=True)
    context = timeline.context
    assert context is not None
    assert context.kind is not None
    assert timeline.label is None
    for name in ("user", "logon", "port", "bytes", "failures"):
        assert getattr(context, name) is None, name


def test_an_event_directory_of_the_former_version_has_no_outcome_and_no_logon(tmp_path: Path) -> None:
    path = tmp_path / "events"
    write_events(some_events(), path)
    for file in path.glob("day=*/*.parquet"):
        pq.write_table(pq.read_table(file, partitioning=None).drop_columns(["logon", "outcome"]), file)
    manifest = json.loads((path / "_manifest.json").read_text())
    (path / "_manifest.json").write_text(json.dumps({**manifest, "version": 1}))
    (path / "SHA256SUMS").unlink()
    context = read_timeline(path, WIDTH, context=True).context
    assert context is not None
    assert context.failures is None
    assert context.logon is None
    assert context.user is not None
