"""A trained model -> scores of the test windows, thresholds and metrics, for every silo and overall."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from entente.artifacts import replacing
from entente.config import BaselineOptions, Detection
from entente.detection.metrics import Metrics, evaluate
from entente.detection.thresholds import learn_threshold
from entente.detectors import create
from entente.detectors.base import Detector, GraphShape, State
from entente.runtime.assembly import Dataset, SiloData

NEVER = float(np.finfo(np.float32).max)
"""Threshold of a silo that has not one benign edge to learn it from."""

BASELINES = ("first-seen", "pair-frequency", "rare-target", "novelty-burst")


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Test edges with their scores. `window` is the window's start in microseconds."""

    window: NDArray[np.int64]
    src: NDArray[np.str_]
    dst: NDArray[np.str_]
    score: NDArray[np.float32]
    threshold: NDArray[np.float32]  # of the silo that scored the edge
    label: NDArray[np.uint8] | None
    silo: NDArray[np.str_]
    window_seconds: float

    def metrics(self, budgets: tuple[int, ...]) -> Metrics:
        """Ranking by score; an alert is what exceeds the threshold of the silo that scored it."""
        return evaluate(
            self.score, self.label, self.window, self.threshold, self.window_seconds, budgets, self.src
        )

    def table(self) -> pa.Table:
        columns: dict[str, Any] = {
            "window": self.window,
            "src": pa.array(self.src.tolist(), pa.string()),
            "dst": pa.array(self.dst.tolist(), pa.string()),
            "score": self.score,
            "threshold": self.threshold,
            "silo": pa.array(self.silo.tolist(), pa.string()),
        }
        if self.label is not None:
            columns["label"] = self.label
        return pa.table(columns)


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """One method's outcome on a dataset."""

    scored: dict[str, Scored]
    thresholds: dict[str, float]
    states: dict[str, State]
    detection: Detection

    def overall(self) -> Scored:
        """Every edge once: one that two silos see counts with the higher score, as either would alert."""
        return unite(list(self.scored.values()))

    def metrics(self) -> dict[str, Any]:
        budgets = self.detection.budgets
        return {
            "overall": self.overall().metrics(budgets).as_dict(),
            "per_silo": {name: s.metrics(budgets).as_dict() for name, s in self.scored.items()},
        }


def evaluate_models(dataset: Dataset, detectors: Mapping[str, Detector], detection: Detection) -> Evaluation:
    """Score every silo's test windows with its detector; thresholds come from validation windows only."""
    scored, thresholds, states = {}, {}, {}
    for name, silo in dataset.silos.items():
        scores, threshold, state = score_silo(silo, detectors[name], detection.false_alarms)
        thresholds[name], states[name] = threshold, state
        scored[name] = label_scores(silo, scores, threshold)
    return Evaluation(scored, thresholds, states, detection)


def score_silo(
    silo: SiloData, detector: Detector, false_alarms: float
) -> tuple[NDArray[np.float32], float, State]:
    """Warm up on training windows, learn the threshold on validation windows, score the test."""
    _, state = detector.score(silo.train, detector.initial_state(silo.train))
    seen, state = detector.score(silo.validation, state)
    if not len(seen):  # silent in the validation windows: the training windows have to do
        seen, _ = detector.score(silo.train, detector.initial_state(silo.train))
    threshold = learn_threshold(seen, false_alarms) if len(seen) else NEVER
    scores, state = detector.score(silo.test, state)
    return scores, threshold, state


def label_scores(silo: SiloData, scores: NDArray[np.float32], threshold: float) -> Scored:
    test = silo.test
    return Scored(
        window=test.start + test.window_of_edge() * test.width,
        src=silo.names[test.src],
        dst=silo.names[test.dst],
        score=scores,
        threshold=np.full(len(scores), threshold, dtype=np.float32),
        label=test.label,
        silo=np.full(len(scores), silo.name),
        window_seconds=test.width / 1_000_000,
    )


def evaluate_rule(dataset: Dataset, rule: str, detection: Detection) -> Evaluation:
    """A trivial rule, given exactly what the silos' models are given."""
    shape = GraphShape(dataset.shape.table_size, dataset.shape.rows_per_host)
    detectors = {
        name: create(BaselineOptions.model_validate({"name": rule}), shape, 0) for name in dataset.silos
    }
    return evaluate_models(dataset, detectors, detection)


def unite(parts: list[Scored]) -> Scored:
    """Several silos' scored edges as one set, each (window, src, dst) once with its highest score."""
    labels = [part.label for part in parts if part.label is not None]
    whole = Scored(
        window=np.concatenate([p.window for p in parts]),
        src=np.concatenate([p.src for p in parts]),
        dst=np.concatenate([p.dst for p in parts]),
        score=np.concatenate([p.score for p in parts]),
        threshold=np.concatenate([p.threshold for p in parts]),
        label=np.concatenate(labels) if len(labels) == len(parts) else None,
        silo=np.concatenate([p.silo for p in parts]),
        window_seconds=parts[0].window_seconds,
    )
    hosts, ends = np.unique(np.concatenate([whole.src, whole.dst]), return_inverse=True)
    edges = len(whole.src)
    pair = ends[:edges].astype(np.int64) * len(hosts) + ends[edges:]
    # An alert of either silo is an alert, so the higher margin over the own threshold goes first.
    order = np.lexsort((-(whole.score - whole.threshold), pair, whole.window))
    first = np.ones(edges, dtype=bool)
    first[1:] = (np.diff(whole.window[order]) != 0) | (np.diff(pair[order]) != 0)
    groups = np.cumsum(first) - 1
    kept = order[first]
    best = whole.score[kept].copy()
    np.maximum.at(best, groups, whole.score[order])
    return replace(
        whole,
        window=whole.window[kept],
        src=whole.src[kept],
        dst=whole.dst[kept],
        score=best,
        threshold=whole.threshold[kept],
        label=None if whole.label is None else whole.label[kept],
        silo=whole.silo[kept],
    )


def write_scores(path: Path, evaluation: Evaluation) -> None:
    import pyarrow.parquet as pq

    tables = [scored.table() for scored in evaluation.scored.values()]
    with replacing(path) as temporary:
        pq.write_table(pa.concat_tables(tables, promote_options="default"), temporary)
