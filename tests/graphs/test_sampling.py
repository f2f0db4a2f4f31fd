from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entente.graphs.sampling import NonEdges, held_out
from entente.graphs.temporal import TemporalGraph


def random_graph(nodes: int, windows: int, edges: int, seed: int) -> TemporalGraph:
    rng = np.random.default_rng(seed)
    triples = np.unique(
        np.column_stack(
            (
                rng.integers(0, windows, edges),
                rng.integers(0, nodes, edges),
                rng.integers(0, nodes, edges),
            )
        ),
        axis=0,
    )
    triples = triples[triples[:, 1] != triples[:, 2]]
    offsets = np.searchsorted(triples[:, 0], np.arange(windows + 1)).astype(np.int64)
    return TemporalGraph(
        rows=np.arange(nodes, dtype=np.int32)[:, None],
        table_size=nodes,
        start=0,
        width=10,
        offsets=offsets,
        src=triples[:, 1].astype(np.int32),
        dst=triples[:, 2].astype(np.int32),
        time=triples[:, 0].astype(np.int64) * 10,
        weight=np.ones(len(triples), dtype=np.float32),
    )


def edge_set(graph: TemporalGraph) -> set[tuple[int, int, int]]:
    return set(zip(graph.window_of_edge().tolist(), graph.src.tolist(), graph.dst.tolist(), strict=True))


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 12), st.integers(1, 5), st.integers(0, 200), st.integers(0, 1000))
def test_a_drawn_pair_is_never_an_edge_of_its_window_nor_a_self_loop(
    nodes: int, windows: int, edges: int, seed: int
) -> None:
    graph = random_graph(nodes, windows, edges, seed)
    counts = np.diff(graph.offsets)
    window, src, dst = NonEdges(graph).draw(counts, np.random.default_rng(seed))
    existing = edge_set(graph)
    drawn = set(zip(window.tolist(), src.tolist(), dst.tolist(), strict=True))
    assert not drawn & existing
    assert not (src == dst).any()
    assert (np.diff(window) >= 0).all()
    for t in range(windows):
        complete = counts[t] == nodes * (nodes - 1)
        assert (window == t).sum() == (0 if complete else counts[t])


def test_membership_equals_a_plain_set() -> None:
    graph = random_graph(30, 4, 900, 3)
    existing = edge_set(graph)
    window, src, dst = (axis.ravel() for axis in np.meshgrid(np.arange(4), np.arange(30), np.arange(30)))
    plain = [key in existing for key in zip(window.tolist(), src.tolist(), dst.tolist(), strict=True)]
    assert NonEdges(graph).contains(window, src, dst).tolist() == plain


def test_symmetric_sampling_refuses_the_mirrored_edge() -> None:
    graph = random_graph(6, 2, 30, 1)
    window, src, dst = NonEdges(graph, symmetric=True).draw(np.array([50, 50]), np.random.default_rng(0))
    existing = edge_set(graph)
    assert (
        not {(t, d, s) for t, s, d in zip(window.tolist(), src.tolist(), dst.tolist(), strict=True)}
        & existing
    )


def test_endpoints_come_from_the_given_nodes_and_cover_them() -> None:
    graph = random_graph(40, 1, 20, 2)
    nodes = np.array([1, 5, 9, 30])
    _, src, dst = NonEdges(graph, nodes).draw(np.array([400]), np.random.default_rng(0))
    assert set(src.tolist()) == set(dst.tolist()) == {1, 5, 9, 30}


def test_the_same_generator_state_draws_the_same_pairs() -> None:
    graph = random_graph(20, 3, 100, 5)
    sampler, counts = NonEdges(graph), np.array([10, 0, 25])
    first = sampler.draw(counts, np.random.default_rng(7))
    second = sampler.draw(counts, np.random.default_rng(7))
    assert all((np.asarray(a) == b).all() for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("nodes", [0, 1])
def test_a_graph_of_one_host_has_no_pairs_to_draw(nodes: int) -> None:
    graph = random_graph(max(nodes, 1), 1, 0, 0)
    window, _, _ = NonEdges(graph, np.arange(nodes)).draw(np.array([3]), np.random.default_rng(0))
    assert len(window) == 0


def test_held_out_edges_are_the_share_of_each_window_and_always_the_same() -> None:
    graph = random_graph(300, 6, 12_000, 4)
    mask = held_out(graph, 0.05)
    counts = np.add.reduceat(mask, graph.offsets[:-1].astype(np.intp))
    assert (np.abs(counts - 0.05 * np.diff(graph.offsets)) <= 3).all()
    assert (mask == held_out(graph, 0.05)).all()
    assert (mask != held_out(graph, 0.05, salt=1)).any()


def test_small_windows_add_up_to_the_share() -> None:
    graph = random_graph(200, 400, 2000, 6)
    assert 0.035 < held_out(graph, 0.05).mean() < 0.065


def test_both_directions_of_a_pair_are_held_out_together() -> None:
    graph = random_graph(12, 3, 300, 8)
    chosen = held_out(graph, 0.3)
    taken = {key for key, out in zip(sorted(edge_set(graph)), chosen.tolist(), strict=True) if out}
    for t, s, d in taken:
        assert (t, d, s) not in edge_set(graph) or (t, d, s) in taken
