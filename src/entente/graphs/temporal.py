"""A silo's temporal graph as compact arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.errors import GraphError
from entente.graphs.context import EdgeContext

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float32 = NDArray[np.float32]

NOBODY = -1
"""In `rows`: the identity table has no row for this host, which then has no features of its own."""


def distinct(values: NDArray[np.integer[Any]]) -> Any:
    """Each of the numbers once, ascending: np.unique, which hashes integers, takes twenty times as long."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


@dataclass(frozen=True, slots=True, eq=False)
class TemporalGraph:
    """Edges between hosts, cut into windows of equal width.

    Nodes are numbered 0..num_nodes-1 *within the silo*; `rows` says which rows of the federated
    identity table describe each of them (one column for a shared index, two for a keyed hash).
    Edges are sorted by window, within a window by (src, dst) when merged and by time when not.
    Window t covers [start + t * width, start + (t + 1) * width) microseconds.
    """

    rows: Int32  # [nodes, rows per host]
    table_size: int
    start: int
    width: int
    offsets: Int64  # [windows + 1]: window t holds edges offsets[t]:offsets[t + 1]
    src: Int32
    dst: Int32
    time: Int64  # of the edge's first event, microseconds
    weight: Float32  # number of events merged into the edge
    label: NDArray[np.uint8] | None = None
    merged: bool = True  # one edge per (src, dst) and window
    context: EdgeContext | None = (
        None  # accounts, kinds, ports and outcome of the edges, where they were read
    )
    strength: Float32 | None = None  # what an edge weighs for a model, where that is not its events

    def __post_init__(self) -> None:
        edges = len(self.src)
        lengths = {len(self.dst), len(self.time), len(self.weight), int(self.offsets[-1]), edges}
        if self.label is not None:
            lengths.add(len(self.label))
        if self.context is not None:
            lengths.add(len(self.context))
        if self.strength is not None:
            lengths.add(len(self.strength))
        if len(lengths) != 1 or int(self.offsets[0]) != 0:
            raise GraphError("edge arrays of a temporal graph differ in length")
        if edges and (int(max(self.src.max(), self.dst.max())) >= len(self.rows)):
            raise GraphError("an edge names a node that the graph does not have")

    @property
    def num_nodes(self) -> int:
        return len(self.rows)

    @property
    def num_windows(self) -> int:
        return len(self.offsets) - 1

    @property
    def num_edges(self) -> int:
        return len(self.src)

    def window_of_edge(self) -> Int64:
        """The window number of every edge."""
        return np.repeat(np.arange(self.num_windows, dtype=np.int64), np.diff(self.offsets))

    def windows(self, first: int, last: int | None = None) -> TemporalGraph:
        """The sub-graph of windows first..last-1; nodes keep their numbers."""
        last = self.num_windows if last is None else min(last, self.num_windows)
        first = min(first, last)
        low, high = int(self.offsets[first]), int(self.offsets[last])
        return replace(
            self,
            start=self.start + first * self.width,
            offsets=self.offsets[first : last + 1] - low,
            **self._edge_arrays(slice(low, high)),
        )

    def select(self, keep: NDArray[np.bool_]) -> TemporalGraph:
        """The same windows with only the edges where `keep` is true."""
        counts = np.concatenate(([0], np.cumsum(keep, dtype=np.int64)))
        return replace(self, offsets=counts[self.offsets], **self._edge_arrays(keep))

    def around(self, chosen: NDArray[np.bool_]) -> tuple[TemporalGraph, Int64, Int64]:
        """Every edge that touches a chosen host, among those hosts and their partners, numbered anew.

        With it: which edges of this graph they are, and the chosen hosts' numbers there.
        """
        edges = np.flatnonzero(chosen[self.src] | chosen[self.dst])
        arrays = self._edge_arrays(edges)
        there = chosen.copy()
        there[arrays["src"]] = there[arrays["dst"]] = True
        number = (np.cumsum(there) - 1).astype(np.int32)
        arrays |= {end: number[arrays[end]] for end in ("src", "dst")}
        offsets = np.searchsorted(edges, self.offsets).astype(np.int64)
        part = replace(self, rows=self.rows[there], offsets=offsets, **arrays)
        return part, edges, number[chosen].astype(np.int64)

    def each_window(self) -> Iterator[TemporalGraph]:
        for t in range(self.num_windows):
            yield self.windows(t, t + 1)

    def in_order(self) -> TemporalGraph:
        """Edges sorted by (window, src, dst) again, after nodes were given other numbers."""
        if not self.merged:  # single events stay in the order of time
            return self
        order = np.lexsort((self.dst, self.src, self.window_of_edge()))
        return replace(self, **self._edge_arrays(order))

    def alone(self, hosts: int) -> TemporalGraph:
        """The graph with only its first `hosts` nodes, which all its edges are between, and its own names."""
        context = None if self.context is None else self.context.compact()
        return replace(self, rows=self.rows[:hosts], context=context)

    def known_before(self, window: int) -> int:
        """How many nodes, counted from node 0, there are up to the last one with an edge before `window`."""
        edges = int(self.offsets[window])
        return 1 + int(max(self.src[:edges].max(), self.dst[:edges].max())) if edges else 0

    def _edge_arrays(self, chosen: Any) -> dict[str, Any]:
        return {
            "src": self.src[chosen],
            "dst": self.dst[chosen],
            "time": self.time[chosen],
            "weight": self.weight[chosen],
            "label": None if self.label is None else self.label[chosen],
            "context": None if self.context is None else self.context[chosen],
            "strength": None if self.strength is None else self.strength[chosen],
        }
