"""Small random histories with habits and some novelty."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from entente.graphs.context import EdgeContext, Frequent
from entente.graphs.temporal import TemporalGraph

HALF_HOUR = 1_800_000_000


def history(
    windows: int, nodes: int = 20, edges: int = 8, novelty: float = 0.1, seed: int = 0, width: int = HALF_HOUR
) -> TemporalGraph:
    """About `edges` pairs a window out of a fixed set, and now and then one at random."""
    rng = np.random.default_rng(seed)
    habits = _pairs(rng, 3 * edges, nodes)
    parts = []
    for t in range(windows):
        chosen = habits[rng.random(len(habits)) < 1 / 3]
        odd = _pairs(rng, int(rng.poisson(novelty * edges)), nodes)
        pairs = np.unique(np.concatenate((chosen, odd)), axis=0)
        parts.append(np.column_stack((np.full(len(pairs), t), pairs)))
    return graph_of(np.concatenate(parts), windows, nodes, width)


def graph_of(rows: Any, windows: int, nodes: int, width: int = HALF_HOUR) -> TemporalGraph:
    """A graph from rows (window, src, dst)."""
    rows = np.unique(np.asarray(rows, dtype=np.int64).reshape(-1, 3), axis=0)
    return TemporalGraph(
        rows=np.zeros((nodes, 1), dtype=np.int32),
        table_size=16,
        start=0,
        width=width,
        offsets=np.searchsorted(rows[:, 0], np.arange(windows + 1)).astype(np.int64),
        src=rows[:, 1].astype(np.int32),
        dst=rows[:, 2].astype(np.int32),
        time=rows[:, 0] * width,
        weight=np.ones(len(rows), dtype=np.float32),
    )


def with_context(graph: TemporalGraph, seed: int = 0) -> TemporalGraph:
    """The graph with accounts, outcomes and log-on types: mostly each host's own, some missing, some odd."""
    rng = np.random.default_rng(seed)
    edges = graph.num_edges
    names = np.array([f"user{i}" for i in range(graph.num_nodes)])
    own = np.where(rng.random(edges) < 0.2, rng.integers(0, graph.num_nodes, edges), graph.src)
    more = np.where(rng.random(edges) < 0.2, rng.integers(0, graph.num_nodes, edges), -1)
    top = np.column_stack((own, np.where(more == own, -1, more), np.full(edges, -1))).astype(np.int32)
    top[rng.random(edges) < 0.1] = -1
    kinds = np.array(["Interactive", "Network", "Service"])
    kind = rng.choice(3, edges, p=(0.2, 0.7, 0.1)).astype(np.int32)[:, None]
    context = EdgeContext(
        last_time=graph.time,
        failures=np.where(rng.random(edges) < 0.1, rng.integers(-1, 4, edges), 0).astype(np.int32),
        user=Frequent(names, top, (top >= 0).sum(axis=1).astype(np.int32)),
        logon=Frequent(kinds, kind, np.ones(edges, dtype=np.int32)),
    )
    return replace(graph, context=context)


def _pairs(rng: np.random.Generator, count: int, nodes: int) -> np.ndarray[Any, Any]:
    src = rng.integers(0, nodes, count)
    return np.column_stack((src, (src + rng.integers(1, nodes, count)) % nodes))
