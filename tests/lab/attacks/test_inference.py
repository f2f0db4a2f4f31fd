"""Observers of one update: certain where rows give hosts away, guessing where there is nothing to see."""

from __future__ import annotations

import numpy as np

from entente.artifacts import Arrays
from entente_lab.attacks.inversion import edges_by_rows, examples_by_gradient, hosts_by_rows
from entente_lab.attacks.membership import Halves, Sighting, by_rows, by_score

from .conftest import detector, random_graph

TABLE = ("rows",)


def moved_rows(rows: np.ndarray, table_size: int) -> Sighting:
    """A round in which exactly these identity rows moved."""
    before: Arrays = {"rows": np.zeros((table_size, 3), dtype=np.float32)}
    after = before["rows"].copy()
    after[rows.reshape(-1)] = 1.0
    return Sighting(before, {"rows": after})


def test_halves_are_cut_by_pair_and_hold_every_edge() -> None:
    graph = random_graph(6)
    halves = Halves.of(graph, np.random.default_rng(1))
    assert halves.trained.num_edges == int(halves.member[halves.pair].sum())
    assert 0 < halves.trained.num_edges < graph.num_edges
    assert halves.auc(halves.member[halves.pair].astype(np.float64)) == 1.0
    assert halves.auc(np.ones(graph.num_edges)) == 0.5


def test_rows_that_moved_give_the_silos_hosts_away() -> None:
    graph = random_graph(6)
    own = np.zeros(graph.num_nodes, dtype=bool)
    own[:5] = True
    seen = moved_rows(graph.rows[:5], graph.table_size)
    assert hosts_by_rows(seen, TABLE, graph.rows, own) == 1.0
    still = moved_rows(graph.rows[:0], graph.table_size)
    assert hosts_by_rows(still, TABLE, graph.rows, own) == 0.5


def test_hosts_that_are_pulled_the_same_way_are_taken_for_connected() -> None:
    graph = random_graph(6)
    rng = np.random.default_rng(2)
    assert edges_by_rows(moved_rows(graph.rows, graph.table_size), TABLE, graph, graph.rows, rng) == 0.5


def test_without_identity_rows_there_is_nothing_to_read() -> None:
    graph, seen = random_graph(6), Sighting({}, {})
    halves = Halves.of(graph, np.random.default_rng(1))
    assert by_rows(seen, (), halves) is None
    assert hosts_by_rows(seen, (), graph.rows, np.ones(graph.num_nodes, dtype=bool)) is None
    assert edges_by_rows(seen, (), graph, graph.rows, np.random.default_rng(1)) is None


def test_a_model_that_did_not_move_says_nothing_about_pairs() -> None:
    watched = detector()
    halves = Halves.of(random_graph(6), np.random.default_rng(1))
    assert by_score(watched, Sighting(watched.weights(), watched.weights()), halves) == 0.5


def test_a_step_on_one_example_spells_the_example_out() -> None:
    rng = np.random.default_rng(4)
    members, others = rng.standard_normal((2, 1, 6)).astype(np.float32)
    pull = np.array([[0.5], [-0.25]], dtype=np.float32)
    before = {"first.weight": np.zeros((2, 6), np.float32), "first.bias": np.zeros(2, np.float32)}
    after = {"first.weight": pull * members, "first.bias": pull[:, 0]}
    assert examples_by_gradient(Sighting(before, after), "first", members, others, rng) == 1.0
    assert examples_by_gradient(Sighting(before, before), "first", members, others, rng) is None
