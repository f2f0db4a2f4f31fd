"""Events become windows, and windows become what each silo may see."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entente.errors import EntenteError, GraphError, StorageError
from entente.graphs.identity import SharedIndex
from entente.graphs.silo import silo_graph
from entente.graphs.snapshots import Timeline, read_timeline
from entente.logs.events import write_events
from entente.logs.schema import EVENT_SCHEMA, MICROSECONDS

HOSTS = [f"h{i}" for i in range(6)]
events = st.lists(
    st.tuples(st.integers(0, 50), st.sampled_from(HOSTS), st.sampled_from(HOSTS), st.integers(0, 1)),
    min_size=1,
    max_size=60,
)


def event_table(rows: list[tuple[int, str, str, int]]) -> pa.Table:
    columns: dict[str, list[object]] = {name: [None] * len(rows) for name in EVENT_SCHEMA.names}
    columns["time"] = [t * MICROSECONDS for t, _, _, _ in rows]
    columns["src"] = [s for _, s, _, _ in rows]
    columns["dst"] = [d for _, _, d, _ in rows]
    columns["label"] = [label for _, _, _, label in rows]
    return pa.table(columns, schema=EVENT_SCHEMA)


def edges_of(timeline: Timeline) -> dict[tuple[int, str, str], tuple[float, int]]:
    window = np.repeat(np.arange(timeline.num_windows), np.diff(timeline.offsets))
    label = timeline.label if timeline.label is not None else np.zeros(len(window), int)
    return {
        (int(w), str(timeline.hosts[s]), str(timeline.hosts[d])): (float(n), int(y))
        for w, s, d, n, y in zip(window, timeline.src, timeline.dst, timeline.weight, label, strict=True)
    }


@settings(max_examples=25, deadline=None)
@given(rows=events, width=st.sampled_from([5, 7, 60]))
def test_snapshots_equal_a_plain_count_per_window_and_pair(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, str, str, int]], width: int
) -> None:
    folder = tmp_path_factory.mktemp("events") / "e"
    write_events(event_table(rows), folder)
    timeline = read_timeline(folder, width)
    first = min(t for t, *_ in rows) // width
    count: Counter[tuple[int, str, str]] = Counter()
    label: dict[tuple[int, str, str], int] = {}
    for t, s, d, y in rows:
        if s != d:
            key = (t // width - first, s, d)
            count[key] += 1
            label[key] = max(label.get(key, 0), y)
    assert edges_of(timeline) == {key: (float(n), label[key]) for key, n in count.items()}


def test_events_before_the_start_do_not_leak_into_the_first_window(tmp_path: Path) -> None:
    write_events(event_table([(1, "a", "b", 0), (12, "a", "c", 0), (31, "b", "c", 0)]), tmp_path / "e")
    timeline = read_timeline(tmp_path / "e", 10, start=10, end=30)
    assert edges_of(timeline) == {(0, "a", "c"): (1.0, 0)}
    assert timeline.num_windows == 2


def test_windows_keep_their_place_when_a_silo_is_silent(tmp_path: Path) -> None:
    write_events(event_table([(0, "a", "b", 0), (95, "c", "d", 1)]), tmp_path / "e")
    timeline = read_timeline(tmp_path / "e", 10)
    own = np.isin(timeline.hosts, ["c", "d"])
    silo = silo_graph(timeline, own, SharedIndex(timeline.hosts.tolist()))
    assert silo.graph.num_windows == 10
    assert silo.graph.window_of_edge().tolist() == [9]
    assert silo.hosts.names.tolist() == ["c", "d"]


@settings(max_examples=40, deadline=None)
@given(rows=events, mine=st.sets(st.sampled_from(HOSTS)), augmentation=st.booleans(), merged=st.booleans())
def test_a_silo_sees_exactly_the_edges_that_touch_its_hosts(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int, str, str, int]],
    mine: set[str],
    augmentation: bool,
    merged: bool,
) -> None:
    folder = tmp_path_factory.mktemp("events") / "e"
    write_events(event_table(rows), folder)
    rows = [r for r in rows if r[1] != r[2]]
    timeline = read_timeline(folder, 10, 0, 60, merged=merged)
    if merged:
        first: dict[tuple[int, str, str], int] = {}
        for t, s, d, _ in sorted(rows):
            first.setdefault((t // 10, s, d), t)
        rows = [(t, s, d, 0) for (_, s, d), t in first.items()]
    silo = silo_graph(
        timeline,
        np.isin(timeline.hosts, list(mine)),
        SharedIndex(timeline.hosts.tolist()),
        augmentation=augmentation,
    )
    graph = silo.graph
    seen = sorted(
        (int(t) // MICROSECONDS, str(silo.hosts.names[s]), str(silo.hosts.names[d]))
        for t, s, d in zip(graph.time, graph.src, graph.dst, strict=True)
    )
    touches = any if augmentation else all
    assert seen == sorted((t, s, d) for t, s, d, _ in rows if touches(h in mine for h in (s, d)))
    assert set(silo.hosts.names[silo.hosts.own].tolist()) <= mine
    window = graph.window_of_edge()
    assert (graph.time // graph.width == window).all()
    met: list[set[int]] = [set(graph.src[window < t]) | set(graph.dst[window < t]) for t in range(7)]
    assert all(hosts == set(range(graph.known_before(t))) for t, hosts in enumerate(met))
    order = list(zip(window, graph.src, graph.dst, strict=True)) if graph.merged else graph.time.tolist()
    assert order == sorted(order)
    half = graph.windows(2, 4)
    assert half.num_edges == int(((window >= 2) & (window < 4)).sum())


def test_no_event_between_start_and_end_is_an_error_that_names_the_span(tmp_path: Path) -> None:
    write_events(event_table([(100, "a", "b", 0)]), tmp_path / "e")
    with pytest.raises(GraphError, match="cover 1970-01-01 00:01:40 UTC"):
        read_timeline(tmp_path / "e", 10, start=500)


def test_a_flipped_bit_in_the_events_is_noticed_and_a_directory_without_checksums_is_read(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "events"
    write_events(event_table([(t, "a", "b", 0) for t in range(50)]), folder)
    (file,) = folder.glob("day=*/*.parquet")
    content = bytearray(file.read_bytes())
    for place in range(len(content)):
        changed = content.copy()
        changed[place] ^= 1
        file.write_bytes(changed)
        with pytest.raises(StorageError, match=r"part-0000\.parquet: is damaged"):
            read_timeline(folder, 5)
    file.write_bytes(content)
    (folder / "SHA256SUMS").unlink()
    assert read_timeline(folder, 5).num_windows == 10


def test_damage_in_events_without_checksums_is_an_error_in_words(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    write_events(event_table([(t, f"h{t % 7}", "b", 0) for t in range(300)]), folder)
    (folder / "SHA256SUMS").unlink()
    (file,) = folder.glob("day=*/*.parquet")
    content = file.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    for damaged in (content[: len(content) // 2], content[:footer] + b"\0" * 40 + content[footer + 40 :]):
        file.write_bytes(damaged)
        with pytest.raises(StorageError, match="cannot be read"):
            read_timeline(folder, 5)
    file.write_bytes(content)
    table = pq.read_table(file, partitioning=None)
    src = pa.array([None, *table["src"].to_pylist()[1:]], pa.string())
    pq.write_table(table.set_column(1, pa.field("src", pa.string()), src), file)
    with pytest.raises(StorageError, match="no value in column src"):
        read_timeline(folder, 5)
    file.write_bytes(content)
    (folder / "day=someday").mkdir()
    file.rename(folder / "day=someday" / file.name)
    with pytest.raises(StorageError, match="day=someday"):
        read_timeline(folder, 5)


def test_any_value_in_a_manifest_is_a_value_or_an_error_in_words(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    write_events(event_table([(t, "a", "b", 0) for t in range(50)]), folder)
    stored = folder / "_manifest.json"
    good = json.loads(stored.read_text())
    for name in good:
        for value in (None, "x", -1, 10**30, 1.5, [], {}, [None], {"a": "b"}, True):
            stored.write_text(json.dumps(good | {name: value}))
            with suppress(EntenteError):
                read_timeline(folder, 5)
    stored.write_text(json.dumps(good | {"first_time": None}))
    with pytest.raises(StorageError, match="_manifest"):
        read_timeline(folder, 5)
