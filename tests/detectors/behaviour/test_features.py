"""Features against the plain oracle; memory that can be cut anywhere and does not grow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from entente.detectors.behaviour import beside
from entente.detectors.behaviour.features import NAMES, RANGE, describe, scaled
from entente.detectors.behaviour.memory import Memory
from entente.errors import DetectorError

from .graphs import HALF_HOUR, graph_of, history, with_context
from .oracle import Oracle, table


def described(graph: Any, state: Any = None) -> Any:
    memory = Memory(Memory.empty(graph.num_nodes) if state is None else state, graph)
    raw, _ = describe(memory, graph)
    return raw, memory.state()


@pytest.mark.parametrize("seed", range(4))
def test_every_feature_is_what_the_plain_oracle_says(seed: Any) -> None:
    graph = history(60, nodes=12, edges=6, novelty=0.5, seed=seed)
    graph = with_context(graph, seed) if seed % 2 else graph
    raw, _ = described(graph)
    expected = table(Oracle().describe(graph), NAMES)
    for column, name in enumerate(NAMES):
        np.testing.assert_allclose(raw[:, column], expected[:, column], rtol=2e-4, atol=2e-4, err_msg=name)


@pytest.mark.parametrize("most", [1, 700, 1_000_000])
def test_replicas_side_by_side_have_the_bits_of_each_alone(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "MOST_EDGES", most)
    graphs = [history(60, nodes=14, edges=7, novelty=1.5, seed=seed) for seed in range(5)]
    graphs[1], graphs[2] = with_context(graphs[1], 1), with_context(graphs[2], 2)
    graphs[3] = graph_of([(5, 1, 2)], 60, 14)  # next to nothing
    for graph, raw in zip(graphs, beside.describe_each(graphs), strict=True):
        np.testing.assert_array_equal(raw, described(graph)[0])


def test_large_bursts_of_the_silo_are_counted_as_the_oracle_says() -> None:
    rows = [(t, t % 3, 3 + (t * 7 + i) % 40) for t in range(0, 48, 4) for i in range(12 if t % 8 else 2)]
    graph = graph_of(rows, 50, 44)
    raw, _ = described(graph)
    expected = table(Oracle().describe(graph), NAMES)
    assert raw[:, NAMES.index("silo_sudden")].max() > 0
    np.testing.assert_allclose(raw, expected, rtol=2e-4, atol=2e-4)


def test_a_wider_window_is_described_as_the_oracle_says() -> None:
    graph = history(40, nodes=10, edges=5, novelty=0.3, seed=9, width=3 * HALF_HOUR)
    expected = table(Oracle().describe(graph), NAMES)
    np.testing.assert_allclose(described(graph)[0], expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("cuts", [(7,), (1, 2, 30), (13, 14, 15, 40)])
def test_a_history_cut_anywhere_gives_the_same_bits(cuts: Any) -> None:
    graph = with_context(history(60, novelty=0.3, seed=2))
    whole, last = described(graph)
    state, parts, begin = Memory.empty(graph.num_nodes), [], 0
    for end in (*cuts, 60):
        raw, state = described(graph.windows(begin, end), state)
        parts.append(raw)
        begin = end
    assert np.array_equal(np.concatenate(parts), whole, equal_nan=True)
    assert state.keys() == last.keys()
    for name in last:
        assert np.array_equal(state[name], last[name]), name


def test_another_future_leaves_the_past_as_it_was() -> None:
    graph, other = history(60, novelty=0.3, seed=2), history(60, seed=3)
    rows: Any = np.column_stack((graph.window_of_edge(), graph.src, graph.dst))
    rows = np.concatenate(
        (
            rows[rows[:, 0] < 30],
            np.column_stack((other.window_of_edge(), other.src, other.dst))[other.window_of_edge() >= 30],
        )
    )
    mixed = graph_of(rows, 60, 20)
    past = int(graph.offsets[30])
    assert np.array_equal(described(graph)[0][:past], described(mixed)[0][:past], equal_nan=True)


def test_the_state_stays_flat_over_a_thousand_windows() -> None:
    graph = history(2700, nodes=40, edges=6, novelty=0.5, seed=1)
    sizes, state = [], Memory.empty(graph.num_nodes)
    for begin in range(0, 2700, 100):
        _, state = described(graph.windows(begin, begin + 100), state)
        sizes.append(sum(array.nbytes for array in state.values()))
    settled = sizes[16:]  # from 1,700 windows on, when the first pairs have been forgotten
    assert max(settled) < 1.1 * min(settled)


def test_a_pair_not_seen_for_a_month_is_new_again() -> None:
    rows = [(0, 0, 1), (1, 2, 3), (1 + 48 * 32, 0, 1), (1 + 48 * 32, 2, 3)] + [
        (t, 2, 3) for t in range(1, 1537, 40)
    ]
    raw, state = described(graph_of(rows, 1538, 4))
    last = raw[-2:]
    assert last[:, 0].tolist() == [1.0, 0.0]
    assert state["targets"].tolist() == [1, 0, 1, 0]


def test_scaled_features_are_finite_and_bounded() -> None:
    raw, _ = described(history(30, seed=5))
    assert np.isfinite(scaled(raw)).all()
    assert np.abs(scaled(raw)).max() <= RANGE


def test_a_state_of_other_windows_is_refused() -> None:
    _, state = described(history(5))
    with pytest.raises(DetectorError, match="windows of 1800 s"):
        Memory(state, history(5, width=HALF_HOUR // 2))
