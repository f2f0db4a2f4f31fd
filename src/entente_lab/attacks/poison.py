"""Edges that a cheating silo adds to its own training graph."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from entente.graphs.temporal import Int32, Int64, TemporalGraph


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Distinct (src, dst) pairs, as node numbers of the silo."""

    src: Int32
    dst: Int32

    def __len__(self) -> int:
        return len(self.src)

    def part(self, index: int, of: int) -> Pairs:
        """Every `of`-th pair: what one of several colluding silos takes on."""
        return Pairs(self.src[index::of], self.dst[index::of])

    def among(self, graph: TemporalGraph) -> Pairs:
        """The pairs whose hosts the graph knows; others are met only later."""
        known = np.maximum(self.src, self.dst) < graph.num_nodes
        return Pairs(self.src[known], self.dst[known])


def malicious_pairs(future: TemporalGraph) -> Pairs:
    """The pairs that the attacker will use in the test, EM of the paper's Algorithm 3."""
    bad = np.zeros(future.num_edges, dtype=bool) if future.label is None else future.label > 0
    pairs = np.unique(np.stack([future.src[bad], future.dst[bad]], axis=1), axis=0)
    return Pairs(pairs[:, 0].astype(np.int32), pairs[:, 1].astype(np.int32))


def poisoned_windows(graph: TemporalGraph, p: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which windows are poisoned: each with probability `p`."""
    return rng.random(graph.num_windows) < p


def inject(
    graph: TemporalGraph, pairs: Pairs, p: float, rng: np.random.Generator, *, only_active: bool = True
) -> TemporalGraph:
    """Add `pairs` to each window with probability `p`, where both hosts are active and the edge is new.

    `only_active=False` adds them to every chosen window. Pairs of hosts it does not know stay out.
    """
    pairs = pairs.among(graph)
    if not len(pairs) or not graph.num_edges:
        return graph
    wanted = np.repeat(poisoned_windows(graph, p, rng)[:, None], len(pairs), axis=1)
    if only_active:
        wanted &= active(graph, pairs.src) & active(graph, pairs.dst)
    at, which = np.nonzero(wanted)
    return add_edges(graph, at, pairs.src[which], pairs.dst[which])


def cover(graph: TemporalGraph, pairs: Pairs, count: int, rng: np.random.Generator) -> TemporalGraph:
    """Give every malicious source `count` ordinary targets in each window in which it is active.

    A source that talks to many hosts all the time hides the few connections that matter.
    """
    pairs = pairs.among(graph)
    if not len(pairs) or not graph.num_edges:
        return graph
    sources = np.unique(pairs.src)
    at, which = np.nonzero(active(graph, sources))
    at, src = np.repeat(at, count), np.repeat(sources[which], count)
    popular = np.bincount(graph.dst, minlength=graph.num_nodes).astype(np.float64)
    dst = rng.choice(graph.num_nodes, size=len(src), p=popular / popular.sum()).astype(np.int32)
    keep = src != dst
    return add_edges(graph, at[keep], src[keep].astype(np.int32), dst[keep])


def active(graph: TemporalGraph, nodes: Int32) -> NDArray[np.bool_]:
    """Which of `nodes` (columns) have an edge in each window (lines)."""
    place = np.full(graph.num_nodes, -1)
    place[nodes] = np.arange(len(nodes))  # of several equal ones the last; copied below
    found = np.zeros((graph.num_windows, len(nodes)), dtype=bool)
    window = graph.window_of_edge()
    for end in (graph.src, graph.dst):
        known = place[end] >= 0
        found[window[known], place[end[known]]] = True
    return found[:, place[nodes]]


def add_edges(graph: TemporalGraph, window: Int64, src: Int32, dst: Int32) -> TemporalGraph:
    """The graph with further edges of weight 1 at its windows' starts; what exists already stays as it is."""
    nodes = np.int64(graph.num_nodes)

    def keys(w: Int64, s: Int32, d: Int32) -> Int64:
        found: Int64 = (w.astype(np.int64) * nodes + s) * nodes + d
        return found

    present = keys(graph.window_of_edge(), graph.src, graph.dst)
    fresh, first = np.unique(keys(window, src, dst), return_index=True)
    first = first[~np.isin(fresh, present)]
    window, src, dst = window[first].astype(np.int64), src[first], dst[first]
    all_windows = np.concatenate([graph.window_of_edge(), window])
    src, dst = np.concatenate([graph.src, src]), np.concatenate([graph.dst, dst])
    time = np.concatenate([graph.time, graph.start + window * graph.width])
    weight = np.concatenate([graph.weight, np.ones(len(window), dtype=np.float32)])
    order = np.lexsort((dst, src, all_windows) if graph.merged else (time, all_windows))
    counts = np.bincount(all_windows, minlength=graph.num_windows)
    return replace(
        graph,
        offsets=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        src=src[order],
        dst=dst[order],
        time=time[order],
        weight=weight[order],
        label=None,
        context=None,  # invented edges have no accounts
    )
