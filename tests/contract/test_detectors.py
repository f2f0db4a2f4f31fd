"""One set of checks over every detector, in every variant that has code of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from entente.config import DetectorOptions, detector_options
from entente.contracts.base import Check
from entente.contracts.detectors import CHECKS, DetectorCase, random_graph
from entente.detectors import available, create
from entente.detectors.base import Detector, GraphShape
from entente.detectors.euler.detector import Euler
from entente.errors import DetectorError, UsageError
from entente.graphs.temporal import NOBODY, TemporalGraph

SMALL: dict[str, dict[str, Any]] = {
    "euler": {"hidden": 6, "embedding": 4},
    "lab-euler": {"hidden": 6, "embedding": 4, "validation_edges": 0.2},
    "jbeil": {"memory": 6, "embedding": 6, "batch": 16, "neighbours": 3},
    "lab-jbeil": {"memory": 6, "time": 4, "embedding": 6, "batch": 16, "neighbours": 3, "layers": 1},
}
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "lab-euler": [
        {"task": "prediction"},
        {"encoder": "sage", "temporal": "lstm", "decoder": "mlp"},
        {"encoder": "gat", "temporal": "none", "decoder": "mlp", "task": "prediction"},
        {"encoder": "sage", "identities": "fixed"},
        {"encoder": "sage", "identities": "local"},
    ],
    "lab-jbeil": [{}, {"hidden_hosts": 0.3}],
    "edgebank": [{}, {"memory": 20.0}],
}
CASES = [{"name": name, **variant} for name in available() for variant in VARIANTS.get(name, [{}])]


def build(case: dict[str, Any], seed: int = 0) -> Detector:
    settings = SMALL.get(case["name"], {}) | case
    return create(detector_options(settings), GraphShape(table_size=32), seed)


def graph_for(detector: Detector) -> TemporalGraph:
    return random_graph(merged=detector.merged)


def label(case: dict[str, Any]) -> str:
    return "-".join(str(value) for value in case.values())


@pytest.fixture(params=CASES, ids=label)
def case(request: pytest.FixtureRequest) -> dict[str, Any]:
    chosen: dict[str, Any] = request.param
    return chosen


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.claim)
def test_every_claim_of_the_contract_holds(case: dict[str, Any], check: Check) -> None:
    check.run(DetectorCase(detector_options(SMALL.get(case["name"], {}) | case)))


@pytest.fixture
def detector(case: dict[str, Any]) -> Detector:
    """A detector that has been trained a little."""
    built = build(case)
    built.train(graph_for(built), 2, np.random.default_rng(1))
    return built


def test_a_newcomer_scores_the_same_whether_or_not_it_was_expected(detector: Detector) -> None:
    if isinstance(detector, Euler) and not detector.module.by_visit:
        pytest.skip("without visits Euler keeps every host's last embedding, and has none of a newcomer")
    graph = graph_for(detector)
    hosts = graph.num_nodes - 2
    late = (graph.window_of_edge() >= 3) | (np.maximum(graph.src, graph.dst) < hosts)
    graph = graph.select(late)
    assert (np.maximum(graph.src, graph.dst) >= hosts).any()
    whole, _ = detector.score(graph, detector.initial_state(graph))
    early = replace(graph.windows(0, 3), rows=graph.rows[:hosts])
    first, state = detector.score(early, detector.initial_state(early))
    rest, _ = detector.score(graph.windows(3), state)
    assert np.allclose(np.concatenate((first, rest)), whole, atol=1e-5)


def test_a_host_without_an_identity_row_is_one_whose_row_is_zero(detector: Detector) -> None:
    if isinstance(detector, Euler) and detector.config.identities == "fixed":
        pytest.skip("the rows are no weights, so that they cannot be set to zero")
    graph = graph_for(detector)
    unknown = replace(graph, rows=graph.rows.copy())
    unknown.rows[:3] = NOBODY
    scores, _ = detector.score(unknown, detector.initial_state(unknown))
    weights, own = detector.weights(), detector.own_weights()
    for tables, names in ((weights, detector.identity_tables), (own, tuple(own))):
        for name in names:
            tables[name][graph.rows[:3, 0]] = 0
    detector.load_weights(weights)
    detector.load_own_weights(own)
    expected, _ = detector.score(graph, detector.initial_state(graph))
    assert np.allclose(scores, expected, atol=1e-6)


def test_training_moves_every_component(case: dict[str, Any]) -> None:
    one = build(case)
    graph, before = graph_for(one), one.weights()
    one.train(graph, 3, np.random.default_rng(0))
    after = one.weights()
    for part, names in one.components.items():
        still = [name for name in names if np.array_equal(before[name], after[name])]
        assert not still, f"{part}: no gradient reaches {still}"


def test_fedprox_pulls_towards_the_weights_on_entry(case: dict[str, Any]) -> None:
    if not build(case).components:
        pytest.skip("has no weights")
    distance = {}
    for mu in (0.0, 100.0):
        one = build(case)
        entry = one.weights()
        one.train(graph_for(one), 8, np.random.default_rng(0), proximal=mu)
        distance[mu] = sum(float(((one.weights()[name] - entry[name]) ** 2).sum()) for name in entry)
    assert distance[100.0] < 0.9 * distance[0.0]


def test_not_a_number_is_refused_by_name(detector: Detector) -> None:
    if not detector.components:
        pytest.skip("counts, and never computes with the numbers it is given")
    graph = graph_for(detector)
    name, array = next(iter(detector.weights().items()))
    with pytest.raises(DetectorError, match="finite"):
        detector.load_weights(detector.weights() | {name: np.full_like(array, np.nan)})
    with pytest.raises(DetectorError, match="finite"):
        detector.train(replace(graph, weight=np.full_like(graph.weight, np.nan)), 1, np.random.default_rng(0))
    for name, array in detector.initial_state(graph).items():
        if array.dtype.kind == "f" and array.size:
            bad_state = detector.initial_state(graph) | {name: np.full_like(array, np.nan)}
            with pytest.raises(DetectorError, match="finite"):
                detector.score(graph, bad_state)


def test_an_unknown_detector_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="euler"):
        create(DetectorOptions(name="nobody"), GraphShape(4), 0)
