"""The Barabási–Albert reference graph: the same bits on every machine from (n, m, seed).

Growth follows the paper's Algorithm 3: m first nodes, then every new node is joined to m distinct
older nodes drawn in proportion to their degree. Drawing an end of a random older edge does exactly
that, so the target of slot e (the e-th edge) is either the source of an older edge, known at once,
or the target of an older slot. Slots are settled in pieces instead of node after node: what refers to
a former piece is known, and the few chains within a piece are followed for all its slots together.

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
PIECE = 16384  # slots drawn at a time, so that they stay in the cache
TRIES = 8  # draws that a repeated target is offered at a time


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
            remedy="Lower federation.max_hosts.",
        )
    source = np.repeat(np.arange(m, n, dtype=np.int32), m)
    drawn = _resolve(m, seed, source)
    target = drawn.copy()
    _redraw(target.reshape(-1, m), m, seed, drawn)
    return source, target


def _draw(seed: int, slots: UInt64, attempts: UInt64, older: UInt64) -> UInt64:
    """Which of the `older` ends the slots choose: end 2e is the source of edge e, end 2e + 1 its target."""
    key = mix(np.array([seed & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64))
    return mix(mix(slots ^ key) + attempts) % older


def _resolve(m: int, seed: int, source: Int32) -> Int32:
    """The first draw of every slot, references followed to a node."""
    edges = len(source)
    target = np.arange(edges, dtype=np.int32)  # right for the first new node: it takes the m first nodes
    for at in range(m, edges, PIECE):
        slots = np.arange(at, min(at + PIECE, edges), dtype=np.uint64)
        older = slots // np.uint64(m) * np.uint64(2 * m)
        ends = _draw(seed, slots, np.zeros(1, dtype=np.uint64), older)
        edge = (ends >> np.uint64(1)).astype(np.int32)
        repeats = (ends & np.uint64(1)).astype(np.bool_)
        piece = target[at : at + len(edge)]
        # A slot refers to older ones: those of former pieces are settled, chains lie within the piece alone.
        np.copyto(piece, np.where(repeats, target.take(edge), source.take(edge)))
        late = np.flatnonzero(repeats & (edge >= at))
        edge = edge[late]
        while len(late):
            found = target.take(edge)
            if (piece[late] == found).all():
                break
            piece[late] = found
    return target


def _redraw(targets: Int32, m: int, seed: int, drawn: Int32) -> None:
    """Give every repeated target of a node another draw, first slot first, until all are distinct."""
    columns = np.ascontiguousarray(targets.T)
    alike = np.zeros(len(targets), dtype=np.bool_)
    for slot in range(1, m):
        alike |= (columns[:slot] == columns[slot]).any(axis=0)
    nodes = np.flatnonzero(alike)
    rows = targets[nodes]
    for slot in range(1, m):
        waiting = np.flatnonzero((rows[:, :slot] == rows[:, slot, None]).any(axis=1))
        tries = np.arange(1, TRIES + 1)
        while len(waiting):
            first = (nodes[waiting] * m)[:, None]
            ends = _draw(seed, *(v.astype(np.uint64) for v in (first + slot, tries, 2 * first)))
            edge = (ends >> np.uint64(1)).astype(np.int64)
            offered = np.where(ends & np.uint64(1), drawn[edge], edge // m + m)
            free = (offered[:, :, None] != rows[waiting, None, :slot]).all(axis=2)
            found, choice = free.any(axis=1), free.argmax(axis=1)
            rows[waiting[found], slot] = offered[found, choice[found]]
            waiting, tries = waiting[~found], tries + TRIES
    targets[nodes] = rows
