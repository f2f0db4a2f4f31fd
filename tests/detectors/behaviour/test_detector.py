"""The behaviour detector as a whole: what it learns, what it keeps, what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from entente.config import Experiment, parse_experiment
from entente.detectors import baseline
from entente.detectors.base import GraphShape
from entente.detectors.behaviour.detector import Behaviour
from entente.detectors.behaviour.options import BehaviourOptions
from entente.detectors.ensemble import Ensemble
from entente.detectors.neural import average_precision_and_auc
from entente.logs.events import write_events
from entente.runtime.assembly import load_dataset
from entente.runtime.evaluation import evaluate_models
from entente_lab.simulator import SimulationConfig, simulate

from .graphs import graph_of, history


def build(seed: int = 0, **options: Any) -> Behaviour:
    return Behaviour(BehaviourOptions(replicas=4, **options), GraphShape(16), seed)


@pytest.fixture(scope="module")
def past() -> Any:
    return history(96, nodes=80, edges=60, novelty=0.05, seed=1)


@pytest.fixture(scope="module")
def trained(past: Any) -> Any:
    detector = build()
    detector.train(past, 6, np.random.default_rng(0))
    return detector


def with_intruder(graph: Any, source: int, begin: int, contacts: int) -> Any:
    """The graph with one host that contacts many others it never knew."""
    known = set(graph.dst[graph.src == source].tolist())
    fresh = [host for host in range(graph.num_nodes) if host != source and host not in known][:contacts]
    rows = np.column_stack((graph.window_of_edge(), graph.src, graph.dst))
    bad = np.array([(begin + i // 3, source, host) for i, host in enumerate(fresh)])
    whole = graph_of(np.concatenate((rows, bad)), graph.num_windows, graph.num_nodes)
    names = {tuple(row) for row in bad.tolist()}
    edges = zip(whole.window_of_edge().tolist(), whole.src.tolist(), whole.dst.tolist(), strict=True)
    return whole, np.array([edge in names for edge in edges])


def test_it_finds_an_intruder_it_has_never_met(trained: Any, past: Any) -> None:
    later, label = with_intruder(history(96, nodes=80, edges=60, novelty=0.05, seed=1), 7, 60, 24)
    scores, _ = trained.score(later, trained.initial_state(later))
    late = later.window_of_edge() >= 48
    ap, auc = average_precision_and_auc(label[late], scores[late])
    assert ap > 0.5
    assert auc > 0.95


def test_scores_night_after_night_are_those_of_one_go_bit_for_bit(trained: Any, past: Any) -> None:
    whole, last = trained.score(past, trained.initial_state(past))
    state, parts = trained.initial_state(past), []
    for begin, end in ((0, 1), (1, 33), (33, 34), (34, 96)):
        scores, state = trained.score(past.windows(begin, end), state)
        parts.append(scores)
    assert np.array_equal(np.concatenate(parts), whole)
    for name in last:
        assert np.array_equal(last[name], state[name]), name


def test_who_stands_out_is_told_beside_the_same_scores_and_an_intruder_is_among_them(
    trained: Any, past: Any
) -> None:
    attacked, _ = with_intruder(past, 7, past.num_windows - 12, 20)
    state = trained.initial_state(attacked)
    scores, after, standing = trained.score_hosts(attacked, state)
    plain, left = trained.score(attacked, state)
    assert (scores == plain).all()
    assert {name: array.tobytes() for name, array in after.items()} == {
        n: a.tobytes() for n, a in left.items()
    }
    assert 7 in standing.host
    assert (np.diff(standing.window) >= 0).all()


def test_blocks_of_windows_change_no_bit(trained: Any, past: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = trained.score(past, trained.initial_state(past))
    monkeypatch.setattr("entente.detectors.behaviour.detector.BLOCK", 100)
    cut, _ = trained.score(past, trained.initial_state(past))
    assert np.array_equal(whole, cut)


def test_weights_are_few_and_name_nobody(trained: Any) -> None:
    assert sum(array.size for array in trained.weights().values()) < 7000
    assert trained.identity_tables == ()


def test_examples_are_drawn_once_and_a_restarted_silo_draws_the_same(past: Any) -> None:
    one, two = build(), build()
    one.train(past, 1, np.random.default_rng(1))
    kept = one._examples
    one.train(past, 1, np.random.default_rng(2))
    assert one._examples is kept
    two.load_weights(build().weights())
    two.train(past, 1, np.random.default_rng(1))
    assert kept is not None
    assert two._examples is not None
    assert np.array_equal(kept[1].features, two._examples[1].features)


def test_validation_gets_better_by_training_and_uses_later_windows_only(past: Any) -> None:
    detector = build()
    before = detector.validate_later(past.windows(0, 80), past.windows(80), np.random.default_rng(0))
    detector.train(past.windows(0, 80), 6, np.random.default_rng(0))
    after = detector.validate_later(past.windows(0, 80), past.windows(80), np.random.default_rng(0))
    assert after.ap > before.ap
    assert after.ap > 0.5
    assert after.edges > 0


def test_a_short_history_is_scored_by_evidence_and_a_longer_one_by_the_network(past: Any) -> None:
    one, two = build(seed=1, base=False), build(seed=2, base=False)
    first, _ = one.score(past, one.initial_state(past))
    second, _ = two.score(past, two.initial_state(past))
    window = past.window_of_edge()
    short = window < 23  # below twelve hours
    assert np.array_equal(first[short], second[short])
    assert not np.array_equal(first[~short], second[~short])
    assert one.short_windows(past, one.initial_state(past)) == 23
    _, state = one.score(past.windows(0, 20), one.initial_state(past))
    assert one.short_windows(past.windows(20), state) == 3
    assert Ensemble(one, baseline("rare-target", GraphShape(16))).short_windows(past.windows(20), state) == 3


@pytest.fixture(scope="module")
def nameless(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """A small company whose log has hosts and times alone."""
    folder = tmp_path_factory.mktemp("nameless")
    events = simulate(SimulationConfig(sites=1, hosts=30, days=2.0, seed=1)).events
    for name in ("user", "logon", "outcome"):
        column = events.column_names.index(name)
        events = events.set_column(column, name, pa.nulls(events.num_rows, events.schema.field(name).type))
    write_events(events, folder / "events")
    return parse_experiment({"data": {"events": str(folder / "events"), "train": 86400.0}})


def test_in_a_log_without_accounts_both_settings_give_the_same_bits(nameless: Experiment) -> None:
    dataset = load_dataset(nameless)
    (silo,) = dataset.silos.values()
    assert silo.train.context is not None
    found = []
    for accounts in (True, False):
        detector = build(accounts=accounts)
        detector.train(silo.train, 1, np.random.default_rng(0))
        scores, _ = detector.score(silo.test, detector.initial_state(silo.test))
        found.append((detector.weights(), scores))
    (weights, scores), (others, again) = found
    assert all(np.array_equal(array, others[name]) for name, array in weights.items())
    assert np.array_equal(scores, again)


def test_a_run_keeps_how_many_windows_had_too_short_a_history(
    nameless: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("entente.detectors.behaviour.detector.FEWEST", 10**9)
    dataset = load_dataset(nameless)
    (name,) = dataset.silos
    metrics = evaluate_models(dataset, {name: build()}, nameless.detection).metrics()
    assert metrics.short_history == {name: dataset.silos[name].test.num_windows}


def test_an_alert_explains_itself_in_words(trained: Any) -> None:
    later, label = with_intruder(history(96, nodes=80, edges=60, novelty=0.05, seed=1), 7, 60, 24)
    edges = np.flatnonzero(label)[[5, 20]]
    said = trained.explain(later, trained.initial_state(later), edges)
    assert len(said) == 2
    assert all("new target" in text or "first contact" in text or "usual" in text for text in said)
    assert trained.explain(later, trained.initial_state(later), np.zeros(0, dtype=np.int64)) == []


def test_nothing_is_said_about_edges_that_were_not_asked_for(trained: Any, past: Any) -> None:
    said = trained.explain(past, trained.initial_state(past), np.array([past.num_edges - 1]))
    assert len(said) == 1
