"""Which edges are held out, and which non-edges stand against them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from entente.errors import GraphError
from entente.graphs.temporal import Int32, Int64, TemporalGraph, distinct

UInt64 = NDArray[np.uint64]

REJECTIONS = 24
"""Rounds of drawing again before the few windows that are nearly complete graphs are enumerated."""

FILTER_BITS_PER_EDGE = 16
"""Size of the hash filter in front of the exact search; 16 lets about 1 non-edge in 16 through to it."""


class NonEdges:
    """Draws pairs that are no edge of their window; built once per graph, drawn from each epoch.

    `nodes` restricts both endpoints (hosts that were never seen make trivial non-edges), `touching` one of
    them, the source or the target; self loops are never drawn. With `symmetric`, (a, b) counts as an edge
    where (b, a) is one.
    """

    def __init__(
        self,
        graph: TemporalGraph,
        nodes: Int64 | None = None,
        symmetric: bool = False,
        touching: Int64 | None = None,
    ) -> None:
        self._size = graph.num_nodes
        self._windows = graph.num_windows
        if self._windows * self._size**2 >= 2**63:
            raise GraphError(
                f"{self._size} hosts in {self._windows} windows are too many for one graph",
                remedy="Split the graph into shorter spans.",
            )
        self._nodes = np.arange(self._size, dtype=np.int64) if nodes is None else nodes.astype(np.int64)
        self._touching = touching
        window, src, dst = graph.window_of_edge(), graph.src.astype(np.int64), graph.dst.astype(np.int64)
        keys = self._key(window, src, dst)
        if symmetric:
            keys = np.concatenate((keys, self._key(window, dst, src)))
        self._keys = distinct(keys) if symmetric or not graph.merged else keys
        if len(self._keys) > 1 and not bool(np.all(self._keys[1:] > self._keys[:-1])):
            self._keys = distinct(self._keys)
        bits = max(6, int(len(self._keys) * FILTER_BITS_PER_EDGE).bit_length())
        self._shift = np.uint64(64 - bits)
        self._filter = np.zeros(1 << bits, dtype=np.bool_)
        self._filter[self._slot(self._keys)] = True

    def draw(self, counts: Int64, rng: np.random.Generator) -> tuple[Int64, Int32, Int32]:
        """`counts[t]` pairs for each window t, sorted by window; fewer where a window has too few non-edges.

        Pairs are drawn uniformly and independently, so one may appear twice.
        """
        if len(self._nodes) < 2:
            counts = np.zeros_like(counts)
        window = np.repeat(np.arange(self._windows, dtype=np.int64), counts)
        src = np.zeros(len(window), dtype=np.int64)
        dst = np.zeros(len(window), dtype=np.int64)
        pending = np.arange(len(window))
        for _ in range(REJECTIONS):
            if not len(pending):
                break
            src[pending], dst[pending] = self._pairs(len(pending), rng)
            taken = self.contains(window[pending], src[pending], dst[pending])
            pending = pending[taken]
        if len(pending):
            keep = self._enumerate(window, src, dst, pending, rng)
            window, src, dst = window[keep], src[keep], dst[keep]
        return window, src.astype(np.int32), dst.astype(np.int32)

    def _pairs(self, count: int, rng: np.random.Generator) -> tuple[Int64, Int64]:
        """Any two hosts."""
        if self._touching is None:
            first = rng.integers(0, len(self._nodes), count)
        else:
            first = np.searchsorted(self._nodes, self._touching)[rng.integers(0, len(self._touching), count)]
        second = rng.integers(0, len(self._nodes) - 1, count)
        second += second >= first  # the one excluded value is the node itself
        src, dst = self._nodes[first], self._nodes[second]
        if self._touching is not None:
            turned = rng.random(count) < 0.5
            src, dst = np.where(turned, dst, src), np.where(turned, src, dst)
        return src, dst

    def contains(self, window: Int64, src: Int64, dst: Int64) -> NDArray[np.bool_]:
        """Whether each pair is an edge of its window."""
        keys = self._key(window, src, dst)
        found = self._filter[self._slot(keys)]
        maybe = np.flatnonzero(found)
        if len(maybe):
            place = np.searchsorted(self._keys, keys[maybe])
            found[maybe] = self._keys[np.minimum(place, len(self._keys) - 1)] == keys[maybe]
        return found

    def _key(self, window: Int64, src: Int64, dst: Int64) -> Int64:
        return (window * self._size + src) * self._size + dst

    def _slot(self, keys: Int64) -> NDArray[np.intp]:
        return (mix(keys.view(np.uint64)) >> self._shift).astype(np.intp)

    def _enumerate(
        self, window: Int64, src: Int64, dst: Int64, pending: NDArray[np.intp], rng: np.random.Generator
    ) -> NDArray[np.bool_]:
        """Fill `pending` from the full list of a dense window's non-edges; says which draws exist."""
        keep = np.ones(len(window), dtype=np.bool_)
        n = len(self._nodes)
        pairs = np.flatnonzero(~np.eye(n, dtype=np.bool_).ravel())
        all_src, all_dst = self._nodes[pairs // n], self._nodes[pairs % n]
        if self._touching is not None:
            touching = np.isin(all_src, self._touching) | np.isin(all_dst, self._touching)
            all_src, all_dst = all_src[touching], all_dst[touching]
        for t in np.unique(window[pending]):
            free = np.flatnonzero(~self.contains(np.full(len(all_src), t), all_src, all_dst))
            wanted = pending[window[pending] == t]
            if not len(free):
                keep[wanted] = False
                continue
            chosen = free[rng.integers(0, len(free), len(wanted))]
            src[wanted], dst[wanted] = all_src[chosen], all_dst[chosen]
        return keep


def held_out(graph: TemporalGraph, share: float, salt: int = 0) -> NDArray[np.bool_]:
    """True for the share of each window's edges that is kept from training.

    The choice hangs on (window, pair, salt) alone: it is the same in every epoch and process. Both
    directions of a pair go the same way, since one of them would give the other away. Where a share is
    not whole it is rounded up or down by chance, so that windows with few edges add up to the share.
    """
    window = graph.window_of_edge()
    low, high = np.minimum(graph.src, graph.dst), np.maximum(graph.src, graph.dst)
    pair = (low.astype(np.int64) << 32) | high
    drawn = mix(pair.view(np.uint64) ^ mix((window + (salt << 40) + 1).view(np.uint64)))
    counts = np.diff(graph.offsets)
    chance = mix((np.arange(graph.num_windows, dtype=np.int64) - (salt << 40) - 1).view(np.uint64))
    quota = np.floor(share * counts + chance.astype(np.float64) / 2.0**64).astype(np.int64)
    order = np.lexsort((drawn, window))
    result = np.zeros(graph.num_edges, dtype=np.bool_)
    some = np.flatnonzero(quota > 0)
    bound = np.zeros(graph.num_windows, dtype=np.uint64)
    bound[some] = drawn[order[graph.offsets[some] + quota[some] - 1]]
    result[:] = (quota[window] > 0) & (drawn <= bound[window])
    return result


def mix(values: UInt64) -> UInt64:
    """SplitMix64's finaliser: a bijection whose every output bit hangs on every input bit."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: UInt64 = z ^ (z >> np.uint64(31))
    return mixed
