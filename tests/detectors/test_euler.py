"""What Euler promises beyond the common contract."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from entente.config import detector_options
from entente.detectors import create
from entente.detectors.base import Candidates, GraphShape
from entente.detectors.euler import detector as euler_module
from entente.detectors.euler.detector import Euler
from entente.detectors.neural import chosen_device
from entente.errors import DetectorError
from entente.graphs.sampling import held_out
from entente.graphs.temporal import TemporalGraph
from entente_lab.variants.euler import LabEulerOptions


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def communities(nodes: int = 24, windows: int = 6, seed: int = 0) -> TemporalGraph:
    """Two groups of hosts that only call within their group, each host mostly the same targets."""
    rng = np.random.default_rng(seed)
    edges = []
    for t in range(windows):
        for src in range(nodes):
            for step in (1, 2, 3):
                if rng.random() < 0.8:
                    half = nodes // 2
                    edges.append((t, src, (src + step) % half + (half if src >= half else 0)))
    triples = np.unique(np.array([edge for edge in edges if edge[1] != edge[2]]), axis=0)
    return TemporalGraph(
        rows=np.arange(nodes, dtype=np.int32)[:, None],
        table_size=nodes,
        start=0,
        width=10,
        offsets=np.searchsorted(triples[:, 0], np.arange(windows + 1)).astype(np.int64),
        src=triples[:, 1].astype(np.int32),
        dst=triples[:, 2].astype(np.int32),
        time=triples[:, 0].astype(np.int64) * 10,
        weight=np.ones(len(triples), dtype=np.float32),
    )


def build(graph: TemporalGraph, **settings: object) -> Euler:
    config = LabEulerOptions.model_validate({"lr": 0.02} | settings)
    return Euler(config, GraphShape(graph.table_size), 0)


@pytest.mark.parametrize("task", ["detection", "prediction"])
def test_it_learns_who_calls_whom(task: str) -> None:
    graph = communities()
    detector = build(graph, task=task)
    detector.train(graph, 150, np.random.default_rng(0))
    assert detector.validate(graph, np.random.default_rng(1)).auc > 0.85
    within, _ = detector.score(graph, detector.initial_state(graph))
    late = graph.window_of_edge() == 5
    strangers = Candidates(np.full(12, 5), np.arange(12, dtype=np.int32), np.arange(12, 24, dtype=np.int32))
    across, _ = detector.score(graph, detector.initial_state(graph), strangers)
    assert np.median(across) > np.median(within[late]) + 0.2


def test_held_out_edges_reach_neither_encoder_nor_loss() -> None:
    graph = communities()
    share = LabEulerOptions().validation_edges
    held = held_out(graph, share)
    assert held.any()
    heavier = replace(graph, weight=np.where(held, 50, 1).astype(np.float32))
    one, two = build(graph), build(graph)
    one.train(graph, 5, np.random.default_rng(0))
    two.train(heavier, 5, np.random.default_rng(0))
    assert all(np.array_equal(one.weights()[name], two.weights()[name]) for name in one.weights())


def test_edge_weights_count_for_every_graph_layer() -> None:
    graph = communities()
    heavier = replace(graph, weight=(1 + np.arange(graph.num_edges) % 40).astype(np.float32))
    for encoder in ("gcn", "sage", "gat"):
        detector = build(graph, encoder=encoder)
        detector.train(heavier, 10, np.random.default_rng(0))
        plain, _ = detector.score(graph, detector.initial_state(graph))
        weighted, _ = detector.score(heavier, detector.initial_state(graph))
        assert not np.allclose(plain, weighted)


def test_prediction_does_not_look_at_the_window_it_scores() -> None:
    graph = communities()
    detector = build(graph, task="prediction")
    detector.train(graph, 20, np.random.default_rng(0))
    asked = Candidates(np.full(3, 5), np.array([0, 1, 2], np.int32), np.array([5, 6, 7], np.int32))
    without = graph.select(graph.window_of_edge() < 5)
    one, _ = detector.score(graph, detector.initial_state(graph), asked)
    two, _ = detector.score(without, detector.initial_state(graph), asked)
    assert np.array_equal(one, two)


def test_scores_do_not_hang_on_how_many_windows_are_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = communities()
    for task in ("detection", "prediction"):
        detector = build(graph, task=task)
        whole, _ = detector.score(graph, detector.initial_state(graph))
        monkeypatch.setattr(euler_module, "ROWS_AT_ONCE", 50)
        parts, _ = detector.score(graph, detector.initial_state(graph))
        monkeypatch.undo()
        assert np.allclose(whole, parts, atol=1e-6)


def test_training_is_the_same_under_deterministic_algorithms_and_with_two_threads() -> None:
    graph = communities(nodes=60)
    results = []
    for deterministic, threads in ((False, 1), (True, 1), (False, 2)):
        torch.use_deterministic_algorithms(deterministic)
        torch.set_num_threads(threads)
        detector = build(graph, encoder="gcn")
        detector.train(graph, 4, np.random.default_rng(0))
        results.append(detector.weights())
    torch.use_deterministic_algorithms(False)
    for other in results[1:]:
        assert all(np.array_equal(results[0][name], other[name]) for name in other)


def test_edge_dropout_hides_edges_from_the_encoder_but_not_from_the_loss() -> None:
    graph = communities()
    detector = build(graph, edge_dropout=0.8)
    assert detector.train(graph, 2, np.random.default_rng(0)).edges > 0.9 * graph.num_edges
    plain = build(graph)
    plain.train(graph, 2, np.random.default_rng(0))
    assert any(not np.array_equal(plain.weights()[n], detector.weights()[n]) for n in plain.weights())


def test_a_graph_of_another_identity_table_is_refused() -> None:
    graph = communities()
    with pytest.raises(DetectorError, match="identity row"):
        Euler(LabEulerOptions(), GraphShape(99), 0).train(graph, 1, np.random.default_rng(0))


def test_a_state_of_more_hosts_than_the_graph_has_is_refused() -> None:
    graph = communities()
    detector = build(graph)
    state = {"hidden": np.zeros((99, 32), np.float32)}
    with pytest.raises(DetectorError, match="99 hosts"):
        detector.score(graph, state)


def test_fixed_identities_are_the_same_everywhere_and_never_sent() -> None:
    graph = communities()
    here, there = (build(graph, identities="fixed") for _ in range(2))
    assert here.identity_tables == ()
    assert not any(graph.table_size in array.shape for array in here.weights().values())
    here.train(graph, 3, np.random.default_rng(0))
    there.load_weights(here.weights())
    first, second = (d.score(graph, d.initial_state(graph))[0] for d in (here, there))
    assert np.array_equal(first, second)
    assert here.module.encoder.first.map.weight.norm(dim=1).numpy() == pytest.approx(1.0)


def test_a_gpu_that_is_not_there_is_refused_and_auto_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert chosen_device("auto") == chosen_device("cpu") == torch.device("cpu")
    with pytest.raises(DetectorError, match='device = "cuda"') as refused:
        create(detector_options({"name": "euler", "device": "cuda"}), GraphShape(8), 0)
    assert "auto" in (refused.value.remedy or "")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ["euler", "jbeil"])
def test_training_on_a_gpu_ends_close_to_that_on_the_processor(name: str) -> None:
    graph = replace(communities(), merged=name == "euler")
    shape = GraphShape(graph.table_size, graph.rows.shape[1])
    found = []
    for device in ("cpu", "cuda"):
        one = create(detector_options({"name": name, "device": device}), shape, 1)
        one.train(graph, 1, np.random.default_rng(1))
        found.append(one.score(graph, one.initial_state(graph))[0])
    np.testing.assert_allclose(found[0], found[1], atol=1e-3)
