"""Replicas of one history, described in one walk over the windows instead of one each, to the same bits.

A window of a small silo has too few edges for the walk to be about anything but its own steps; of several
replicas side by side it has several times as many. Each replica is a part of the memory: no host, pair or sum
belongs to two of them. Accounts are few enough to be kept by replica.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from entente.detectors.behaviour.accounts import Accounts, Values
from entente.detectors.behaviour.features import describe
from entente.detectors.behaviour.memory import Memory
from entente.graphs.temporal import Float32, Int32, Int64, TemporalGraph

MOST_EDGES = 300_000
"""Edges of replicas that are described together: beyond this nothing is gained but memory used."""


def describe_each(graphs: Sequence[TemporalGraph]) -> Iterator[Float32]:
    """Raw values of the edges of each graph, from an empty memory each; windows and hosts are the same."""
    waiting: list[TemporalGraph] = []
    for graph in graphs:
        if waiting and sum(one.num_edges for one in waiting) + graph.num_edges > MOST_EDGES:
            yield from _described(waiting)
            waiting = []
        waiting.append(graph)
    if waiting:
        yield from _described(waiting)


def _described(graphs: Sequence[TemporalGraph]) -> Iterator[Float32]:
    whole, place = _beside(graphs)
    memory = Memory(Memory.empty(whole.num_nodes, len(graphs)), whole)
    memory.accounts = _AccountsBeside(graphs, whole.offsets, memory.hours)
    raw, _ = describe(memory, whole)
    begin = 0
    for graph in graphs:
        yield raw[place[begin : begin + graph.num_edges]]
        begin += graph.num_edges


def _beside(graphs: Sequence[TemporalGraph]) -> tuple[TemporalGraph, Int64]:
    """One graph of all, and where each edge of each, one graph after another, stands in it."""
    first, nodes = graphs[0], graphs[0].num_nodes
    order = np.argsort(np.concatenate([graph.window_of_edge() for graph in graphs]), kind="stable")
    shift = np.repeat(np.arange(len(graphs)) * nodes, [graph.num_edges for graph in graphs])
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))

    def ends(name: str) -> Int32:
        hosts = np.concatenate([getattr(graph, name) for graph in graphs])
        found: Int32 = (hosts + shift)[order].astype(np.int32)
        return found

    whole = TemporalGraph(
        rows=np.tile(first.rows, (len(graphs), 1)),
        table_size=first.table_size,
        start=first.start,
        width=first.width,
        offsets=np.sum([graph.offsets for graph in graphs], axis=0),
        src=ends("src"),
        dst=ends("dst"),
        time=np.concatenate([graph.time for graph in graphs])[order],
        weight=np.concatenate([graph.weight for graph in graphs])[order],
    )
    return whole, place


class _AccountsBeside(Accounts):
    """What each replica knows of accounts, by itself; slices are of the graph of all of them."""

    def __init__(self, graphs: Sequence[TemporalGraph], offsets: Int64, hours: float) -> None:
        self._each = [
            Accounts(Accounts.empty(graph.num_nodes), graph, graph.num_nodes, hours) for graph in graphs
        ]
        self._graphs, self._offsets = graphs, offsets

    def forget(self, before: int) -> None:
        for one in self._each:
            one.forget(before)

    def fade(self) -> None:
        for one in self._each:
            one.fade()

    def values(self, part: slice, a: Int32) -> dict[str, Values]:
        if not len(a):
            return self.masked(0)
        found = [one.values(own, src) for one, own, src in self._split(part, a)]
        return {name: np.concatenate([values[name] for values in found]) for name in found[0]}

    def learn(self, part: slice, src: Int32, number: int, worth: np.float32) -> None:
        for one, own, sources in self._split(part, src):
            one.learn(own, sources, number, worth)

    def _split(self, part: slice, src: Int32) -> Iterator[tuple[Accounts, slice, Int32]]:
        """Each replica's edges of a window: their place in its own graph, and their sources there."""
        window = int(np.searchsorted(self._offsets, part.start, "right")) - 1
        begin = 0
        for number, (one, graph) in enumerate(zip(self._each, self._graphs, strict=True)):
            if len(src):
                own = slice(int(graph.offsets[window]), int(graph.offsets[window + 1]))
                end = begin + own.stop - own.start
                yield one, own, src[begin:end] - np.int32(number * graph.num_nodes)
                begin = end
