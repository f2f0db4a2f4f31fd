"""The Poisson factors: who belongs together is learnt, and a source's unusual window weighs more."""

from __future__ import annotations

import numpy as np

from entente.detectors import baseline
from entente.detectors.base import GraphShape

from .behaviour.graphs import graph_of


def two_departments(windows: int, *extra: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    """Hosts 0-9 talk among themselves, hosts 10-19 likewise, but not every pair has been seen."""
    rng = np.random.default_rng(0)
    rows = list(extra)
    for t in range(windows):
        for department in (0, 10):
            for _ in range(12):
                a, b = rng.choice(10, 2, replace=False) + department
                if (a + b) % 7:  # these pairs never meet
                    rows.append((t, int(a), int(b)))
    return rows


def scores_of(rows: list[tuple[int, int, int]], windows: int) -> dict[tuple[int, int, int], float]:
    graph = graph_of(rows, windows, 20)
    detector = baseline("poisson-factors", GraphShape(16))
    scores, _ = detector.score(graph, detector.initial_state(graph))
    keys = zip(graph.window_of_edge().tolist(), graph.src.tolist(), graph.dst.tolist(), strict=True)
    return dict(zip(keys, scores.tolist(), strict=True))


def test_a_new_pair_within_a_department_is_less_of_a_surprise_than_one_across() -> None:
    within, across = (100, 3, 4), (100, 5, 15)
    found = scores_of(two_departments(101, within, across), 101)
    assert found[across] > found[within] + 1.0


def test_the_same_contact_scores_higher_in_a_window_that_is_unusual_for_its_source() -> None:
    calm = scores_of(two_departments(101, (100, 5, 15)), 101)
    busy = scores_of(two_departments(101, *((100, 5, target) for target in range(11, 19))), 101)
    assert busy[100, 5, 15] > calm[100, 5, 15]
