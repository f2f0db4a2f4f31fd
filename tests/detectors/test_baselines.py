"""The rules against plain dictionaries, and what they promise about time and ties."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entente.config import detector_options
from entente.detectors import create
from entente.detectors.base import Candidates, Detector, GraphShape
from entente.detectors.baselines.base import TIE
from entente.errors import DetectorError
from entente.graphs.temporal import TemporalGraph

NAMES = ("first-seen", "pair-frequency", "rare-target", "novelty-burst", "edgebank", "midas")
WIDTH = 1_000_000


def random_graph(seed: int, nodes: int = 8, windows: int = 7, edges: int = 14) -> TemporalGraph:
    rng = np.random.default_rng(seed)
    parts = []
    for t in range(windows):
        pairs = np.unique(rng.integers(0, nodes * nodes, rng.integers(0, edges + 1)))
        pairs = pairs[pairs // nodes != pairs % nodes]
        parts.append((np.full(len(pairs), t), pairs // nodes, pairs % nodes))
    window, src, dst = (np.concatenate(column) for column in zip(*parts, strict=True))
    return TemporalGraph(
        rows=np.arange(nodes, dtype=np.int32)[:, None],
        table_size=nodes,
        start=5 * WIDTH,
        width=WIDTH,
        offsets=np.searchsorted(window, np.arange(windows + 1)).astype(np.int64),
        src=src.astype(np.int32),
        dst=dst.astype(np.int32),
        time=(5 * WIDTH + window * WIDTH + rng.integers(0, WIDTH, len(window))).astype(np.int64),
        weight=rng.integers(1, 5, len(window)).astype(np.float32),
    )


def rule(name: str, seed: int = 0, memory: float | None = None) -> Detector:
    return create(
        detector_options({"name": name} | ({"memory": memory} if name == "edgebank" else {})),
        GraphShape(8),
        seed,
    )


def score(name: str, graph: TemporalGraph, **options: Any) -> np.ndarray:
    detector = rule(name, **options)
    return detector.score(graph, detector.initial_state(graph))[0]


def plain(name: str, graph: TemporalGraph, memory: float | None = None) -> np.ndarray:
    """The rules with dictionaries and a loop over edges; ties are not told apart."""
    seen: dict[tuple[int, int], int] = defaultdict(int)
    last: dict[tuple[int, int], int] = {}
    now: dict[Any, float] = defaultdict(float)
    total: dict[Any, float] = defaultdict(float)
    out: list[float] = []
    for t, window in enumerate(graph.each_window()):
        edges = list(zip(window.src.tolist(), window.dst.tolist(), strict=True))
        for key in now:
            now[key] *= 0.5
        for (a, b), w in zip(edges, window.weight.tolist(), strict=True):
            for key in ((a, b), ("source", a), ("target", b)):
                now[key] += w
                total[key] += w
        for a, b in edges:
            new = not seen[a, b]
            sources = len({x for (x, y), n in seen.items() if y == b and n})
            burst = sum(1 for x, y in edges if x == a and not seen[x, y])
            often = 1 / (1 + seen[a, b])
            if name == "first-seen":
                out.append(float(new))
            elif name == "pair-frequency":
                out.append(often)
            elif name == "rare-target":
                out.append(1 + 1 / (2 + sources) if new else often)
            elif name == "novelty-burst":
                out.append(1 + burst / (2 + sources) if new else often)
            elif name == "edgebank":
                late = memory is not None and last.get((a, b), 0) < window.start - memory * 1e6
                out.append(float(new or late))
            else:
                clock = t + 1
                values = [0.0]
                for key in ((a, b), ("source", a), ("target", b)):
                    if clock > 1:
                        values.append(
                            (now[key] - total[key] / clock) ** 2 * clock**2 / (total[key] * (clock - 1))
                        )
                out.append(float(np.log1p(max(values))))
        for (a, b), moment in zip(edges, window.time.tolist(), strict=True):
            seen[a, b] += 1
            last[a, b] = moment
    return np.array(out)


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_a_rule_scores_as_a_loop_over_edges_does(name: str, seed: int) -> None:
    graph = random_graph(seed)
    np.testing.assert_allclose(score(name, graph), plain(name, graph), atol=8 * TIE)


def test_edgebank_forgets_what_is_older_than_its_memory() -> None:
    graph = random_graph(3, windows=20, edges=6)
    for memory in (0.5, 1.0, 3.0):
        found = score("edgebank", graph, memory=memory)
        np.testing.assert_array_equal(found >= 1, plain("edgebank", graph, memory) == 1)
    assert (score("edgebank", graph, memory=1.0) >= 1).sum() > (score("edgebank", graph) >= 1).sum()


@pytest.mark.parametrize("name", NAMES)
def test_window_by_window_gives_the_scores_and_the_state_of_all_at_once(name: str) -> None:
    graph, detector = random_graph(1), rule(name)
    whole, last = detector.score(graph, detector.initial_state(graph))
    state, parts = detector.initial_state(graph), []
    for window in graph.each_window():
        scores, state = detector.score(window, state)
        parts.append(scores)
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert state.keys() == last.keys()
    for key, values in last.items():
        np.testing.assert_array_equal(state[key], values)


@pytest.mark.parametrize("name", NAMES)
def test_the_future_does_not_change_a_score(name: str) -> None:
    graph, other = random_graph(1), random_graph(2)
    half = graph.windows(0, 4)
    tail = other.windows(4)
    joined = replace(
        graph,
        offsets=np.concatenate((half.offsets, half.offsets[-1] + tail.offsets[1:])),
        src=np.concatenate((half.src, tail.src)),
        dst=np.concatenate((half.dst, tail.dst)),
        time=np.concatenate((half.time, tail.time)),
        weight=np.concatenate((half.weight, tail.weight)),
    )
    np.testing.assert_array_equal(score(name, graph)[: half.num_edges], score(name, joined)[: half.num_edges])


@pytest.mark.parametrize("name", NAMES)
def test_an_edge_scores_the_same_when_it_is_asked_for_as_a_candidate(name: str) -> None:
    graph, detector = random_graph(4), rule(name)
    asked = Candidates(graph.window_of_edge(), graph.src, graph.dst)
    whole, _ = detector.score(graph, detector.initial_state(graph))
    again, _ = detector.score(graph, detector.initial_state(graph), asked)
    np.testing.assert_array_equal(whole, again)


def test_ties_are_told_apart_by_pair_and_window_and_not_by_order() -> None:
    graph = random_graph(0, nodes=30, windows=1, edges=200)
    first = score("first-seen", graph)
    np.testing.assert_array_equal(first, score("first-seen", graph, seed=1))
    assert len(np.unique(first)) == graph.num_edges
    later = score("first-seen", replace(graph, start=graph.start + WIDTH))
    assert not np.array_equal(np.argsort(first), np.argsort(later))
    keep = np.arange(graph.num_edges) % 2 == 0
    np.testing.assert_array_equal(score("first-seen", graph.select(keep)), first[keep])


def test_a_burst_of_new_targets_ranks_above_one_new_target() -> None:
    graph = random_graph(0, windows=1)
    graph = replace(
        graph,
        src=np.array([0, 1, 1, 1], np.int32),
        dst=np.array([7, 4, 5, 6], np.int32),
        time=np.full(4, graph.start, np.int64),
        weight=np.ones(4, np.float32),
        offsets=np.array([0, 4]),
    )
    scores = score("novelty-burst", graph)
    assert scores[1:].min() > scores[0]


def test_a_rule_refuses_weights_and_a_foreign_state() -> None:
    graph, detector = random_graph(0), rule("first-seen")
    with pytest.raises(DetectorError, match="no weights"):
        detector.load_weights({"a": np.zeros(1, np.float32)})
    with pytest.raises(DetectorError, match="lacks"):
        detector.score(graph, {})


def test_habits_validate_above_chance() -> None:
    graph = random_graph(0, nodes=30, windows=1, edges=60)
    tenfold: dict[str, Any] = {
        name: np.tile(getattr(graph, name), 10) for name in ("src", "dst", "time", "weight")
    }
    joined = replace(graph, offsets=np.arange(11) * graph.num_edges, **tenfold)
    found = rule("pair-frequency").validate(joined, np.random.default_rng(0))
    assert found.ap > 0.95
    assert found.auc > 0.95
