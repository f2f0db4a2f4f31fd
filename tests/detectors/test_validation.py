"""Rounds are judged on windows that nothing was trained on."""

from __future__ import annotations

import numpy as np

from entente.config import DetectorOptions
from entente.detectors import create
from entente.detectors.base import GraphShape
from entente.detectors.validation import validate_later
from entente.federation.messages import ValidateReply, ValidateTask
from entente.federation.silo import Silo
from entente.graphs.temporal import TemporalGraph


def ring(windows: int, nodes: int = 12) -> TemporalGraph:
    """Every host reaches the next one in every window."""
    src = np.tile(np.arange(nodes, dtype=np.int32), windows)
    edges = len(src)
    return TemporalGraph(
        rows=np.arange(nodes, dtype=np.int32).reshape(-1, 1),
        table_size=nodes,
        start=0,
        width=10,
        offsets=np.arange(windows + 1, dtype=np.int64) * nodes,
        src=src,
        dst=(src + 1) % nodes,
        time=np.repeat(np.arange(windows, dtype=np.int64) * 10, nodes),
        weight=np.ones(edges, dtype=np.float32),
    )


def test_a_rule_that_knows_the_past_recognises_what_goes_on() -> None:
    rule = create(DetectorOptions(name="first-seen"), GraphShape(12), 0)
    graph = ring(6)
    found = validate_later(rule, graph.windows(0, 4), graph.windows(4), np.random.default_rng(0))
    assert found.edges == 24
    assert found.auc > 0.95


def test_without_later_edges_there_is_nothing_to_say() -> None:
    rule = create(DetectorOptions(name="first-seen"), GraphShape(12), 0)
    graph = ring(4)
    assert validate_later(rule, graph, graph.windows(4), np.random.default_rng(0)).edges == 0


def test_a_silo_validates_on_later_windows_where_they_have_enough_edges() -> None:
    graph = ring(14)
    rule = create(DetectorOptions(name="first-seen"), GraphShape(12), 0)
    for later, edges in ((graph.windows(4), 120), (graph.windows(4, 6), None), (None, None)):
        reply = Silo("a", rule, graph.windows(0, 4), 12, 0, later).handle(ValidateTask(1, round=1))
        alone = rule.validate(graph.windows(0, 4), np.random.default_rng(0)).edges
        assert isinstance(reply, ValidateReply)
        assert reply.edges == (alone if edges is None else edges)
