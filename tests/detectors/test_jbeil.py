"""Jbeil as a detector: hiding, how logs are cut, and that it learns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from entente.detectors.base import Candidates, GraphShape
from entente.detectors.jbeil.detector import Jbeil, hidden_hosts
from entente.errors import DetectorError
from entente.graphs.temporal import TemporalGraph
from entente_lab.variants.jbeil import LabJbeilOptions

WIDTH = 50_000_000


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def habits(events: int = 1200, hosts: int = 30, windows: int = 12, seed: int = 0) -> TemporalGraph:
    """Hosts call one of four servers, now and then any other host."""
    rng = np.random.default_rng(seed)
    src = rng.integers(4, hosts, events)
    dst = np.where(rng.random(events) < 0.8, rng.integers(0, 4, events), (src + 1) % hosts)
    time = np.sort(rng.integers(0, windows * WIDTH, events))
    return TemporalGraph(
        rows=rng.permutation(64)[:hosts].astype(np.int32)[:, None],
        table_size=64,
        start=0,
        width=WIDTH,
        offsets=np.searchsorted(time, np.arange(windows + 1) * WIDTH).astype(np.int64),
        src=src.astype(np.int32),
        dst=dst.astype(np.int32),
        time=time,
        weight=np.ones(events, dtype=np.float32),
        merged=False,
    )


def detector(**changes: Any) -> Jbeil:
    small = {"memory": 16, "time": 8, "embedding": 16, "neighbours": 5, "batch": 50, "lr": 0.01, "layers": 1}
    return Jbeil(LabJbeilOptions(**(small | changes)), GraphShape(64), 0)


def test_it_learns_who_is_called() -> None:
    one, graph = detector(), habits()
    before = one.validate(graph, np.random.default_rng(0))
    one.train(graph, 6, np.random.default_rng(1))
    after = one.validate(graph, np.random.default_rng(0))
    assert after.ap > max(0.7, before.ap + 0.1)
    scores, state = one.score(graph.windows(0, 11), one.initial_state(graph))
    last = graph.windows(11)
    far = Candidates(last.window_of_edge(), last.src, 4 + (last.src + 9) % 26, last.time)
    assert one.score(last, state, far)[0].mean() > one.score(last, state)[0].mean() + 0.3
    assert len(scores) == graph.windows(0, 11).num_edges


def test_two_silos_hide_the_same_hosts() -> None:
    graph = habits()
    order = np.random.default_rng(3).permutation(graph.num_nodes)
    other = replace(graph, rows=graph.rows[order])
    hidden = hidden_hosts(graph, 0.3)
    np.testing.assert_array_equal(hidden[order], hidden_hosts(other, 0.3))
    wide = replace(graph, rows=np.arange(50_000, dtype=np.int32)[:, None], table_size=50_000)
    assert hidden_hosts(wide, 0.3).mean() == pytest.approx(0.3, abs=0.01)
    assert not hidden_hosts(wide, 0.0).any()


def test_events_of_hidden_hosts_leave_no_trace_in_the_weights() -> None:
    graph = habits()
    hidden = hidden_hosts(graph, 0.3)
    touched = hidden[graph.src] | hidden[graph.dst]
    assert touched.any()
    altered = replace(graph, time=graph.time.copy(), src=graph.src.copy())
    seen = np.flatnonzero(hidden)
    altered.src[touched] = np.where(hidden[altered.src[touched]], seen[0], altered.src[touched])
    runs = []
    for data in (graph, altered):
        one = detector(hidden_hosts=0.3)
        training = one.train(data, 1, np.random.default_rng(0))
        assert training.edges < 0.85 * graph.num_edges
        runs.append(one.weights())
    for name, values in runs[0].items():
        np.testing.assert_array_equal(values, runs[1][name])


def test_hidden_hosts_are_left_out_of_validation() -> None:
    one, graph = detector(hidden_hosts=0.3), habits()
    one.train(graph, 2, np.random.default_rng(0))
    seen = one.validate(graph, np.random.default_rng(0))
    assert 0 < seen.edges < 0.15 * graph.num_edges


@pytest.mark.parametrize("layers", [1, 2])
def test_candidates_at_an_events_moment_score_as_the_event(layers: int) -> None:
    one, graph = detector(layers=layers), habits(400)
    one.train(graph, 1, np.random.default_rng(0))
    own, after = one.score(graph, one.initial_state(graph))
    asked = Candidates(graph.window_of_edge(), graph.src, graph.dst, graph.time)
    found, again = one.score(graph, one.initial_state(graph), asked)
    np.testing.assert_allclose(found, own, atol=1e-6)
    for name, values in after.items():
        np.testing.assert_allclose(values, again[name], atol=1e-6)


def test_without_a_moment_a_candidate_is_asked_at_its_windows_end() -> None:
    one, graph = detector(), habits(400)
    window = np.arange(graph.num_windows)
    pairs = np.full(len(window), 3, np.int32), np.full(len(window), 4, np.int32)
    ends = (window + 1) * WIDTH
    first, _ = one.score(graph, one.initial_state(graph), Candidates(window, *pairs))
    second, _ = one.score(graph, one.initial_state(graph), Candidates(window, *pairs, ends))
    np.testing.assert_array_equal(first, second)


def test_a_state_of_other_settings_is_refused() -> None:
    graph = habits(50)
    state = detector(memory=8).initial_state(graph)
    with pytest.raises(DetectorError, match="state"):
        detector().score(graph, state)
    with pytest.raises(DetectorError, match="state"):
        detector().score(graph, detector(neighbours=2).initial_state(graph))


def test_events_of_a_merged_graph_are_taken_in_order_of_time() -> None:
    one, graph = detector(), habits(400)
    order = np.lexsort((graph.dst, graph.src, graph.window_of_edge()))
    shuffled = replace(graph, src=graph.src[order], dst=graph.dst[order], time=graph.time[order])
    plain, _ = one.score(graph, one.initial_state(graph))
    found, _ = one.score(shuffled, one.initial_state(graph))
    np.testing.assert_allclose(found, plain[order], atol=1e-6)


def test_an_optimiser_that_has_not_met_all_weights_yet_can_be_taken_up_again() -> None:
    """No memory is updated in a first batch, so that Adam knows nothing of the GRU."""
    graph = habits(events=40)
    first, second = (detector(batch=200) for _ in range(2))
    first.train(graph, 1, np.random.default_rng(0))
    state = first.optimiser_state()
    assert not any("memory.cell" in name for name in state)
    second.load_optimiser_state(state)
    assert second.optimiser_state().keys() == state.keys()
    del state[next(name for name in state if name.startswith("exp_avg."))]
    with pytest.raises(DetectorError, match="missing"):
        second.load_optimiser_state(state)
