"""A rule beside a model changes what is scored, and nothing that is trained or sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from entente.config import Euler as EulerConfig
from entente.config import Jbeil as JbeilConfig
from entente.config import Rule
from entente.detectors import create
from entente.detectors.base import GraphShape
from entente.detectors.beside import Beside
from entente.graphs.temporal import TemporalGraph

SMALL: list[Any] = [
    EulerConfig(hidden=6, embedding=4),
    JbeilConfig(memory=6, time=4, embedding=6, batch=16, neighbours=3, layers=1),
]
SHAPE = GraphShape(table_size=8)


def habit(merged: bool) -> TemporalGraph:
    """Hosts 0 and 1 talk in every window; 2 calls 3 in the last one alone."""
    src, dst = np.array([0] * 6 + [2], np.int32), np.array([1] * 6 + [3], np.int32)
    return TemporalGraph(
        rows=np.arange(8, dtype=np.int32)[:, None],
        table_size=8,
        start=0,
        width=10,
        offsets=np.array([0, 1, 2, 3, 4, 5, 7]),
        src=src,
        dst=dst,
        time=np.array([0, 10, 20, 30, 40, 50, 55]),
        weight=np.ones(7, dtype=np.float32),
        merged=merged,
    )


@pytest.fixture(params=SMALL, ids=lambda config: config.name)
def beside(request: pytest.FixtureRequest) -> Beside:
    return Beside(create(request.param, SHAPE, 0), create(Rule(name="rare-target"), SHAPE, 0))


def test_a_score_is_the_models_surprise_times_the_rules_score(beside: Beside) -> None:
    graph = habit(beside.model.merged)
    scores, _ = beside.score(graph, beside.initial_state(graph))
    anomaly, _ = beside.model.score(graph, beside.model.initial_state(graph))
    rarity, _ = beside.rule.score(graph, beside.rule.initial_state(graph))
    assert scores == pytest.approx(-np.log(1 - anomaly.astype(float)) * rarity, rel=1e-5)
    # What happens every day counts for less, whatever the model says.
    assert rarity[-1] > 1 > 0.3 > rarity[-2]


def test_an_edge_that_the_model_rules_out_has_a_finite_score(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = habit(beside.model.merged)
    certain = np.ones(graph.num_edges, dtype=np.float32)
    monkeypatch.setattr(beside.model, "score", lambda graph, state, candidates: (certain, state))
    assert np.isfinite(beside.score(graph, beside.initial_state(graph))[0]).all()


def test_windows_scored_in_two_calls_are_those_scored_in_one(beside: Beside) -> None:
    graph = habit(beside.model.merged)
    whole, after = beside.score(graph, beside.initial_state(graph))
    first, state = beside.score(graph.windows(0, 3), beside.initial_state(graph))
    second, end = beside.score(graph.windows(3), state)
    assert np.concatenate((first, second)) == pytest.approx(whole, abs=1e-5)
    assert set(end) == set(after)


def test_training_and_weights_are_the_models_own(beside: Beside) -> None:
    graph = habit(beside.model.merged)
    alone = create(beside.config, SHAPE, 0)
    for detector in (beside, alone):
        detector.train(graph, 2, np.random.default_rng(0))
    assert beside.components == alone.components
    assert beside.identity_tables == alone.identity_tables
    for name, array in alone.weights().items():
        assert np.array_equal(array, beside.weights()[name])
