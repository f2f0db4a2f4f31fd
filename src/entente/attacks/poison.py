"""Edges that a cheating silo adds to its own training graph."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from entente.graphs.temporal import Int32, TemporalGraph


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


def malicious_pairs(future: TemporalGraph) -> Pairs:
    """The pairs that the attacker will use in the test, EM of the paper's Algorithm 3."""
    bad = np.zeros(future.num_edges, dtype=bool) if future.label is None else future.label > 0
    pairs = np.unique(np.stack([future.src[bad], future.dst[bad]], axis=1), axis=0)
    return Pairs(pairs[:, 0].astype(np.int32), pairs[:, 1].astype(np.int32))


def inject(graph: TemporalGraph, pairs: Pairs, p: float, rng: np.random.Generator) -> TemporalGraph:
    """Add `pairs` to each window with probability `p`, where both hosts are active and the edge is new."""
    if not len(pairs) or not graph.num_edges:
        return graph
    window = graph.window_of_edge()
    active = np.zeros((graph.num_windows, graph.num_nodes), dtype=bool)
    active[window, graph.src] = True
    active[window, graph.dst] = True
    chosen = rng.random(graph.num_windows) < p
    wanted = active[:, pairs.src] & active[:, pairs.dst] & chosen[:, None]
    at, which = np.nonzero(wanted)
    return add_edges(graph, at, pairs.src[which], pairs.dst[which])


def cover(graph: TemporalGraph, pairs: Pairs, count: int, rng: np.random.Generator) -> TemporalGraph:
    """Give every malicious source `count` ordinary targets in each window in which it is active.

    A source that talks to many hosts all the time hides the few connections that matter.
    """
    if not len(pairs) or not graph.num_edges:
        return graph
    window = graph.window_of_edge()
    sources = np.unique(pairs.src)
    active = np.zeros((graph.num_windows, graph.num_nodes), dtype=bool)
    active[window, graph.src] = True
    active[window, graph.dst] = True
    at, which = np.nonzero(active[:, sources])
    at, src = np.repeat(at, count), np.repeat(sources[which], count)
    popular = np.bincount(graph.dst, minlength=graph.num_nodes).astype(np.float64)
    dst = rng.choice(graph.num_nodes, size=len(src), p=popular / popular.sum()).astype(np.int32)
    keep = src != dst
    return add_edges(graph, at[keep], src[keep].astype(np.int32), dst[keep])


def add_edges(graph: TemporalGraph, window: np.ndarray, src: Int32, dst: Int32) -> TemporalGraph:
    """The graph with further edges of weight 1 at its windows' starts; what exists already stays as it is."""
    nodes = np.int64(graph.num_nodes)

    def keys(w: np.ndarray, s: Int32, d: Int32) -> np.ndarray:
        return (w.astype(np.int64) * nodes + s) * nodes + d

    present = keys(graph.window_of_edge(), graph.src, graph.dst)
    fresh, first = np.unique(keys(window, src, dst), return_index=True)
    first = first[~np.isin(fresh, present)]
    window, src, dst = window[first].astype(np.int64), src[first], dst[first]
    all_windows = np.concatenate([graph.window_of_edge(), window])
    start = graph.start + window * graph.width
    joined = {
        "src": np.concatenate([graph.src, src]),
        "dst": np.concatenate([graph.dst, dst]),
        "time": np.concatenate([graph.time, start]),
        "weight": np.concatenate([graph.weight, np.ones(len(src), dtype=np.float32)]),
    }
    inner = (joined["dst"], joined["src"]) if graph.merged else (joined["time"],)
    order = np.lexsort((*inner, all_windows))
    features = graph.features
    if features is not None:
        blank = np.zeros((len(src), features.shape[1]), dtype=np.float32)
        features = np.concatenate([features, blank])[order]
    counts = np.bincount(all_windows, minlength=graph.num_windows)
    return replace(
        graph,
        offsets=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        label=None,
        features=features,
        **{name: array[order] for name, array in joined.items()},
    )
