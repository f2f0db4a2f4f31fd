"""The Barabási–Albert reference graph: the same bits on every machine from (n, m, seed).

Growth follows the paper's Algorithm 3: m first nodes, then every new node is joined to m distinct
older nodes drawn in proportion to their degree. Drawing an end of a random older edge does exactly
that, so the target of slot e (the e-th edge) is either the source of an older edge, known at once,
or the target of an older slot. Those references form chains that pointer jumping resolves for all
slots together instead of node after node.

Randomness is counter-based and integer only: draw a of slot e is a hash of (seed, e, a), so nothing
depends on the order of evaluation, on floating point or on a library's generator. When a node draws
the same target twice, the later slot draws again (a = 1, 2, ...) until its target is new. Redraws
change the node's own edge only; later nodes go on drawing by the degrees of the first draws, which
keeps the slots independent and concerns a few hundred of millions of edges.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from entente.errors import FederationError
from entente.graphs.temporal import Int32

UInt64 = NDArray[np.uint64]
MOST_EDGES = 200_000_000


def mix(values: UInt64) -> UInt64:
    """A bijection of 64-bit words in which every input bit reaches every output bit."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def barabasi_albert(n: int, m: int, seed: int) -> tuple[Int32, Int32]:
    """Edges (new node, older node) of the reference graph; m * (n - m) of them, none twice.

    With n <= m the graph is a complete one: m is taken to be n - 1.
    """
    m = min(m, n - 1)
    if m < 1:
        return np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
    edges = m * (n - m)
    if edges > MOST_EDGES:
        raise FederationError(
            f"a reference graph of {n} hosts and m = {m} has {edges} edges, more than {MOST_EDGES}",
            remedy="Lower federation.max_hosts or federation.m.",
        )
    slots = np.arange(edges, dtype=np.int64)
    source = (slots // m + m).astype(np.int32)
    drawn = _resolve(m, seed, source)
    target = drawn.copy()
    _redraw(target.reshape(-1, m), m, seed, drawn)
    return source, target


def _draw(seed: int, slots: NDArray[np.int64], attempts: NDArray[np.int64], m: int) -> NDArray[np.int64]:
    """Which end of which older edge the slots choose: end 2e is the source of edge e, 2e + 1 its target."""
    key = mix(np.array([seed & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64))
    words = mix(mix(slots.astype(np.uint64) ^ key) + attempts.astype(np.uint64))
    older = (slots // m * m * 2).astype(np.uint64)  # ends of all edges of the nodes before this one
    chosen: NDArray[np.int64] = (words % older).astype(np.int64)
    return chosen


def _resolve(m: int, seed: int, source: Int32) -> Int32:
    """The first draw of every slot, chains of references followed to a node."""
    edges = len(source)
    parent = np.arange(edges, dtype=np.int32)
    value = np.arange(edges, dtype=np.int32)  # of roots; the first node takes the m first nodes
    slots = np.arange(m, edges, dtype=np.int64)
    ends = _draw(seed, slots, np.zeros(1, dtype=np.int64), m)
    edge = (ends >> 1).astype(np.int32)
    is_source = (ends & 1) == 0
    value[m:] = np.where(is_source, source[edge], 0)
    parent[m:] = np.where(is_source, parent[m:], edge)
    del slots, ends, edge, is_source
    while True:
        further = parent[parent]
        if np.array_equal(further, parent):
            return value[parent]
        parent = further


def _redraw(targets: Int32, m: int, seed: int, drawn: Int32) -> None:
    """Give every repeated target of a node another draw, first slot first, until all are distinct."""
    ordered = np.sort(targets, axis=1)
    nodes = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    attempts = np.zeros((len(nodes), m), dtype=np.int64)
    while len(nodes):
        rows = targets[nodes]
        earlier = (rows[:, :, None] == rows[:, None, :]) & np.tri(m, k=-1, dtype=bool)
        repeated = earlier.any(axis=2)
        open_ = repeated.any(axis=1)
        nodes, attempts, slot = nodes[open_], attempts[open_], repeated[open_].argmax(axis=1)
        line = np.arange(len(nodes))
        attempts[line, slot] += 1
        ends = _draw(seed, nodes * m + slot, attempts[line, slot], m)
        edge = ends >> 1
        targets[nodes, slot] = np.where(ends & 1, drawn[edge], edge // m + m)
