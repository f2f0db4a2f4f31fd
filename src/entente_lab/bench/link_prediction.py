"""Jbeil's test in the paper: real edges of the last events against sampled non-edges.

A non-edge is the positive class, as in the paper: it is what the detector should find unexpected.
Every method, the central one and the rules included, is asked about the same pairs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.config import Experiment, detector_options
from entente.detection.metrics import area_under_roc, average_precision, pr_curve
from entente.detectors import find
from entente.detectors.base import Candidates, Detector
from entente.detectors.jbeil.detector import hidden_hosts
from entente.graphs.sampling import NonEdges
from entente.runtime.assembly import Dataset, SiloData, load_dataset

REDRAWS = 50
HIDDEN = 0.3
"""Share of hosts hidden in the inductive test, for rules that have no such setting."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """Pairs that one silo is asked about: edge, non-edge, edge, ... by window."""

    candidates: Candidates
    label: NDArray[np.uint8]  # 1 = non-edge


def evaluate_links(
    experiment: Experiment, dataset: Dataset, detectors: Mapping[str, Detector], *, inductive: bool
) -> dict[str, Any]:
    """AP and AUC over all silos' questions, and per silo; an edge between two silos is asked of both."""
    asking = single_events(experiment, dataset)
    share = getattr(experiment.detector, "hidden_hosts", HIDDEN) if inductive else 0.0
    scores, labels, per_silo = [], [], {}
    for name, silo in asking.silos.items():
        question = ask(silo, experiment.seed, share)
        if not len(question.label):
            continue
        answering = dataset.silos.get(name, next(iter(dataset.silos.values())))
        found = answer(question, silo, answering, detectors[answering.name], share)
        scores.append(found)
        labels.append(question.label)
        per_silo[name] = figures(found, question.label)
    score, label = np.concatenate(scores), np.concatenate(labels)
    curve = pr_curve(score, label, 100).as_dict()
    return {
        "values": figures(score, label),
        "per_silo": per_silo,
        "curve": {name: [round(v, 5) for v in values] for name, values in curve.items()},
    }


def single_events(experiment: Experiment, dataset: Dataset) -> Dataset:
    """The silos' graphs with every event as an edge of its own, whatever the method trains on."""
    if experiment.mode != "non-fl" and not any(silo.test.merged for silo in dataset.silos.values()):
        return dataset
    detector = experiment.detector
    if find(detector.name).merged:
        detector = detector_options({"name": "jbeil"})
    return load_dataset(experiment.model_copy(update={"mode": "federated", "detector": detector}))


def ask(silo: SiloData, seed: int, hidden: float) -> Question:
    """Each test edge beside a non-edge of the same source, moment and window.

    With `hidden` > 0 only edges of hosts that are hidden from training are asked about.
    """
    test = silo.test
    words = np.frombuffer(hashlib.sha256(silo.name.encode()).digest(), dtype="<u4").tolist()
    rng = np.random.default_rng([seed, *words])
    window, src, dst = test.window_of_edge(), test.src.astype(np.int64), test.dst.astype(np.int64)
    drawn, found = other_targets(silo, window, src, rng)
    kept = found
    if hidden:
        unseen = hidden_hosts(test, hidden)
        kept = found & (unseen[src] | unseen[dst])
    window, src, dst, drawn = (values[kept] for values in (window, src, dst, drawn))
    both = np.repeat(np.arange(len(src)), 2)
    label = np.tile(np.array([0, 1], dtype=np.uint8), len(src))
    target = np.where(label == 1, drawn[both], dst[both])
    candidates = Candidates(
        window[both], src[both].astype(np.int32), target.astype(np.int32), test.time[kept][both]
    )
    return Question(candidates, label)


def other_targets(
    silo: SiloData, window: NDArray[np.int64], src: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """A target for every source that is no edge of that window; False where none was found."""
    graph = silo.test
    edges = NonEdges(graph)
    dst = np.zeros(len(src), dtype=np.int64)
    left = np.arange(len(src))
    for _ in range(REDRAWS):
        dst[left] = rng.integers(0, graph.num_nodes, len(left))
        taken = edges.contains(window[left], src[left], dst[left]) | (src[left] == dst[left])
        left = left[taken]
        if not len(left):
            break
    found = np.ones(len(src), dtype=np.bool_)
    found[left] = False
    return dst, found


def answer(
    question: Question, asking: SiloData, answering: SiloData, detector: Detector, hidden: float
) -> NDArray[np.float32]:
    """Anomaly scores, from a detector that has seen everything before the test, hidden hosts excepted."""
    candidates = question.candidates
    if answering.name != asking.name:
        number = answering.hosts.numbers(asking.hosts.names)
        candidates = Candidates(
            candidates.window, number[candidates.src], number[candidates.dst], candidates.time
        )
    past = answering.train
    if hidden:
        unseen = hidden_hosts(past, hidden)
        past = past.select(~(unseen[past.src] | unseen[past.dst]))
    _, state = detector.score(past, detector.initial_state(past))
    if answering.validation.num_windows:
        _, state = detector.score(answering.validation, state)
    scores, _ = detector.score(answering.test, state, candidates)
    return scores


def figures(score: NDArray[np.float32], label: NDArray[np.uint8]) -> dict[str, Any]:
    return {
        "ap": average_precision(score, label),
        "auc": area_under_roc(score, label),
        "positives": int(label.sum()),
        "edges": len(label),
    }
