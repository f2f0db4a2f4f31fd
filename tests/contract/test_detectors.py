"""One set of checks over every detector, in every variant that has code of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from entente.config import DetectorOptions, detector_options
from entente.detectors import available, create
from entente.detectors.base import Candidates, Detector, GraphShape
from entente.detectors.euler.detector import Euler
from entente.errors import DetectorError, UsageError
from entente.graphs.temporal import NOBODY, TemporalGraph

NODES, WINDOWS = 12, 6
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
    ],
    "lab-jbeil": [{}, {"hidden_hosts": 0.3}],
    "edgebank": [{}, {"memory": 20.0}],
}
CASES = [{"name": name, **variant} for name in available() for variant in VARIANTS.get(name, [{}])]


def build(case: dict[str, Any], seed: int = 0) -> Detector:
    settings = SMALL.get(case["name"], {}) | case
    return create(detector_options(settings), GraphShape(table_size=32), seed)


def graph_for(detector: Detector, nodes: int = NODES, edges: int = 160, seed: int = 0) -> TemporalGraph:
    """Random edges in the form the detector wants: merged per window, or as single events."""
    rng = np.random.default_rng(seed)
    width = 10_000_000
    time = np.sort(rng.integers(0, WINDOWS * width, edges))
    src = rng.integers(0, nodes, edges)
    dst = (src + rng.integers(1, nodes, edges)) % nodes
    window = time // width
    if detector.merged:
        _, first = np.unique((window * nodes + src) * nodes + dst, return_index=True)
        window, src, dst, time = window[first], src[first], dst[first], time[first]
    return TemporalGraph(
        rows=rng.permutation(32)[:nodes].astype(np.int32)[:, None],
        table_size=32,
        start=0,
        width=width,
        offsets=np.searchsorted(window, np.arange(WINDOWS + 1)).astype(np.int64),
        src=src.astype(np.int32),
        dst=dst.astype(np.int32),
        time=time.astype(np.int64),
        weight=rng.integers(1, 5, len(src)).astype(np.float32),
        merged=detector.merged,
    )


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def copied(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: array.copy() for name, array in arrays.items()}


def label(case: dict[str, Any]) -> str:
    return "-".join(str(value) for value in case.values())


@pytest.fixture(params=CASES, ids=label)
def case(request: pytest.FixtureRequest) -> dict[str, Any]:
    chosen: dict[str, Any] = request.param
    return chosen


@pytest.fixture
def detector(case: dict[str, Any]) -> Detector:
    """A detector that has been trained a little."""
    built = build(case)
    built.train(graph_for(built), 2, np.random.default_rng(1))
    return built


def test_it_has_a_name_a_summary_and_components_that_name_every_weight_once(detector: Detector) -> None:
    assert available()[detector.name] is type(detector)
    assert detector.summary.endswith(".")
    named = [name for names in detector.components.values() for name in names]
    assert sorted(named) == sorted(detector.weights())
    assert set(detector.components) <= {"ENC", "TEMP", "DEC"}
    assert all(detector.components.values())
    for table in detector.identity_tables:
        assert detector.weights()[table].shape[0] == 32
    assert all(array.dtype == np.float32 for array in detector.weights().values())


def test_the_same_seed_gives_the_same_bits(case: dict[str, Any]) -> None:
    runs = []
    for _ in range(2):
        one = build(case, seed=3)
        graph = graph_for(one)
        training = one.train(graph, 3, np.random.default_rng(5))
        validation = one.validate(graph, np.random.default_rng(6))
        scores, state = one.score(graph, one.initial_state(graph))
        runs.append((one.weights() | {"loss": np.array(training.loss), "scores": scores} | state, validation))
    assert same(runs[0][0], runs[1][0])
    assert runs[0][1] == runs[1][1]


def test_other_seeds_give_other_weights(case: dict[str, Any]) -> None:
    if build(case).components:
        assert not same(build(case, seed=0).weights(), build(case, seed=1).weights())


def test_torchs_own_generator_is_left_alone(case: dict[str, Any]) -> None:
    torch.manual_seed(9)
    expected = torch.rand(3)
    torch.manual_seed(9)
    one = build(case)
    graph = graph_for(one)
    one.train(graph, 1, np.random.default_rng(0))
    one.score(graph, one.initial_state(graph))
    assert torch.equal(torch.rand(3), expected)


def test_scoring_changes_neither_the_detector_nor_the_state(detector: Detector) -> None:
    graph = graph_for(detector)
    state = detector.initial_state(graph)
    before, weights = copied(state), detector.weights()
    first, after_first = detector.score(graph, state)
    second, after_second = detector.score(graph, state)
    assert np.array_equal(first, second)
    assert same(after_first, after_second)
    assert same(state, before)
    assert same(detector.weights(), weights)
    assert first.dtype == np.float32
    assert len(first) == graph.num_edges
    assert np.isfinite(first).all()


def test_validation_changes_nothing(detector: Detector) -> None:
    graph = graph_for(detector)
    weights, memory = detector.weights(), detector.optimiser_state()
    first = detector.validate(graph, np.random.default_rng(0))
    assert first == detector.validate(graph, np.random.default_rng(0))
    assert same(detector.weights(), weights)
    assert same(detector.optimiser_state(), memory)
    assert 0 <= first.ap <= 1
    assert 0 <= first.auc <= 1


def test_going_on_window_by_window_equals_scoring_all_at_once(detector: Detector) -> None:
    graph = graph_for(detector)
    whole, last = detector.score(graph, detector.initial_state(graph))
    state, parts = detector.initial_state(graph), []
    for window in graph.each_window():
        scores, state = detector.score(window, state)
        parts.append(scores)
    assert np.allclose(np.concatenate(parts), whole, atol=1e-5)
    assert last.keys() == state.keys()
    for name in last:
        assert np.allclose(last[name], state[name], atol=1e-5), name


def test_the_future_does_not_change_the_past(detector: Detector) -> None:
    graph, other = graph_for(detector), graph_for(detector, seed=8)
    past = graph.windows(0, 3)
    rest = replace(other.windows(3), rows=graph.rows)
    mixed = replace(
        graph,
        offsets=np.concatenate((past.offsets, past.offsets[-1] + rest.offsets[1:])),
        **{
            name: np.concatenate((getattr(past, name), getattr(rest, name)))
            for name in ("src", "dst", "time", "weight")
        },
    )
    one, _ = detector.score(graph, detector.initial_state(graph))
    two, _ = detector.score(mixed, detector.initial_state(mixed))
    assert np.allclose(one[: past.num_edges], two[: past.num_edges], atol=1e-6)


def test_with_the_same_weights_another_one_scores_the_same(detector: Detector) -> None:
    graph = graph_for(detector)
    again = create(detector.config, detector.shape, seed=9)
    again.load_weights(detector.weights())
    one, _ = detector.score(graph, detector.initial_state(graph))
    two, _ = again.score(graph, again.initial_state(graph))
    assert np.array_equal(one, two)


def test_training_goes_on_bit_for_bit_from_weights_and_optimiser_state(case: dict[str, Any]) -> None:
    one, two = build(case), build(case, seed=4)
    graph = graph_for(one)
    one.train(graph, 2, np.random.default_rng(1))
    two.load_weights(one.weights())
    two.load_optimiser_state(one.optimiser_state())
    one.train(graph, 2, np.random.default_rng(2))
    two.train(graph, 2, np.random.default_rng(2))
    assert same(one.weights(), two.weights())


def test_a_graph_without_any_edge_is_no_trouble(detector: Detector) -> None:
    graph = graph_for(detector).select(np.zeros(graph_for(detector).num_edges, dtype=np.bool_))
    weights = detector.weights()
    assert detector.train(graph, 2, np.random.default_rng(0)).edges == 0
    assert same(detector.weights(), weights)
    assert detector.validate(graph, np.random.default_rng(0)).edges == 0
    scores, state = detector.score(graph, detector.initial_state(graph))
    assert len(scores) == 0
    assert state.keys() == detector.initial_state(graph).keys()


def test_no_window_at_all_gives_no_score_and_leaves_the_state(detector: Detector) -> None:
    graph = graph_for(detector)
    _, state = detector.score(graph, detector.initial_state(graph))
    scores, after = detector.score(graph.windows(graph.num_windows), state)
    assert len(scores) == 0
    assert same(after, state)


def test_an_empty_window_between_others_is_no_trouble(detector: Detector) -> None:
    graph = graph_for(detector)
    gap = graph.select(~np.isin(graph.window_of_edge(), (0, 2, 3)))
    detector.train(gap, 1, np.random.default_rng(0))
    scores, _ = detector.score(gap, detector.initial_state(gap))
    assert len(scores) == gap.num_edges
    assert np.isfinite(scores).all()


def test_one_edge_is_enough(detector: Detector) -> None:
    graph = graph_for(detector)
    one = graph.select(np.arange(graph.num_edges) == 7)
    detector.train(one, 1, np.random.default_rng(0))
    detector.validate(one, np.random.default_rng(0))
    scores, _ = detector.score(one, detector.initial_state(one))
    assert scores.shape == (1,)
    assert np.isfinite(scores).all()


def test_hosts_appended_later_are_scored_and_leave_the_others_as_they_were(detector: Detector) -> None:
    graph = graph_for(detector)
    scores, state = detector.score(graph, detector.initial_state(graph))
    unused = np.setdiff1d(np.arange(32), graph.rows)[:2].astype(np.int32)
    grown = replace(graph, rows=np.concatenate((graph.rows, unused[:, None])))
    same_edges, after = detector.score(grown, state)
    again, _ = detector.score(graph, state)
    assert np.allclose(same_edges, again, atol=1e-6)
    with_new = replace(grown.windows(0, 1), **new_edge(grown))
    fresh, _ = detector.score(with_new, after)
    assert np.isfinite(fresh).all()
    assert len(scores) == graph.num_edges


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
    weights = detector.weights()
    for table in detector.identity_tables:
        weights[table] = weights[table].copy()
        weights[table][graph.rows[:3, 0]] = 0
    detector.load_weights(weights)
    expected, _ = detector.score(graph, detector.initial_state(graph))
    assert np.allclose(scores, expected, atol=1e-6)


def new_edge(graph: TemporalGraph) -> dict[str, Any]:
    """The last appended host calls host 0."""
    return {
        "offsets": np.array([0, 1]),
        "src": np.array([graph.num_nodes - 1], dtype=np.int32),
        "dst": np.array([0], dtype=np.int32),
        "time": np.array([5], dtype=np.int64),
        "weight": np.ones(1, dtype=np.float32),
    }


def test_candidates_that_are_the_graphs_edges_get_the_edges_scores(detector: Detector) -> None:
    graph = graph_for(detector)
    own, _ = detector.score(graph, detector.initial_state(graph))
    asked = Candidates(graph.window_of_edge(), graph.src, graph.dst, graph.time)
    scores, _ = detector.score(graph, detector.initial_state(graph), asked)
    assert scores.shape == own.shape
    if detector.merged:
        assert np.allclose(scores, own, atol=1e-6)


def test_moved_to_a_device_it_scores_and_trains_as_before(case: dict[str, Any]) -> None:
    one, two = build(case), build(case)
    graph = graph_for(one)
    one.train(graph, 1, np.random.default_rng(1))
    two.train(graph, 1, np.random.default_rng(1))
    if not hasattr(two, "to"):
        pytest.skip("has no weights to move")
    two.to("cpu")
    one.train(graph, 1, np.random.default_rng(2))
    two.train(graph, 1, np.random.default_rng(2))
    assert same(one.weights(), two.weights())


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


def test_weights_that_do_not_fit_are_refused_and_leave_the_detector_as_it_was(detector: Detector) -> None:
    weights = detector.weights()
    wrong: list[dict[str, Any]] = [weights | {"surplus": np.zeros(1, np.float32)}]
    for name, array in list(weights.items())[:1]:
        wrong.append({other: value for other, value in weights.items() if other != name})
        wrong.append(weights | {name: array[:-1]})
        wrong.append(weights | {name: array.astype(np.float64)})
    for given in wrong:
        with pytest.raises(DetectorError):
            detector.load_weights(given)
    assert same(detector.weights(), weights)


def test_an_unknown_detector_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="euler"):
        create(DetectorOptions(name="nobody"), GraphShape(4), 0)
