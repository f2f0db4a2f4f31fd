"""Injected edges: the paper's Algorithm 3, against a plain reading of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entente.graphs.temporal import TemporalGraph
from entente_lab.attacks.poison import Pairs, active, add_edges, cover, inject, malicious_pairs

from .conftest import NODES, WINDOWS, random_graph

pair_lists = st.lists(
    st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)).filter(lambda p: p[0] != p[1]),
    min_size=1,
    max_size=8,
    unique=True,
)


def as_pairs(listed: list[tuple[int, int]]) -> Pairs:
    array = np.array(listed, dtype=np.int32)
    return Pairs(array[:, 0], array[:, 1])


def edge_set(graph: TemporalGraph) -> set[tuple[int, int, int]]:
    window = graph.window_of_edge()
    return set(zip(window.tolist(), graph.src.tolist(), graph.dst.tolist(), strict=True))


def algorithm_3(
    graph: TemporalGraph, pairs: list[tuple[int, int]], chosen: list[bool]
) -> set[tuple[int, int, int]]:
    """As the paper prints it, window by window and edge by edge."""
    edges = edge_set(graph)
    found = set(edges)
    for t in range(graph.num_windows):
        if not chosen[t]:
            continue
        present = {e for w, *ends in edges if w == t for e in ends}
        for src, dst in pairs:
            if (t, src, dst) not in edges and src in present and dst in present:
                found.add((t, src, dst))
    return found


@given(seed=st.integers(0, 50), pairs=pair_lists, p=st.sampled_from([0.0, 0.3, 1.0]))
def test_injection_is_the_papers_algorithm(seed: int, pairs: Any, p: float) -> None:
    graph = random_graph(seed)
    chosen = (np.random.default_rng(seed).random(WINDOWS) < p).tolist()
    poisoned = inject(graph, as_pairs(pairs), p, np.random.default_rng(seed))
    assert edge_set(poisoned) == algorithm_3(graph, pairs, chosen)
    assert len(edge_set(poisoned)) == poisoned.num_edges


@given(seed=st.integers(0, 50), pairs=pair_lists)
def test_without_waiting_for_activity_every_chosen_window_holds_every_pair(seed: int, pairs: Any) -> None:
    poisoned = inject(random_graph(seed), as_pairs(pairs), 1.0, np.random.default_rng(0), only_active=False)
    assert {(t, *pair) for t in range(WINDOWS) for pair in pairs} <= edge_set(poisoned)


@given(seed=st.integers(0, 50), pairs=pair_lists, merged=st.booleans())
def test_a_poisoned_graph_is_a_valid_graph_and_keeps_what_was_there(
    seed: int, pairs: Any, merged: bool
) -> None:
    graph = random_graph(seed, merged=merged)
    poisoned = inject(graph, as_pairs(pairs), 1.0, np.random.default_rng(seed))
    window = poisoned.window_of_edge()
    inner = (poisoned.dst, poisoned.src) if merged else (poisoned.time,)
    order = np.lexsort((*inner, window))
    assert (window[order] == window).all()
    if merged:
        assert (order == np.arange(poisoned.num_edges)).all()
    assert edge_set(graph) <= edge_set(poisoned)
    assert ((poisoned.time >= window * graph.width) & (poisoned.time < (window + 1) * graph.width)).all()
    assert (np.diff(poisoned.time)[np.diff(window) == 0] >= 0).all() or merged
    assert poisoned.label is None


def test_activity_of_hosts_that_are_named_twice() -> None:
    graph = random_graph(3)
    nodes = np.array([2, 5, 2], dtype=np.int32)
    found = active(graph, nodes)
    window = graph.window_of_edge()
    for column, node in enumerate(nodes):
        touched = set(window[(graph.src == node) | (graph.dst == node)].tolist())
        assert set(np.flatnonzero(found[:, column]).tolist()) == touched


def test_only_labelled_pairs_are_malicious_and_each_counts_once() -> None:
    future = random_graph(7, windows=3, malicious=2)
    assert future.label is not None
    bad = future.label > 0
    expected = set(zip(future.src[bad].tolist(), future.dst[bad].tolist(), strict=True))
    pairs = malicious_pairs(future)
    assert set(zip(pairs.src.tolist(), pairs.dst.tolist(), strict=True)) == expected
    assert len(pairs) == len(expected)
    assert len(malicious_pairs(random_graph(7))) == 0


def test_colluders_share_the_pairs_out_without_overlap() -> None:
    pairs = as_pairs([(0, i) for i in range(1, 8)])
    parts = [pairs.part(k, 3) for k in range(3)]
    listed = [pair for part in parts for pair in zip(part.src.tolist(), part.dst.tolist(), strict=True)]
    assert sorted(listed) == [(0, i) for i in range(1, 8)]


def test_cover_gives_active_sources_more_targets_and_no_self_loop() -> None:
    graph, pairs = random_graph(8), as_pairs([(1, 2), (3, 4)])
    covered = cover(graph, pairs, 3, np.random.default_rng(0))
    new = edge_set(covered) - edge_set(graph)
    assert new
    assert {src for _, src, _ in new} <= {1, 3}
    assert all(src != dst for _, src, dst in new)
    sources = active(graph, np.array([1, 3], dtype=np.int32))
    assert all(sources[t, {1: 0, 3: 1}[src]] for t, src, _ in new)


@pytest.mark.parametrize("what", ["no pairs", "no edges"])
def test_nothing_to_inject_changes_nothing(what: str) -> None:
    graph = random_graph(1) if what == "no pairs" else random_graph(1).select(np.zeros(72, dtype=bool))
    nothing = np.empty(0, dtype=np.int32)
    pairs = Pairs(nothing, nothing) if what == "no pairs" else as_pairs([(0, 1)])
    assert inject(graph, pairs, 1.0, np.random.default_rng(0)) is graph
    assert cover(graph, pairs, 2, np.random.default_rng(0)) is graph


def test_adding_an_edge_twice_adds_it_once() -> None:
    graph = random_graph(2)
    there = (graph.window_of_edge()[:1], graph.src[:1], graph.dst[:1])
    assert add_edges(graph, *there).num_edges == graph.num_edges
    twice = [np.concatenate([part, part]) for part in (np.array([0]), np.array([0]), np.array([1]))]
    assert (
        add_edges(graph, twice[0], *(t.astype(np.int32) for t in twice[1:])).num_edges <= graph.num_edges + 1
    )
