"""Each node's most recent neighbours before a moment, for many (node, moment) questions at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entente.graphs.temporal import Int32, Int64

STRIDE = 16
"""A power of two: how many keys of the index share one in the small index that is searched first."""


@dataclass(frozen=True, slots=True, eq=False)
class Recent:
    """The answer to `RecentNeighbours.recent`: one row per question, the most recent neighbour first."""

    node: Int64  # [questions, k]; 0 where there is none
    time: Int64  # [questions, k]; 0 where there is none
    known: NDArray[np.bool_]  # [questions, k]: whether there is one


@dataclass(frozen=True, slots=True, eq=False)
class Ring:
    """The last k neighbours of every node, the most recent first; `node` is -1 where there is none."""

    node: Int32  # [nodes, k]
    time: Int64  # [nodes, k]

    @staticmethod
    def empty(nodes: int, k: int) -> Ring:
        return Ring(
            np.full((nodes, k), -1, dtype=np.int32),
            np.zeros((nodes, k), dtype=np.int64),
        )


class RecentNeighbours:
    """Events, and what a ring remembers of those before them, indexed by node.

    An event is a neighbour for both of its ends. `order` counts events: a question about `before = i`
    sees the ring and events 0..i-1, so that nothing later can leak into the answer.
    """

    def __init__(self, src: Int32, dst: Int32, time: Int64, past: Ring, k: int) -> None:
        nodes, width = past.node.shape
        self._time = time
        self._k = k
        self._span = width + len(src) + 1
        old_node, slot = np.nonzero(past.node[:, ::-1] >= 0)  # oldest first
        slot_of = width - 1 - slot
        owner = np.concatenate((old_node, np.stack((src, dst), axis=1).ravel().astype(np.int64)))
        other = np.concatenate((past.node[old_node, slot_of], np.stack((dst, src), axis=1).ravel()))
        order = np.concatenate((slot, width + np.repeat(np.arange(len(src)), 2)))
        moment = np.concatenate((past.time[old_node, slot_of], np.repeat(time, 2)))
        sorting = np.argsort(owner, kind="stable")
        keys = owner[sorting] * self._span + order[sorting]
        padding = np.full(STRIDE - len(keys) % STRIDE, np.iinfo(np.int64).max)
        self._keys = np.concatenate((keys, padding))
        self._every = self._keys[STRIDE - 1 :: STRIDE].copy()
        # Row 0 of each column stands for "nobody"; the entries follow.
        self._other = np.concatenate(([0], other[sorting])).astype(np.int64)
        self._moment = np.concatenate(([0], moment[sorting]))
        self._starts = np.searchsorted(owner[sorting], np.arange(nodes + 1))
        self._first = width

    def before(self, time: Int64) -> Int64:
        """How many events lie strictly before each moment."""
        return np.searchsorted(self._time, time, side="left").astype(np.int64)

    def recent(self, nodes: Int64, before: Int64) -> Recent:
        """The k most recent neighbours of each node among the ring and the first `before` events."""
        end = self._search(nodes * self._span + (self._first + before))
        place = end[:, None] - np.arange(self._k)
        known = place > self._starts[nodes][:, None]
        place *= known
        return Recent(self._other.take(place, mode="clip"), self._moment.take(place, mode="clip"), known)

    def _search(self, keys: Int64) -> Int64:
        """As np.searchsorted in all keys, but most steps stay in the cache: first every STRIDE-th key."""
        order = np.argsort(keys)
        wanted = keys[order]
        low = np.searchsorted(self._every, wanted) * STRIDE
        step = STRIDE // 2
        while step:
            low += (self._keys[low + (step - 1)] < wanted) * step
            step //= 2
        end = np.empty(len(keys), dtype=np.int64)
        end[order] = low
        return end

    def ring(self, before: int) -> Ring:
        """What remains of the ring after the first `before` events."""
        nodes = np.arange(len(self._starts) - 1)
        found = self.recent(nodes, np.full(len(nodes), before))
        node = np.where(found.known, found.node, -1).astype(np.int32)
        return Ring(node, found.time)
