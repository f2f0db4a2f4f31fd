"""A trained model -> scores of the test windows, thresholds and metrics, for every silo and overall."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from entente.config import Detection
from entente.detection.history import Edges
from entente.detection.linked import own_part
from entente.detection.policy import AlertPolicy
from entente.detection.raising import Raised, raise_alerts
from entente.detection.scored import ScoredEdges, unite
from entente.detection.thresholds import Calibration, learn_threshold
from entente.detectors import baseline
from entente.detectors.base import Detector, Standing, State
from entente.federation.exchange.keys import ExchangeKey
from entente.graphs.hosts import HostTable
from entente.graphs.temporal import TemporalGraph
from entente.runs.exchange import ExchangeState
from entente.runs.records import RunMetrics
from entente.runtime.assembly import Dataset, SiloData
from entente.runtime.exchanging import ExchangeView, exchange

NEVER = float(np.finfo(np.float32).max)
"""Threshold of a silo that has not one benign edge to learn it from."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """One method's outcome on a dataset."""

    scored: dict[str, ScoredEdges]
    thresholds: dict[str, float]
    states: dict[str, State]  # after the test windows
    before: dict[str, State]  # before them
    calibrations: dict[str, Calibration]
    standing: dict[str, Standing]  # who stood out in them
    short: dict[str, int]  # test windows with too little history before them, of silos that have any
    detection: Detection

    def overall(self) -> ScoredEdges:
        """Every edge once, with the score of the silo that owns its source; see `unite`."""
        return unite(list(self.scored.values()))

    def metrics(self) -> RunMetrics:
        budgets = self.detection.budgets
        return RunMetrics(
            overall=self.overall().metrics(budgets),
            per_silo={name: scored.metrics(budgets) for name, scored in self.scored.items()},
            short_history=self.short,
        )


def evaluate_models(dataset: Dataset, detectors: Mapping[str, Detector], detection: Detection) -> Evaluation:
    """Score every silo's test windows with its detector; thresholds come from validation windows only."""
    found = {
        name: score_silo(silo, detectors[name], detection.false_alarms)
        for name, silo in dataset.silos.items()
    }
    return Evaluation(
        scored={n: label_scores(dataset.silos[n], one.scores, one.threshold) for n, one in found.items()},
        thresholds={name: one.threshold for name, one in found.items()},
        states={name: one.state for name, one in found.items()},
        before={name: one.before for name, one in found.items()},
        calibrations={name: one.calibration for name, one in found.items()},
        standing={name: one.standing for name, one in found.items()},
        short={name: one.short for name, one in found.items() if one.short},
        detection=detection,
    )


def raise_from(
    dataset: Dataset,
    evaluation: Evaluation,
    detectors: Mapping[str, Detector],
    key: ExchangeKey | None = None,
) -> tuple[dict[str, Raised], dict[str, ExchangeState]]:
    """The alerts of the test windows by silo, each silo's by its own history.

    With a key silos also tell each other which hosts stand out; then there is a state of that, too.
    """
    policy = AlertPolicy(evaluation.detection.alerts_per_day, evaluation.detection.exclude)
    past = {
        name: (edge_columns(silo.train), edge_columns(silo.validation))
        for name, silo in dataset.silos.items()
    }
    raised = {
        name: raise_alerts(
            evaluation.scored[name],
            silo.hosts.own,
            past[name],
            policy if key is None else own_part(policy),
            evaluation.calibrations[name],
            partial(detectors[name].explain, silo.test, evaluation.before[name]),
        )
        for name, silo in dataset.silos.items()
    }
    if key is None:
        return raised, {}
    views = [
        ExchangeView(
            hosts=silo.hosts,
            scored=evaluation.scored[name],
            span=(silo.test.start, silo.test.start + silo.test.width * (silo.test.num_windows - 1)),
            standing=evaluation.standing[name],
            detector=detectors[name],
            history=past[name],
            policy=policy,
            calibration=evaluation.calibrations[name],
            raised=raised[name],
        )
        for name, silo in dataset.silos.items()
        if silo.test.num_windows
    ]
    heard = exchange(views, key)[0]
    return raised | {n: one.raised for n, one in heard.items()}, {n: o.state for n, o in heard.items()}


@dataclass(frozen=True, slots=True, eq=False)
class SiloScores:
    """A silo's test scores, and what its validation windows taught."""

    scores: NDArray[np.float32]
    threshold: float
    before: State  # in front of the test windows
    state: State
    calibration: Calibration
    standing: Standing
    short: int


def score_silo(silo: SiloData, detector: Detector, false_alarms: float) -> SiloScores:
    """Warm up on training windows, learn the threshold on validation windows, score the test."""
    _, state = detector.score(silo.train, detector.initial_state(silo.train))
    seen, state = detector.score(silo.validation, state)
    if not len(seen):  # silent in the validation windows: the training windows have to do
        seen, _ = detector.score(silo.train, detector.initial_state(silo.train))
    threshold = learn_threshold(seen, false_alarms) if len(seen) else NEVER
    scores, after, standing = detector.score_hosts(silo.test, state)
    short = detector.short_windows(silo.test, state)
    return SiloScores(scores, threshold, state, after, Calibration.of(seen), standing, short)


def label_scores(silo: SiloData, scores: NDArray[np.float32], threshold: float) -> ScoredEdges:
    """The test edges of a silo with their scores."""
    return score_columns(silo.name, silo.hosts, silo.test, scores, threshold)


def score_columns(
    silo: str, hosts: HostTable, graph: TemporalGraph, scores: NDArray[np.float32], threshold: float
) -> ScoredEdges:
    """The edges of a silo's graph with their scores; raised is what exceeds the silo's threshold."""
    window, src, dst = edge_columns(graph)
    return ScoredEdges(
        hosts=hosts.names,
        silos=(silo,),
        thresholds=(threshold,),
        width=graph.width,
        window=window,
        src=src,
        dst=dst,
        score=scores,
        silo=np.zeros(len(scores), dtype=np.int16),
        own_source=hosts.own[src],
        alert=scores > np.float32(threshold),
        label=graph.label,
    )


def edge_columns(graph: TemporalGraph) -> Edges:
    """Window starts, sources and targets of a graph's edges, as a history takes them."""
    return graph.start + graph.window_of_edge() * graph.width, graph.src, graph.dst


def evaluate_baseline(dataset: Dataset, rule: str, detection: Detection) -> Evaluation:
    """A baseline, given exactly what the silos' models are given."""
    shape = dataset.shape
    detectors = {name: baseline(rule, shape) for name in dataset.silos}
    return evaluate_models(dataset, detectors, detection)
