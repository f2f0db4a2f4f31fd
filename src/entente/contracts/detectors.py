"""What every detector promises, checked on small random graphs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from entente.artifacts import Arrays
from entente.config import DetectorOptions, detector_options
from entente.contracts.base import Check, claims, require
from entente.detectors import create, find
from entente.detectors.base import Candidates, Detector, GraphShape
from entente.errors import DetectorError
from entente.graphs.temporal import TemporalGraph

NODES, WINDOWS, TABLE = 12, 6, 32
CHECKS: list[Check] = []


@dataclass(frozen=True, slots=True)
class DetectorCase:
    """One detector with one set of options."""

    options: DetectorOptions

    @classmethod
    def named(cls, name: str) -> DetectorCase:
        return cls(detector_options({"name": name}))

    def build(self, seed: int = 0) -> Detector:
        return create(self.options, GraphShape(table_size=TABLE), seed)

    def trained(self) -> Detector:
        """The detector after a little training."""
        built = self.build()
        built.train(self.graph(), 2, np.random.default_rng(1))
        return built

    def graph(self, seed: int = 0) -> TemporalGraph:
        return random_graph(merged=find(self.options.name).merged, seed=seed)


def random_graph(*, merged: bool, nodes: int = NODES, edges: int = 160, seed: int = 0) -> TemporalGraph:
    """Random edges in the form the detector wants: merged per window, or as single events."""
    rng = np.random.default_rng(seed)
    width = 10_000_000
    time = np.sort(rng.integers(0, WINDOWS * width, edges))
    src = rng.integers(0, nodes, edges)
    dst = (src + rng.integers(1, nodes, edges)) % nodes
    window = time // width
    if merged:
        _, first = np.unique((window * nodes + src) * nodes + dst, return_index=True)
        window, src, dst, time = window[first], src[first], dst[first], time[first]
    return TemporalGraph(
        rows=rng.permutation(TABLE)[:nodes].astype(np.int32)[:, None],
        table_size=TABLE,
        start=0,
        width=width,
        offsets=np.searchsorted(window, np.arange(WINDOWS + 1)).astype(np.int64),
        src=src.astype(np.int32),
        dst=dst.astype(np.int32),
        time=time.astype(np.int64),
        weight=rng.integers(1, 5, len(src)).astype(np.float32),
        merged=merged,
    )


def same(one: Arrays, other: Arrays) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def _close(one: Any, other: Any, tolerance: float = 1e-5) -> bool:
    return one.shape == other.shape and bool(np.allclose(one, other, atol=tolerance))


def _trained(detector: Detector) -> Arrays:
    """All that training has made."""
    return detector.weights() | detector.own_weights()


@claims(CHECKS, "components name every weight once")
def components(case: DetectorCase) -> None:
    detector = case.build()
    weights = detector.weights()
    named = [name for names in detector.components.values() for name in names]
    require(
        sorted(named) == sorted(weights), f"components name {sorted(named)}, weights are {sorted(weights)}"
    )
    require(set(detector.components) <= {"ENC", "TEMP", "DEC"}, "a component is not ENC, TEMP or DEC")
    require(all(detector.components.values()), "a component has no weight")
    require(all(a.dtype == np.float32 for a in weights.values()), "a weight is not float32")
    for table in detector.identity_tables:
        require(weights[table].shape[0] == TABLE, f"{table} does not have one row per identity")
    own = detector.own_weights()
    require(not own.keys() & weights.keys(), "an own weight is sent too")
    require(all(a.dtype == np.float32 for a in own.values()), "an own weight is not float32")
    require(detector.federated == bool(weights), "`federated` does not say whether there are weights")


@claims(CHECKS, "the same seed gives the same bits")
def same_seed(case: DetectorCase) -> None:
    found = []
    for _ in range(2):
        one, graph = case.build(seed=3), case.graph()
        training = one.train(graph, 3, np.random.default_rng(5))
        validation = one.validate(graph, np.random.default_rng(6))
        scores, state = one.score(graph, one.initial_state(graph))
        found.append(
            (_trained(one) | {"loss": np.array(training.loss), "scores": scores} | state, validation)
        )
    require(same(found[0][0], found[1][0]), "weights, scores or state differ")
    require(found[0][1] == found[1][1], "validation differs")


@claims(CHECKS, "other seeds give other weights")
def other_seed(case: DetectorCase) -> None:
    one, other = case.build(seed=0), case.build(seed=1)
    if not one.weights() or not same(one.weights(), other.weights()):
        return
    for seed, detector in enumerate((one, other)):  # it begins with weights that it ships
        detector.train(case.graph(), 1, np.random.default_rng(seed))
    require(not same(one.weights(), other.weights()), "weights do not depend on the seed")


@claims(CHECKS, "torch's own generator is left alone")
def global_generator(case: DetectorCase) -> None:
    import torch

    before = torch.random.get_rng_state()
    one, graph = case.build(), case.graph()
    one.train(graph, 1, np.random.default_rng(0))
    one.score(graph, one.initial_state(graph))
    require(torch.equal(torch.random.get_rng_state(), before), "torch's global generator was used")


@claims(CHECKS, "scoring changes neither the detector nor the state")
def scoring(case: DetectorCase) -> None:
    detector, graph = case.trained(), case.graph()
    state = detector.initial_state(graph)
    before, weights = {name: array.copy() for name, array in state.items()}, _trained(detector)
    first, after_first = detector.score(graph, state)
    second, after_second = detector.score(graph, state)
    require(np.array_equal(first, second) and same(after_first, after_second), "the second time differs")
    require(same(state, before), "the state that was given has changed")
    require(same(_trained(detector), weights), "the weights have changed")
    require(first.dtype == np.float32 and first.shape == (graph.num_edges,), "not one float32 per edge")
    require(np.isfinite(first).all(), "a score is not finite")


@claims(CHECKS, "validation changes nothing")
def validation(case: DetectorCase) -> None:
    detector, graph = case.trained(), case.graph()
    weights, memory = _trained(detector), detector.optimiser_state()
    first = detector.validate(graph, np.random.default_rng(0))
    require(first == detector.validate(graph, np.random.default_rng(0)), "the second time differs")
    require(same(_trained(detector), weights), "the weights have changed")
    require(same(detector.optimiser_state(), memory), "the optimiser's state has changed")
    require(0 <= first.ap <= 1 and 0 <= first.auc <= 1, f"AP {first.ap} or AUC {first.auc} is not in [0, 1]")


@claims(CHECKS, "going on window by window equals scoring all at once")
def by_window(case: DetectorCase) -> None:
    detector, graph = case.trained(), case.graph()
    whole, last = detector.score(graph, detector.initial_state(graph))
    state, parts = detector.initial_state(graph), []
    for window in graph.each_window():
        scores, state = detector.score(window, state)
        parts.append(scores)
    require(_close(np.concatenate(parts), whole), "scores differ")
    require(last.keys() == state.keys(), "the state has other parts")
    for name in last:
        require(_close(last[name], state[name]), f"{name} of the state differs")


@claims(CHECKS, "the future does not change the past")
def future(case: DetectorCase) -> None:
    detector, graph, other = case.trained(), case.graph(), case.graph(seed=8)
    past = graph.windows(0, 3)
    rest = replace(other.windows(3), rows=graph.rows)
    joined: dict[str, Any] = {
        name: np.concatenate((getattr(past, name), getattr(rest, name)))
        for name in ("src", "dst", "time", "weight")
    }
    offsets = np.concatenate((past.offsets, past.offsets[-1] + rest.offsets[1:]))
    mixed = replace(graph, offsets=offsets, **joined)
    one, _ = detector.score(graph, detector.initial_state(graph))
    two, _ = detector.score(mixed, detector.initial_state(mixed))
    require(_close(one[: past.num_edges], two[: past.num_edges], 1e-6), "earlier scores differ")


@claims(CHECKS, "with the same weights another one scores the same")
def same_weights(case: DetectorCase) -> None:
    detector, graph, again = case.trained(), case.graph(), case.build(seed=9)
    again.load_weights(detector.weights())
    again.load_own_weights(detector.own_weights())
    one, _ = detector.score(graph, detector.initial_state(graph))
    two, _ = again.score(graph, again.initial_state(graph))
    require(np.array_equal(one, two), "scores differ")


@claims(CHECKS, "training goes on bit for bit from weights and optimiser state")
def resumed(case: DetectorCase) -> None:
    one, two, graph = case.build(), case.build(seed=4), case.graph()
    one.train(graph, 2, np.random.default_rng(1))
    two.load_weights(one.weights())
    two.load_own_weights(one.own_weights())
    two.load_optimiser_state(one.optimiser_state())
    one.train(graph, 2, np.random.default_rng(2))
    two.train(graph, 2, np.random.default_rng(2))
    require(same(_trained(one), _trained(two)), "weights differ")


@claims(CHECKS, "a graph without any edge is no trouble")
def no_edges(case: DetectorCase) -> None:
    detector, graph = case.trained(), case.graph()
    empty = graph.select(np.zeros(graph.num_edges, dtype=np.bool_))
    weights = detector.weights()
    require(detector.train(empty, 2, np.random.default_rng(0)).edges == 0, "edges were trained on")
    require(same(detector.weights(), weights), "the weights have changed")
    require(detector.validate(empty, np.random.default_rng(0)).edges == 0, "edges were validated")
    scores, state = detector.score(empty, detector.initial_state(empty))
    require(len(scores) == 0, "there are scores")
    require(state.keys() == detector.initial_state(empty).keys(), "the state has other parts")


@claims(CHECKS, "empty windows and single edges are no trouble")
def few_edges(case: DetectorCase) -> None:
    detector, graph = case.trained(), case.graph()
    gap = graph.select(~np.isin(graph.window_of_edge(), (0, 2, 3)))
    one = graph.select(np.arange(graph.num_edges) == 7)
    for part in (gap, one):
        detector.train(part, 1, np.random.default_rng(0))
        detector.validate(part, np.random.default_rng(0))
        scores, _ = detector.score(part, detector.initial_state(part))
        require(len(scores) == part.num_edges, "not one score per edge")
        require(np.isfinite(scores).all(), "a score is not finite")


@claims(CHECKS, "no window at all gives no score and leaves the state")
def no_windows(case: DetectorCase) -> None:
    detector, graph = case.trained(), case.graph()
    _, state = detector.score(graph, detector.initial_state(graph))
    scores, after = detector.score(graph.windows(graph.num_windows), state)
    require(len(scores) == 0, "there are scores")
    require(same(after, state), "the state has changed")


@claims(CHECKS, "hosts appended later are scored and leave the others as they were")
def more_hosts(case: DetectorCase) -> None:
    detector, graph = case.trained(), case.graph()
    _, state = detector.score(graph, detector.initial_state(graph))
    unused = np.setdiff1d(np.arange(TABLE), graph.rows)[:2].astype(np.int32)
    grown = replace(graph, rows=np.concatenate((graph.rows, unused[:, None])))
    same_edges, after = detector.score(grown, state)
    again, _ = detector.score(graph, state)
    require(_close(same_edges, again, 1e-6), "scores of the other hosts differ")
    fresh, _ = detector.score(replace(grown.windows(0, 1), **new_edge(grown)), after)
    require(np.isfinite(fresh).all(), "a new host's score is not finite")


def new_edge(graph: TemporalGraph) -> dict[str, Any]:
    """The last host calls host 0."""
    return {
        "offsets": np.array([0, 1]),
        "src": np.array([graph.num_nodes - 1], dtype=np.int32),
        "dst": np.array([0], dtype=np.int32),
        "time": np.array([5], dtype=np.int64),
        "weight": np.ones(1, dtype=np.float32),
    }


@claims(CHECKS, "candidates that are the graph's edges get the edges' scores")
def own_candidates(case: DetectorCase) -> None:
    detector, graph = case.trained(), case.graph()
    own, _ = detector.score(graph, detector.initial_state(graph))
    asked = Candidates(graph.window_of_edge(), graph.src, graph.dst, graph.time)
    scores, _ = detector.score(graph, detector.initial_state(graph), asked)
    require(scores.shape == own.shape, "not one score per candidate")
    require(not detector.merged or _close(scores, own, 1e-6), "scores differ")


@claims(CHECKS, "weights that do not fit are refused and leave the detector as it was")
def bad_weights(case: DetectorCase) -> None:
    detector = case.trained()
    weights = detector.weights()
    wrong: list[Arrays] = [weights | {"surplus": np.zeros(1, np.float32)}]
    for name, array in list(weights.items())[:1]:
        wrong.append({other: value for other, value in weights.items() if other != name})
        wrong.append(weights | {name: array[:-1]})
        wrong.append(weights | {name: array.astype(np.float64)})
        wrong.append(weights | {name: np.full_like(array, np.nan)})
    for given in wrong:
        try:
            detector.load_weights(given)
        except DetectorError:
            continue
        require(False, "surplus, missing, misshapen or non-finite weights were accepted")
    require(same(detector.weights(), weights), "refused weights have changed the detector")
