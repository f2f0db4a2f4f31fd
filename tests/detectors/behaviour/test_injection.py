"""Campaigns: where they may be drawn, what they look like, and that the history itself is left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from entente.detectors.behaviour.injection.campaigns import Recipe
from entente.detectors.behaviour.injection.replica import WORK, Injector
from entente.detectors.behaviour.memory import pair_keys
from entente.graphs.context import NOTHING

from .graphs import graph_of, history, with_context


@pytest.fixture(scope="module")
def graph() -> Any:
    return history(120, nodes=60, edges=30, seed=4)


def test_the_silos_own_edges_are_all_there_and_unchanged(graph: Any) -> None:
    replica = Injector(graph, 48, Recipe(work=False)).draw(np.random.default_rng(0))
    own = replica.graph.select(replica.campaign == 0)
    assert np.array_equal(own.src, graph.src)
    assert np.array_equal(own.dst, graph.dst)
    assert np.array_equal(own.offsets, graph.offsets)


def test_campaigns_keep_to_their_windows_and_to_pairs_that_the_silo_does_not_have(graph: Any) -> None:
    known = set(pair_keys(graph.src, graph.dst).tolist())
    for seed in range(5):
        replica = Injector(graph, 48).draw(np.random.default_rng(seed))
        injected = replica.campaign > 0
        assert injected.any()
        assert replica.graph.window_of_edge()[injected].min() >= 48
        keys = pair_keys(replica.graph.src, replica.graph.dst)[injected]
        assert known.isdisjoint(keys.tolist())
        assert (replica.graph.src != replica.graph.dst).all()


def test_a_replica_is_a_proper_graph_with_no_pair_twice_in_a_window(graph: Any) -> None:
    replica = Injector(graph, 48).draw(np.random.default_rng(3)).graph
    window = replica.window_of_edge()
    order = np.lexsort((replica.dst, replica.src, window))
    assert np.array_equal(order, np.arange(replica.num_edges))
    rows = np.column_stack((window, replica.src, replica.dst))
    assert len(np.unique(rows, axis=0)) == len(rows)


def test_campaigns_are_small_and_large_quick_and_slow(graph: Any) -> None:
    sizes, spans, sources = [], [], []
    for seed in range(30):
        replica = Injector(graph, 48).draw(np.random.default_rng(seed))
        window = replica.graph.window_of_edge()
        for number in range(1, int(replica.campaign.max()) + 1):
            chosen = replica.campaign == number
            if chosen.any():
                sizes.append(int(chosen.sum()))
                spans.append(int(window[chosen].max() - window[chosen].min()))
                sources.append(len(np.unique(replica.graph.src[chosen])))
    assert min(sizes) <= 3
    assert max(sizes) >= 20
    assert min(spans) == 0
    assert max(spans) > 48
    assert 0.1 < np.mean(np.array(sources) > 1) < 0.9


@pytest.mark.parametrize("more", [{"slow": 0.0}, {"slow_pivots": (0.0, 0.0)}], ids=["quick", "both"])
def test_a_recipe_without_pivots_has_one_source_per_campaign(more: dict[str, Any], graph: Any) -> None:
    recipe = Recipe(pivots=(0.0,), **more)
    replica = Injector(graph, 48, recipe).draw(np.random.default_rng(1))
    for number in range(1, int(replica.campaign.max()) + 1):
        assert len(np.unique(replica.graph.src[replica.campaign == number])) <= 1


def test_the_same_generator_draws_the_same_campaigns(graph: Any) -> None:
    one, two = (Injector(graph, 48).draw(np.random.default_rng(7)) for _ in range(2))
    assert np.array_equal(one.campaign, two.campaign)
    assert np.array_equal(one.graph.dst, two.graph.dst)


def test_a_history_too_small_for_a_campaign_stays_as_it_is() -> None:
    tiny = graph_of([(0, 0, 1), (3, 1, 2)], 4, 3)
    replica = Injector(tiny, 2).draw(np.random.default_rng(0))
    assert replica.graph.num_edges == 2
    assert not replica.campaign.any()


def test_benign_work_is_everyday_traffic_of_the_whole_history(graph: Any) -> None:
    injector = Injector(graph, 48)
    replicas = [injector.draw(np.random.default_rng(seed)) for seed in range(12)]
    added = [int((replica.campaign == WORK).sum()) for replica in replicas]
    assert min(added) == 0  # some companies have none of it
    assert max(added) > 50
    busiest = replicas[int(np.argmax(added))]
    known = np.isin(pair_keys(busiest.graph.src, busiest.graph.dst), injector.history.known)
    early = busiest.graph.window_of_edge() < 48
    assert (~known & early & (busiest.campaign == WORK)).any()


def test_campaigns_and_work_act_under_accounts_where_the_log_has_them(graph: Any) -> None:
    injector = Injector(with_context(graph), 48)
    contexts = [injector.draw(np.random.default_rng(seed)).graph.context for seed in range(20)]
    hidden = [context is None or context.user is None for context in contexts]
    assert 2 <= sum(hidden) <= 16
    for context in contexts:
        assert context is not None
        if context.user is not None:
            assert (context.user.top[:, 0] != NOTHING).mean() > 0.85
            assert any("stranger" in str(name) for name in context.user.values[-1:])
        if context.failures is not None:
            assert (context.failures > 0).any()


def test_a_history_without_accounts_gets_none(graph: Any) -> None:
    assert Injector(graph, 48).draw(np.random.default_rng(0)).graph.context is None
