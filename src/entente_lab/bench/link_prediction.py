"""Jbeil's test in the paper: real edges of the last events against sampled non-edges.

A non-edge is the positive class, as in the paper: it is what the detector should find unexpected. Its
target is drawn among the hosts that are a destination somewhere, as Jbeil's authors do. Targets drawn among
all hosts are easier (nobody ever logs on to most workstations); their figures stand apart, `_any`.
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
from entente.errors import GraphError
from entente.graphs.sampling import NonEdges
from entente.runtime.assembly import Dataset, SiloData, load_dataset

REDRAWS = 50
EDGE, AMONG_DESTINATIONS, AMONG_ALL = 0, 1, 2
"""What a pair is: an edge, or a non-edge with its target drawn among destinations or among all hosts."""
NOTHING = Candidates(
    np.zeros(0, dtype=np.int64),
    np.zeros(0, dtype=np.int32),
    np.zeros(0, dtype=np.int32),
    np.zeros(0, dtype=np.int64),
)
"""No pair: a detector that is asked about nothing takes the events in and need not score them."""
HIDDEN = 0.3
"""Share of hosts hidden in the inductive test, for rules that have no such setting."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """Pairs that one silo is asked about: edge, non-edge, easier non-edge, edge, ... by window."""

    candidates: Candidates
    kind: NDArray[np.uint8]  # EDGE, AMONG_DESTINATIONS or AMONG_ALL


def evaluate_links(
    experiment: Experiment, dataset: Dataset, detectors: Mapping[str, Detector], *, inductive: bool
) -> dict[str, Any]:
    """AP and AUC over all silos' questions, and per silo; an edge between two silos is asked of both."""
    asking = single_events(experiment, dataset)
    share = getattr(experiment.detector, "hidden_hosts", HIDDEN) if inductive else 0.0
    scores, kinds, per_silo = [], [], {}
    for name, silo in asking.silos.items():
        question = ask(silo, experiment.seed, share)
        if not len(question.kind):
            continue
        answering = dataset.silos.get(name, next(iter(dataset.silos.values())))
        found = answer(question, silo, answering, detectors[answering.name], share)
        scores.append(found)
        kinds.append(question.kind)
        per_silo[name] = figures(found, question.kind)
    if not scores:
        raise GraphError(
            "no silo has an edge in the test to be asked about",
            remedy="Give link prediction a larger share of the events.",
        )
    score, kind = np.concatenate(scores), np.concatenate(kinds)
    hard = kind != AMONG_ALL
    curve = pr_curve(score[hard], kind[hard] > EDGE, 100).as_dict()
    return {
        "values": figures(score, kind),
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
    """Each test edge beside two non-edges of the same source, moment and window.

    With `hidden` > 0 only edges of hosts that are hidden from training are asked about.
    """
    test = silo.test
    words = np.frombuffer(hashlib.sha256(silo.name.encode()).digest(), dtype="<u4").tolist()
    rng = np.random.default_rng([seed, *words])
    window, src, dst = test.window_of_edge(), test.src.astype(np.int64), test.dst.astype(np.int64)
    kept = np.ones(len(src), dtype=np.bool_)
    if hidden:
        unseen = hidden_hosts(test, hidden)
        kept = unseen[src] | unseen[dst]
    pools = (destinations(silo, kept if hidden else None), np.arange(test.num_nodes))
    targets = [dst]
    for pool in pools:
        drawn, found = other_targets(silo, window, src, pool, rng)
        targets.append(drawn)
        kept &= found
    each = np.repeat(np.flatnonzero(kept), len(targets))
    kind = np.tile(np.arange(len(targets), dtype=np.uint8), int(kept.sum()))
    target = np.stack(targets)[kind, each]
    candidates = Candidates(
        window[each], src[each].astype(np.int32), target.astype(np.int32), test.time[each]
    )
    return Question(candidates, kind)


def destinations(silo: SiloData, asked: NDArray[np.bool_] | None) -> NDArray[np.int64]:
    """The hosts that anybody connects to: in all of the silo's events, or in the test edges `asked`."""
    if asked is not None:
        return np.unique(silo.test.dst[asked]).astype(np.int64)
    parts = (silo.train, silo.validation, silo.test)
    return np.unique(np.concatenate([part.dst for part in parts])).astype(np.int64)


def other_targets(
    silo: SiloData,
    window: NDArray[np.int64],
    src: NDArray[np.int64],
    pool: NDArray[np.int64],
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """A target out of `pool` for every source that is no edge of that window; False where none was found."""
    graph = silo.test
    edges = NonEdges(graph)
    dst = np.zeros(len(src), dtype=np.int64)
    left = np.arange(len(src))
    for _ in range(REDRAWS if len(pool) else 0):
        dst[left] = pool[rng.integers(0, len(pool), len(left))]
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
    _, state = detector.score(past, detector.initial_state(past), NOTHING)
    if answering.validation.num_windows:
        _, state = detector.score(answering.validation, state, NOTHING)
    scores, _ = detector.score(answering.test, state, candidates)
    return scores


def figures(score: NDArray[np.float32], kind: NDArray[np.uint8]) -> dict[str, Any]:
    """AP and AUC of the edges against the non-edges among destinations, and against those among all hosts."""
    found: dict[str, Any] = {}
    for other, ending in ((AMONG_DESTINATIONS, ""), (AMONG_ALL, "_any")):
        chosen = (kind == EDGE) | (kind == other)
        found |= {
            f"ap{ending}": average_precision(score[chosen], kind[chosen] == other),
            f"auc{ending}": area_under_roc(score[chosen], kind[chosen] == other),
        }
    asked = int((kind == EDGE).sum())
    return {**found, "positives": asked, "edges": 2 * asked}
