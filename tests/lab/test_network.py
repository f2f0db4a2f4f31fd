"""Networks that are drawn straight as graphs."""

from __future__ import annotations

import numpy as np

from entente_lab.simulator.network import NetworkShape, draw_network


def test_the_same_seed_gives_the_same_network_and_another_one_another() -> None:
    one, again, other = draw_network(9), draw_network(9), draw_network(10)
    for name in ("offsets", "src", "dst", "time"):
        assert np.array_equal(getattr(one, name), getattr(again, name))
    assert one.num_edges != other.num_edges


def test_reach_and_popularity_are_heavy_tailed_and_pairs_keep_coming() -> None:
    shape = NetworkShape.drawn(np.random.default_rng(4))
    graph = draw_network(4, shape)
    assert graph.num_windows == shape.days * 48
    pairs, first = np.unique(graph.src.astype(np.int64) << 32 | graph.dst, return_index=True)
    for ends in (pairs >> 32, pairs & 0xFFFFFFFF):
        degree = np.bincount(ends)
        degree = degree[degree > 0]
        assert degree.max() > 8 * np.median(degree)
    late = graph.window_of_edge()[first] >= graph.num_windows // 2
    assert 0.02 < late.mean() < 0.6
    assert (graph.src != graph.dst).all()
