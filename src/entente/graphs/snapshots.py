"""Events -> a timeline of windows over all hosts, kept as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.errors import GraphError
from entente.graphs.context import NOTHING, EdgeContext
from entente.graphs.merging import Edges, Merger
from entente.graphs.stored import StoredEdges
from entente.graphs.temporal import Float32, Int32, Int64
from entente.logs.edges.store import EdgeManifest, is_edges, read_edge_manifest
from entente.logs.events import Manifest, event_files, read_manifest
from entente.logs.manifest import check_events
from entente.logs.schema import MICROSECONDS
from entente.logs.store import time_text

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
    context: EdgeContext | None = None

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
    context: bool = False,
    nodes: str = "hosts",
) -> Timeline:
    """Read an event directory, or an edge directory of such windows, into windows of `width` seconds.

    The first window begins at `start`, or at the multiple of `width` before the first event.
    Events before `start` or from `end` on are left out; self loops are dropped. With `merged`,
    all events of a (source, target) pair in a window are one edge. `context` also reads what the events of
    an edge say besides their number. `nodes` is "hosts", "users" (edges from users to hosts) or "both".
    """

    manifest = log_summary(events)
    step = round(width * MICROSECONDS)
    first = manifest.first_time // step * step if start is None else round(start * MICROSECONDS)
    last = manifest.last_time + 1 if end is None else round(end * MICROSECONDS)
    windows = -(-(last - first) // step)
    if windows <= 0:
        raise GraphError(
            "no event lies between start and end",
            where=events,
            remedy=f"Events cover {time_text(manifest.first_time)} to {time_text(manifest.last_time)}.",
        )
    if windows > MAX_WINDOWS:
        raise GraphError(
            f"{windows:,} windows of {width:g} s are more than {MAX_WINDOWS:,}",
            where=events,
            remedy="Choose a wider window, or start and end; one wrong clock is enough for this.",
        )
    if isinstance(manifest, EdgeManifest):
        if nodes != "hosts":
            raise GraphError(
                "holds edges between hosts; users cannot be nodes any more",
                where=events,
                remedy="Give the events themselves (`entente ingest`).",
            )
        merger: Any = StoredEdges(events, first, step, windows, context=context)
    else:
        check_events(events, event_files(events, first, last))
        merger = Merger(events, first, step, windows, context=context, nodes=nodes)
    edges = merger.merged(manifest, last) if merged else merger.single(manifest, last)
    return timeline_from_edges(edges, merger.hosts.array(), first, step, windows, merged=merged)


def log_summary(path: Path) -> Manifest | EdgeManifest:
    """What an event directory or an edge directory says of itself; an error where it is neither."""
    return read_edge_manifest(path) if is_edges(path) else read_manifest(path)


def timeline_from_edges(
    edges: Edges, names: NDArray[np.str_], start: int, width: int, windows: int, *, merged: bool
) -> Timeline:
    """Edges sorted as a graph's are, between hosts sorted by name; `names` are what their codes stand for."""
    order = np.argsort(names, kind="stable")
    place = np.empty(len(names), dtype=np.int32)
    place[order] = np.arange(len(names), dtype=np.int32)
    src, dst = place[edges.src], place[edges.dst]
    sorting = np.lexsort((dst, src, edges.window if merged else edges.time))
    said = (edges.label != NOTHING).any()
    return Timeline(
        hosts=names[order],
        start=start,
        width=width,
        offsets=_offsets(edges.window, windows),
        src=src[sorting],
        dst=dst[sorting],
        time=edges.time[sorting],
        weight=edges.count[sorting].astype(np.float32),
        # An event that nobody labelled among labelled ones counts as benign.
        label=np.maximum(edges.label[sorting], 0).astype(np.uint8) if said else None,
        merged=merged,
        context=None if edges.context is None else edges.context[sorting],
    )


def _offsets(window: Int64, windows: int) -> Int64:
    counts = np.bincount(window, minlength=windows)
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
