"""The batched neighbour sampler against lists."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from entente.graphs.neighbours import RecentNeighbours, Ring


def plain(src: Any, dst: Any, time: Any, nodes: Any, moments: Any, k: Any) -> Any:
    """Per question: walk back through all events strictly before the moment."""
    rows = []
    for node, moment in zip(nodes, moments, strict=True):
        found = []
        for event in reversed(range(len(src))):
            if time[event] < moment and node in (src[event], dst[event]):
                other = dst[event] if src[event] == node else src[event]
                found.append((other, time[event]))
        rows.append(found[:k])
    return rows


def events(seed: int, count: int, hosts: int) -> Any:
    rng = np.random.default_rng(seed)
    src = rng.integers(0, hosts, count)
    dst = (src + rng.integers(1, hosts, count)) % hosts
    time = np.sort(rng.integers(0, max(count, 1), count))
    return src.astype(np.int32), dst.astype(np.int32), time


@given(seed=st.integers(0, 10_000), count=st.integers(0, 60), hosts=st.integers(2, 9), k=st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_the_batched_sampler_answers_as_the_plain_one(seed: int, count: int, hosts: int, k: int) -> None:
    src, dst, time = events(seed, count, hosts)
    sampler = RecentNeighbours(src, dst, time, Ring.empty(hosts, k), k)
    rng = np.random.default_rng(seed + 1)
    nodes, moments = rng.integers(0, hosts, 40), rng.integers(0, count + 2, 40)
    found = sampler.recent(nodes, sampler.before(moments))
    for row, expected in enumerate(plain(src, dst, time, nodes, moments, k)):
        assert found.known[row].sum() == len(expected)
        for column, (other, moment) in enumerate(expected):
            assert found.known[row, column]
            assert found.node[row, column] == other
            assert found.time[row, column] == moment


@given(seed=st.integers(0, 10_000), cut=st.integers(0, 50), k=st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_going_on_from_a_ring_equals_having_seen_everything(seed: int, cut: int, k: int) -> None:
    hosts, (src, dst, time) = 7, events(seed, 50, 7)
    time = np.arange(50)
    whole = RecentNeighbours(src, dst, time, Ring.empty(hosts, k), k)
    head: list[Any] = [array[:cut] for array in (src, dst, time)]
    tail: list[Any] = [array[cut:] for array in (src, dst, time)]
    ring = RecentNeighbours(head[0], head[1], head[2], Ring.empty(hosts, k), k).ring(cut)
    later = RecentNeighbours(tail[0], tail[1], tail[2], ring, k)
    nodes = np.arange(hosts)
    for event in range(cut, 51):
        one = whole.recent(nodes, np.full(hosts, event))
        two = later.recent(nodes, np.full(hosts, event - cut))
        for name in ("node", "time", "known"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    last, same = whole.ring(50), later.ring(50 - cut)
    np.testing.assert_array_equal(last.node, same.node)
    np.testing.assert_array_equal(last.time, same.time)


def test_later_events_do_not_change_an_answer() -> None:
    src, dst, time = events(0, 50, 6)
    nodes, moments = np.arange(6), np.full(6, time[25])
    before = []
    for seed in (1, 2):
        order = np.random.default_rng(seed).permutation(np.arange(25, 50))
        mixed = np.concatenate((np.arange(25), order))
        sampler = RecentNeighbours(src[mixed], dst[mixed], time, Ring.empty(6, 4), 4)
        before.append(sampler.recent(nodes, sampler.before(moments)))
    np.testing.assert_array_equal(before[0].node, before[1].node)
    np.testing.assert_array_equal(before[0].time, before[1].time)
