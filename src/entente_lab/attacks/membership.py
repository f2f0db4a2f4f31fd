"""Membership inference: which pairs of hosts was a silo's update trained on?

The attacker here knows more than any real one: the silo's whole graph, and that a random half of its pairs
was trained on. All that is left to find out is which half. An AUC of 0.5 is a coin, 1.0 is certainty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays
from entente.detection.metrics import area_under_roc
from entente.detectors.base import Detector
from entente.graphs.temporal import TemporalGraph

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Sighting:
    """What an observer saw of one round: the model that everybody had, and the one that came out of it."""

    before: Arrays
    after: Arrays


@dataclass(frozen=True, slots=True, eq=False)
class Halves:
    """A silo's history, whose pairs were cut in two: one half is trained on, the other is not."""

    graph: TemporalGraph
    trained: TemporalGraph
    pair: NDArray[np.int64]  # of each edge of `graph`: a number
    member: NDArray[np.bool_]  # of each pair

    @classmethod
    def of(cls, graph: TemporalGraph, rng: np.random.Generator) -> Halves:
        keys = graph.src.astype(np.int64) * graph.num_nodes + graph.dst
        present, pair = np.unique(keys, return_inverse=True)
        member = rng.random(len(present)) < 0.5
        return cls(graph, graph.select(member[pair]), pair, member)

    def auc(self, edge_score: Floats) -> float | None:
        """How well the mean score of a pair's edges tells members from the rest."""
        count = np.bincount(self.pair, minlength=len(self.member))
        mean = np.bincount(self.pair, weights=edge_score, minlength=len(self.member)) / count
        return area_under_roc(mean, self.member)


def by_score(detector: Detector, seen: Sighting, halves: Halves) -> float | None:
    """Members are those whose edges became more usual from the model before to the model after."""
    scores = []
    for weights in (seen.before, seen.after):
        detector.load_weights(weights)
        found, _ = detector.score(halves.graph, detector.initial_state(halves.graph))
        scores.append(found.astype(np.float64))
    return halves.auc(scores[0] - scores[1])


def by_rows(seen: Sighting, tables: tuple[str, ...], halves: Halves) -> float | None:
    """Members are those both of whose hosts have identity rows that moved; None without such rows."""
    length = row_steps(seen, tables)
    if length is None:
        return None
    host = length[halves.graph.rows].sum(axis=1)
    return halves.auc(np.minimum(host[halves.graph.src], host[halves.graph.dst]))


def row_steps(seen: Sighting, tables: tuple[str, ...]) -> Floats | None:
    """How far each row of the identity tables moved; None where a model has none."""
    steps = [(seen.after[name] - seen.before[name]).astype(np.float64) for name in tables]
    if not steps:
        return None
    total: Floats = np.sqrt(sum((step.reshape(len(step), -1) ** 2).sum(axis=1) for step in steps))
    return total
