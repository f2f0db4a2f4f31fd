"""Events -> a timeline of windows over all hosts, kept as arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from entente.errors import GraphError
from entente.graphs.temporal import Float32, Int32, Int64, TemporalGraph
from entente.logs.schema import MICROSECONDS

MAX_WINDOWS = 10_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """All edges of an event table, before anyone decides which silo sees which.

    `hosts` is sorted; `src` and `dst` index it. Edges are sorted like a TemporalGraph's.
    """

    hosts: NDArray[np.str_]
    start: int
    width: int
    offsets: Int64
    src: Int32
    dst: Int32
    time: Int64
    weight: Float32
    label: NDArray[np.uint8] | None
    merged: bool

    @property
    def num_windows(self) -> int:
        return len(self.offsets) - 1


def read_timeline(
    events: Path,
    width: float,
    start: float | None = None,
    end: float | None = None,
    *,
    merged: bool = True,
) -> Timeline:
    """Read an event directory into windows of `width` seconds.

    The first window begins at `start`, or at the multiple of `width` before the first event.
    Events before `start` or from `end` on are left out; self loops are dropped.
    """
    from entente.logs.events import load_events, read_manifest, window_counts

    manifest = read_manifest(events)
    step = round(width * MICROSECONDS)
    first = manifest.first_time // step * step if start is None else round(start * MICROSECONDS)
    last = manifest.last_time + 1 if end is None else round(end * MICROSECONDS)
    windows = -(-(last - first) // step)
    if windows <= 0:
        raise GraphError(
            "no event lies between start and end",
            where=events,
            remedy=f"Events cover seconds {manifest.first_time / 1e6:.0f} to {manifest.last_time / 1e6:.0f}.",
        )
    if windows > MAX_WINDOWS:
        raise GraphError(
            f"{windows:,} windows of {width:g} s are more than {MAX_WINDOWS:,}",
            where=events,
            remedy="Choose a wider window, or start and end; one wrong clock is enough for this.",
        )
    if merged:
        return timeline_from_counts(window_counts(events, step, first, last), first, step, windows)
    table = load_events(events, ["time", "src", "dst", "label"], first, last)
    table = table.filter(pc.not_equal(table["src"], table["dst"]))
    return timeline_from_events(table, first, step, windows)


def timeline_from_counts(counts: pa.Table, start: int, width: int, windows: int) -> Timeline:
    """From one row per (window, src, dst), with `count` and `first_time`; windows count from `start`."""
    window = _int64(counts["window"])
    hosts, src, dst = _index_hosts(counts["src"], counts["dst"])
    order = np.lexsort((dst, src, window))
    return Timeline(
        hosts=hosts,
        start=start,
        width=width,
        offsets=_offsets(window, windows),
        src=src[order],
        dst=dst[order],
        time=_int64(counts["first_time"])[order],
        weight=_int64(counts["count"])[order].astype(np.float32),
        label=_labels(counts["label"], order),
        merged=True,
    )


def timeline_from_events(events: pa.Table, start: int, width: int, windows: int) -> Timeline:
    """From single events, each an edge of its own, sorted by time."""
    time = _int64(events["time"])
    hosts, src, dst = _index_hosts(events["src"], events["dst"])
    order = np.lexsort((dst, src, time))
    return Timeline(
        hosts=hosts,
        start=start,
        width=width,
        offsets=_offsets((time - start) // width, windows),
        src=src[order],
        dst=dst[order],
        time=time[order],
        weight=np.ones(len(time), dtype=np.float32),
        label=_labels(events["label"], order),
        merged=False,
    )


def as_static(graph: TemporalGraph) -> TemporalGraph:
    """All windows merged into one, weights added up (the paper's static modelling)."""
    key = graph.src.astype(np.int64) << 32 | graph.dst
    pairs, inverse = np.unique(key, return_inverse=True)
    count = len(pairs)
    weight = np.bincount(inverse, weights=graph.weight, minlength=count).astype(np.float32)
    time = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(time, inverse, graph.time)
    label = None
    if graph.label is not None:
        label = np.zeros(count, dtype=np.uint8)
        np.maximum.at(label, inverse, graph.label)
    return TemporalGraph(
        rows=graph.rows,
        table_size=graph.table_size,
        start=graph.start,
        width=graph.width * max(1, graph.num_windows),
        offsets=np.array([0, count], dtype=np.int64),
        src=(pairs >> 32).astype(np.int32),
        dst=(pairs & 0xFFFFFFFF).astype(np.int32),
        time=time,
        weight=weight,
        label=label,
    )


def _offsets(window: Int64, windows: int) -> Int64:
    counts = np.bincount(window, minlength=windows)
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def _index_hosts(src: Any, dst: Any) -> tuple[NDArray[np.str_], Int32, Int32]:
    """Sorted host names, and both ends of every edge as positions in them."""
    encoded = pa.chunked_array(_chunks(src) + _chunks(dst), type=pa.string()).combine_chunks()
    encoded = pc.dictionary_encode(encoded)
    names = np.asarray(encoded.dictionary.to_pylist(), dtype=np.str_)
    order = np.argsort(names, kind="stable")
    place = np.empty(len(names), dtype=np.int32)
    place[order] = np.arange(len(names), dtype=np.int32)
    numbers = place[encoded.indices.to_numpy(zero_copy_only=False)]
    return names[order], numbers[: len(src)], numbers[len(src) :]


def _chunks(column: Any) -> list[Any]:
    plain = column.cast(pa.string()) if column.type != pa.string() else column
    chunks: Iterable[Any] = plain.chunks if isinstance(plain, pa.ChunkedArray) else [plain]
    return list(chunks)


def _int64(column: Any) -> Int64:
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _labels(column: Any, order: Int64) -> NDArray[np.uint8] | None:
    """Labels with unknown counted as benign; None when nobody labelled anything."""
    if column.null_count == len(column):
        return None
    return np.asarray(column.fill_null(0).to_numpy(), dtype=np.uint8)[order]
