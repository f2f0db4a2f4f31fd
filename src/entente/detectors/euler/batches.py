"""A training graph split into edges to learn and edges to validate by; and into batches that fit into memory.

A batch has some of the hosts and every edge that touches them. What they received is whole; a host outside of
the batch is known by its identity and by the edges it has with the batch, which is a sample of all its edges.
Batches are drawn anew each epoch, and an edge between two batches is learnt in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from entente.detectors.euler.layout import lay_out_graph
from entente.detectors.layers import Adjacency
from entente.graphs.sampling import NonEdges, held_out
from entente.graphs.temporal import Int64, TemporalGraph

MakeBatch = Callable[[np.random.Generator], "TrainingGraph"]
"""Makes a batch, with its own draws."""


class TrainingGraph:
    """A graph whose `hidden` edges are not learnt; its parts are made when they are first asked for.

    Non-edges are drawn among all hosts of the graph, active or not: a host that does nothing should not
    look like one that does. `touching`: one end of each is one of these hosts.
    """

    def __init__(
        self, graph: TemporalGraph, hidden: NDArray[np.bool_], touching: Int64 | None = None
    ) -> None:
        self.source = graph
        self.hidden = hidden
        self._touching = touching

    @classmethod
    def of(cls, graph: TemporalGraph, share: float) -> TrainingGraph:
        """With this share of each window's edges held out."""
        return cls(graph, held_out(graph, share))

    @cached_property
    def train(self) -> TemporalGraph:
        return self.source.select(~self.hidden)

    @cached_property
    def held(self) -> TemporalGraph:
        return self.source.select(self.hidden)

    @cached_property
    def adjacency(self) -> Adjacency:
        return Adjacency(lay_out_graph(self.train))

    @cached_property
    def non_edges(self) -> NonEdges:
        return NonEdges(self.source, touching=self._touching)

    @property
    def learnt(self) -> int:
        """How many edges there are to learn."""
        return len(self.hidden) - int(np.count_nonzero(self.hidden))

    @cached_property
    def _edges_of(self) -> Int64:
        """How many edges each host has."""
        hosts = self.source.num_nodes
        return np.bincount(self.source.src, minlength=hosts) + np.bincount(self.source.dst, minlength=hosts)

    def spans(self, rows: int) -> Iterator[TrainingGraph]:
        """The graph in stretches of windows, each of at most `rows` hosts in windows or of one window."""
        step = max(1, rows // max(self.source.num_nodes, 1))
        for first in range(0, self.source.num_windows, step):
            part = self.source.windows(first, first + step)
            begin = int(self.source.offsets[first])
            yield TrainingGraph(part, self.hidden[begin : begin + part.num_edges])

    def batches(
        self, edges: int, rng: np.random.Generator
    ) -> Iterator[Callable[[np.random.Generator], TrainingGraph]]:
        """An epoch's batches of about this many edges, each made when it is called."""
        order = rng.permutation(self.source.num_nodes)
        before = np.cumsum(self._edges_of[order]) - self._edges_of[order]
        number = np.empty(len(order), dtype=np.int64)
        number[order] = before // edges
        _, number = np.unique(number, return_inverse=True)
        for batch in range(int(number.max(initial=-1)) + 1):
            yield partial(self._batch, number == batch, edges)

    def _batch(self, own: NDArray[np.bool_], edges: int, rng: np.random.Generator) -> TrainingGraph:
        """Hosts and their edges; a sample is learnt where there are more: a server may have them all."""
        graph, chosen, touching = self.source.around(own)
        hidden = self.hidden[chosen]
        if graph.num_edges > edges:
            hidden = hidden | (rng.random(graph.num_edges) >= edges / graph.num_edges)
        return TrainingGraph(graph, hidden, touching)
