"""Suspicion over any detector's scores: the rule itself, nights, the future, and whom it touches."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from entente.config import DetectorOptions, detector_options, parse_experiment
from entente.contracts.base import Check
from entente.contracts.detectors import CHECKS, DetectorCase
from entente.detectors import create
from entente.detectors.base import Candidates, Detector, GraphShape, with_names
from entente.detectors.ensemble import Ensemble
from entente.detectors.suspicion import HABIT, HALF_LIFE, MOST, PATIENCE, PRIOR, QUANTILE, RATE, STEP
from entente.detectors.with_suspicion import FEWEST, LAST, OWN, SHORTEST, WithSuspicion
from entente.graphs.temporal import TemporalGraph
from entente.runtime.assembly import make_detector, trained_detector

from .behaviour.graphs import graph_of, history

SHAPE = GraphShape(16)
SMALL: list[dict[str, Any]] = [
    {"name": "evidence-young"},
    {"name": "euler", "hidden": 6, "embedding": 4},
    {"name": "jbeil", "memory": 6, "embedding": 6, "batch": 16, "neighbours": 3},
]


def over(name: str = "rare-target", **options: Any) -> WithSuspicion:
    return WithSuspicion(create(detector_options({"name": name, **options}), SHAPE, 0))


def past() -> TemporalGraph:
    """Three days of habits of 30 hosts with some novelty; on the last one 7 moves on to unused hosts."""
    graph = history(144, nodes=30, edges=20, novelty=0.2, seed=3)
    rows = np.column_stack((graph.window_of_edge(), graph.src, graph.dst))
    source, chain = 7, []
    for step in range(18):
        chain.append((100 + 2 * step, source, 30 + step))
        source = 30 + step if step % 4 == 3 else source
    return graph_of(np.concatenate((rows, np.array(chain))), 144, 50)


@dataclass(frozen=True, slots=True)
class SuspectingCase(DetectorCase):
    """The same detector, with suspicion."""

    def build(self, seed: int = 0) -> Detector:
        return WithSuspicion(DetectorCase.build(self, seed))


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Suspicion from the first windows on, for graphs of a few seconds."""
    monkeypatch.setattr("entente.detectors.with_suspicion.SHORTEST", 0.0)
    monkeypatch.setattr("entente.detectors.with_suspicion.FEWEST", 10)


@pytest.mark.usefixtures("early")
@pytest.mark.parametrize("check", CHECKS[1:], ids=lambda c: c.claim)
@pytest.mark.parametrize("options", SMALL, ids=lambda options: options["name"])
def test_every_claim_of_the_contract_holds(options: dict[str, Any], check: Check) -> None:
    check.run(SuspectingCase(detector_options(options)))


@pytest.mark.parametrize("name", ["rare-target", "evidence"])
def test_nights_one_after_the_other_are_one_go_bit_for_bit(name: str) -> None:
    detector, graph = over(name), past()
    whole, last = detector.score(graph, detector.initial_state(graph))
    plain, _ = detector.model.score(graph, detector.model.initial_state(graph))
    assert not np.array_equal(whole, plain)
    state, parts = detector.initial_state(graph), []
    for begin, end in ((0, 1), (1, 60), (60, 61), (61, 144)):
        scores, state = detector.score(graph.windows(begin, end), state)
        parts.append(scores)
    assert np.array_equal(np.concatenate(parts), whole)
    assert {name: array.tobytes() for name, array in state.items()} == {
        n: a.tobytes() for n, a in last.items()
    }


def test_another_future_leaves_the_past_as_it_was() -> None:
    detector, graph = over(), past()
    rows = np.column_stack((graph.window_of_edge(), graph.src, graph.dst))
    late = graph.window_of_edge() >= 120
    shuffled = rows.copy()
    shuffled[late, 2] = (shuffled[late, 1] + 1 + np.random.default_rng(0).integers(0, 49, late.sum())) % 50
    other = graph_of(shuffled, 144, 50)
    one, _ = detector.score(graph, detector.initial_state(graph))
    two, _ = detector.score(other, detector.initial_state(other))
    cut = int(graph.offsets[120])
    assert np.array_equal(one[:cut], two[:cut])


def plain_rule(graph: TemporalGraph, scores: Any) -> tuple[list[float], list[float]]:
    """Odds of each edge's source before its window, and p of each host at the end, one edge at a time."""
    hours = graph.width / 3.6e9
    p, usual, seen = [PRIOR] * graph.num_nodes, [0.0] * graph.num_nodes, 0.0
    level, ranked, known = math.log(QUANTILE / (1 - QUANTILE)), list[float](), set[tuple[int, int]]()
    found = []

    def logit(x: float) -> float:
        return math.log(x / (1 - x))

    def excess(host: int) -> float:
        return max(logit(p[host]) - logit(PRIOR), 0.0)

    for t in range(graph.num_windows):
        p = [PRIOR + (x - PRIOR) * 0.5 ** (hours / HALF_LIFE) for x in p]
        usual = [usual[h] * 0.5 ** (hours / HABIT) + excess(h) * hours for h in range(graph.num_nodes)]
        seen = seen * 0.5 ** (hours / HABIT) + hours
        edges = range(int(graph.offsets[t]), int(graph.offsets[t + 1]))
        pairs = [(int(graph.src[e]), int(graph.dst[e]), float(scores[e])) for e in edges]
        found += [max(excess(a) - usual[a] / (seen + PATIENCE), 0.0) for a, _, _ in pairs]
        new = sorted(pair for pair in pairs if pair[:2] not in known)
        if (t + 1) * hours >= SHORTEST and len(ranked) >= FEWEST and new:
            free, below = [1 - x for x in p], 0
            for a, b, score in new:
                lower = sum(x < score for x in ranked) + 0.5 * sum(x == score for x in ranked)
                z = logit((lower + 0.5) / (len(ranked) + 1))
                below += z < level
                q = 1 / (1 + math.exp(-logit(p[a]) - min(max(z - level, -STEP), STEP)))
                free[a] *= 1 - q
                free[b] *= 1 - q / math.log2(2 + sum(target == b for _, target in known))
            p = [min(1 - x, MOST) for x in free]
            level = max(0.0, level + RATE * (QUANTILE - below / len(new)))
        ranked = (ranked + [score for _, _, score in new])[-LAST:]
        known |= {pair[:2] for pair in new}
    return found, p


def test_it_does_what_the_plain_rule_says() -> None:
    detector, graph = over(), past()
    scores, _ = detector.model.score(graph, detector.model.initial_state(graph))
    odds, p = plain_rule(graph, scores)
    raised, state = detector.score(graph, detector.initial_state(graph))
    np.testing.assert_allclose(raised, scores * np.exp(0.25 * np.array(odds)), rtol=1e-5)
    np.testing.assert_allclose(state[OWN + "suspicion"], p, rtol=1e-6)
    assert max(odds) > 3.0


def test_what_a_host_that_stood_out_reaches_scores_higher_and_nothing_lower() -> None:
    detector, graph = over(), past()
    plain, _ = detector.model.score(graph, detector.model.initial_state(graph))
    raised, _, standing = detector.score_hosts(graph, detector.initial_state(graph))
    assert (raised >= plain).all()
    assert np.array_equal(raised, detector.score(graph, detector.initial_state(graph))[0])
    assert {7, 33} <= set(standing.host.tolist())
    (edge,) = np.flatnonzero((graph.src == 33) & (graph.dst == 35))
    assert raised[edge] > 1.5 * plain[edge]
    (said,) = detector.explain(graph, detector.initial_state(graph), np.array([edge]))
    assert with_names(said, [f"h{i}" for i in range(50)]) == (
        "the source was reached 2 hours ago from h7, which had 2 unusual contacts"
    )


def test_candidates_are_raised_by_their_own_source() -> None:
    detector, graph = over("first-seen"), past()
    state = detector.initial_state(graph)
    window = np.full(50, 130)
    asked = Candidates(window, np.arange(50, dtype=np.int32), np.full(50, 2, dtype=np.int32))
    plain, _ = detector.model.score(graph, detector.model.initial_state(graph), asked)
    raised, after = detector.score(graph, state, asked)
    assert (raised > plain).any()
    assert (raised >= plain).all()
    assert after.keys() == detector.score(graph, state)[1].keys()


def test_pairs_are_forgotten_and_scores_of_new_ones_are_bounded() -> None:
    detector = over()
    rng = np.random.default_rng(0)
    sizes = []
    state = detector.initial_state(graph_of(np.zeros((0, 3)), 1, 60, 4 * 3_600_000_000))
    for part in range(4):
        rows = np.column_stack(
            (rng.integers(0, 180, 3000), rng.integers(0, 30, 3000), rng.integers(30, 60, 3000))
        )
        rows[:, 1:] += 60 * part  # other hosts in every month
        graph = graph_of(rows, 180, 240, 4 * 3_600_000_000)

        _, state = detector.score(replace(graph, start=part * 180 * graph.width), state)
        sizes.append(len(state[OWN + "pairs"]))
        assert len(state[OWN + "scores"]) <= LAST
    assert sizes[3] <= 1.2 * sizes[1]
    counted = np.bincount(state[OWN + "pairs"] & 0xFFFFFFFF, minlength=240)
    assert np.array_equal(counted, state[OWN + "sources"])


def test_it_stands_over_a_model_with_a_baseline_and_keeps_what_is_trained() -> None:
    graph = past()
    model = create(detector_options({"name": "euler", "hidden": 6, "embedding": 4}), SHAPE, 0)
    detector = WithSuspicion(Ensemble(model, create(DetectorOptions(name="rare-target"), SHAPE, 0)))
    detector.train(graph, 1, np.random.default_rng(0))
    assert detector.components == model.components
    assert all(np.array_equal(array, model.weights()[name]) for name, array in detector.weights().items())
    scores, state = detector.score(graph, detector.initial_state(graph))
    assert np.isfinite(scores).all()
    assert {"rule/pairs", OWN + "pairs"} <= state.keys()


@pytest.mark.parametrize(("name", "wrapped"), [("behaviour", False), ("euler", True), ("rare-target", True)])
def test_a_run_has_it_where_it_is_asked_for_and_the_detector_has_none(name: str, wrapped: bool) -> None:
    for beside, expected in (("none", False), ("suspicion", wrapped)):
        experiment = parse_experiment({"detector": {"name": name}, "detection": {"ensemble": beside}})
        models = {"": make_detector(experiment, SHAPE).weights()}
        assert isinstance(trained_detector(experiment, SHAPE, models, "all"), WithSuspicion) == expected
