"""A baseline with a model changes what is scored, and nothing that is trained or sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from entente.config import DetectorOptions
from entente.detectors import create
from entente.detectors.base import GraphShape
from entente.detectors.ensemble import Ensemble
from entente.detectors.euler.options import EulerOptions
from entente.graphs.temporal import TemporalGraph
from entente_lab.variants.jbeil import LabJbeilOptions

SMALL: list[Any] = [
    EulerOptions(hidden=6, embedding=4),
    LabJbeilOptions(memory=6, time=4, embedding=6, batch=16, neighbours=3, layers=1),
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
def ensemble(request: pytest.FixtureRequest) -> Ensemble:
    return Ensemble(create(request.param, SHAPE, 0), create(DetectorOptions(name="rare-target"), SHAPE, 0))


def test_a_score_is_the_models_surprise_times_the_rules_score(ensemble: Ensemble) -> None:
    graph = habit(ensemble.model.merged)
    scores, _ = ensemble.score(graph, ensemble.initial_state(graph))
    anomaly, _ = ensemble.model.score(graph, ensemble.model.initial_state(graph))
    rarity, _ = ensemble.baseline.score(graph, ensemble.baseline.initial_state(graph))
    assert scores == pytest.approx(-np.log(1 - anomaly.astype(float)) * rarity, rel=1e-5)
    # What happens every day counts for less, whatever the model says.
    assert rarity[-1] > 1 > 0.3 > rarity[-2]


def test_an_edge_that_the_model_rules_out_has_a_finite_score(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = habit(ensemble.model.merged)
    certain = np.ones(graph.num_edges, dtype=np.float32)
    monkeypatch.setattr(ensemble.model, "score", lambda graph, state, candidates: (certain, state))
    assert np.isfinite(ensemble.score(graph, ensemble.initial_state(graph))[0]).all()


def test_windows_scored_in_two_calls_are_those_scored_in_one(ensemble: Ensemble) -> None:
    graph = habit(ensemble.model.merged)
    whole, after = ensemble.score(graph, ensemble.initial_state(graph))
    first, state = ensemble.score(graph.windows(0, 3), ensemble.initial_state(graph))
    second, end = ensemble.score(graph.windows(3), state)
    assert np.concatenate((first, second)) == pytest.approx(whole, abs=1e-5)
    assert set(end) == set(after)


def test_training_and_weights_are_the_models_own(ensemble: Ensemble) -> None:
    graph = habit(ensemble.model.merged)
    alone = create(ensemble.config, SHAPE, 0)
    for detector in (ensemble, alone):
        detector.train(graph, 2, np.random.default_rng(0))
    assert ensemble.components == alone.components
    assert ensemble.identity_tables == alone.identity_tables
    for name, array in alone.weights().items():
        assert np.array_equal(array, ensemble.weights()[name])
