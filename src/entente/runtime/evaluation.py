"""A trained model -> scores of the test windows, thresholds and metrics, for every silo and overall."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from entente.artifacts import replacing
from entente.config import Detection
from entente.detection.scored import ScoredEdges, unite
from entente.detection.thresholds import learn_threshold
from entente.detectors import baseline
from entente.detectors.base import Detector, GraphShape, State
from entente.runtime.assembly import Dataset, SiloData

NEVER = float(np.finfo(np.float32).max)
"""Threshold of a silo that has not one benign edge to learn it from."""

SCORES = pa.schema(
    [
        ("window", pa.int64()),
        ("src", pa.dictionary(pa.int32(), pa.string())),
        ("dst", pa.dictionary(pa.int32(), pa.string())),
        ("score", pa.float32()),
        ("threshold", pa.float32()),
        ("alert", pa.bool_()),
        ("silo", pa.dictionary(pa.int32(), pa.string())),
        ("own_source", pa.bool_()),
        ("label", pa.uint8()),
    ]
)
"""Columns of scores.parquet; `label` only where the log has labels."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """One method's outcome on a dataset."""

    scored: dict[str, ScoredEdges]
    thresholds: dict[str, float]
    states: dict[str, State]
    detection: Detection

    def overall(self) -> ScoredEdges:
        """Every edge once, with the score of the silo that owns its source; see `unite`."""
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


def label_scores(silo: SiloData, scores: NDArray[np.float32], threshold: float) -> ScoredEdges:
    test = silo.test
    return ScoredEdges(
        hosts=silo.names,
        silos=(silo.name,),
        thresholds=(threshold,),
        width=test.width,
        window=test.start + test.window_of_edge() * test.width,
        src=test.src,
        dst=test.dst,
        score=scores,
        silo=np.zeros(len(scores), dtype=np.int16),
        own_source=silo.own[test.src],
        alert=scores > np.float32(threshold),
        label=test.label,
    )


def evaluate_rule(dataset: Dataset, rule: str, detection: Detection) -> Evaluation:
    """A trivial rule, given exactly what the silos' models are given."""
    shape = GraphShape(dataset.shape.table_size, dataset.shape.rows_per_host)
    detectors = {name: baseline(rule, shape) for name in dataset.silos}
    return evaluate_models(dataset, detectors, detection)


def write_scores(path: Path, evaluation: Evaluation) -> None:
    """scores.parquet: one row per edge and silo that sees it."""
    import pyarrow.parquet as pq

    schema = SCORES if any(s.label is not None for s in evaluation.scored.values()) else SCORES.remove(8)
    with replacing(path) as temporary, pq.ParquetWriter(temporary, schema) as writer:
        for scored in evaluation.scored.values():
            writer.write_table(_table(scored, schema))


def _table(scored: ScoredEdges, schema: pa.Schema) -> pa.Table:
    hosts = pa.array(scored.hosts.tolist(), pa.string())
    columns: dict[str, Any] = {
        "window": scored.window,
        "src": pa.DictionaryArray.from_arrays(scored.src, hosts),
        "dst": pa.DictionaryArray.from_arrays(scored.dst, hosts),
        "score": scored.score,
        "threshold": scored.threshold,
        "alert": scored.alert,
        "silo": pa.DictionaryArray.from_arrays(scored.silo.astype(np.int32), list(scored.silos)),
        "own_source": scored.own_source,
        "label": pa.nulls(len(scored), pa.uint8()) if scored.label is None else scored.label,
    }
    return pa.table([columns[name] for name in schema.names], schema=schema)
