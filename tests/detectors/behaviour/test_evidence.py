"""The evidence baselines, which share the behaviour detector's memory."""

from __future__ import annotations

from typing import Any

import pytest

from entente.config import detector_options
from entente.detectors import create
from entente.detectors.base import GraphShape

from .graphs import graph_of


def scores(name: Any, graph: Any) -> Any:
    detector = create(detector_options({"name": name}), GraphShape(16), 0)
    return detector.score(graph, detector.initial_state(graph))[0]


@pytest.mark.parametrize("name", ["evidence", "evidence-young"])
def test_a_source_that_suddenly_reaches_out_ranks_above_one_that_always_does(name: Any) -> None:
    rows = [(t, 0, 10 + t) for t in range(100)]  # host 0 turns to another new host every half hour, as ever
    rows += [(t, 1, 2) for t in range(120)]
    rows += [(t, 1, 120 + t - 96) for t in range(96, 100)]
    graph = graph_of(rows, 120, 130)
    found, window = scores(name, graph), graph.window_of_edge()
    late = (window >= 97) & (window < 100)
    sudden = found[late & (graph.src == 1) & (graph.dst >= 120)]
    usual = found[late & (graph.src == 0)]
    known = found[(window > 110) & (graph.src == 1)]
    assert sudden.min() > usual.max() > known.max()


def test_a_visit_repeated_two_hours_later_is_no_new_pair_and_still_young() -> None:
    graph = graph_of([(t, 0, 1) for t in range(60)] + [(50, 0, 5), (54, 0, 5)], 60, 6)
    again = (graph.window_of_edge() == 54) & (graph.dst == 5)
    assert scores("evidence", graph)[again][0] < 1 < scores("evidence-young", graph)[again][0]
