"""Scores of single events: each event has the score of the edge that it is part of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from entente.detection.scored import ScoredEdges, unite
from entente.errors import UsageError
from entente.runs.folder import RunFolder
from entente.runtime.assembly import load_dataset, trained_detector
from entente.runtime.evaluation import score_columns
from entente.runtime.nights import NightRequest, nights


def training_edges(run: RunFolder) -> Iterator[ScoredEdges]:
    """The edges of the run's own windows, each scored with what was known before its window."""
    experiment = run.experiment()
    models, card = run.read_model()
    dataset = load_dataset(experiment)
    for name, silo in dataset.silos.items():
        detector = trained_detector(experiment, dataset.shape, models, name)
        state = detector.initial_state(silo.train)
        for part in (silo.train, silo.validation, silo.test):
            scores, state = detector.score(part, state)
            unlabelled = replace(part, label=None)
            yield score_columns(name, silo.hosts, unlabelled, scores, card.thresholds[name])


def later_edges(run: RunFolder, events: Path) -> Iterator[ScoredEdges]:
    """The edges of windows after the run's end, scored from its memory, which stays as it is."""
    experiment = run.experiment()
    models, card = run.read_model()
    for night in nights(NightRequest(run, events), experiment, card.shape, sorted(card.thresholds)):
        if night.graph is None:
            continue
        detector, before = trained_detector(experiment, card.shape, models, night.judge), night.before
        state = detector.initial_state(night.graph) if before.detector is None else before.detector
        scores, _ = detector.score(night.graph, state)
        unlabelled = replace(night.graph, label=None)
        yield score_columns(night.silo, night.hosts, unlabelled, scores, card.thresholds[night.judge])


def of_events(parts: list[ScoredEdges], events: pa.Table) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """For each event the score of its edge, and whether a silo raises it.

    An event of a host with itself is no edge: nothing unusual, 0. UsageError if an edge was not scored.
    """
    score, alert = np.zeros(events.num_rows, dtype=np.float32), np.zeros(events.num_rows, dtype=bool)
    src, dst = (np.array(events[name].to_pylist(), dtype=np.str_) for name in ("src", "dst"))
    between = src != dst
    if not between.any():
        return score, alert
    edges = unite(parts)
    hosts, place = edges.hosts, []
    for names in (src[between], dst[between]):
        found = np.minimum(np.searchsorted(hosts, names), len(hosts) - 1)
        place.append(np.where(hosts[found] == names, found, -1))
    start = int(edges.window.min())
    window = (events["time"].to_numpy()[between] - start) // edges.width
    wanted = np.stack([window, *place], axis=1)
    known = np.stack([(edges.window - start) // edges.width, edges.src, edges.dst], axis=1)
    row = _places(known, wanted)
    if (row < 0).any():
        raise UsageError(
            f"{int((row < 0).sum()):,} of the events lie before the end of `fit` and were not part of it",
            remedy="Score events of `fit`, or later ones.",
        )
    score[between], alert[between] = edges.score[row], edges.alert[row]
    return score, alert


def _places(known: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row of `wanted` its place in `known`, -1 where there is none."""
    whole, number = np.unique(np.concatenate([known, wanted]), axis=0, return_inverse=True)
    row = np.full(len(whole), -1, dtype=np.int64)
    number = number.reshape(-1)
    row[number[: len(known)]] = np.arange(len(known))
    return row[number[len(known) :]]
