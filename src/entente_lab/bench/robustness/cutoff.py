"""Euler's own threshold: where weighted true and false positive rates meet on validation windows.

Euler looks for the score at which (1 - lambda) * TPR = lambda * (1 - FPR), lambda = 0.6. "Positive" is an
edge that is there, "negative" a sampled pair that is not; an alert is an edge that scores like the latter.
The paper's SR was counted at this threshold, ours is counted at a promised share of false alarms.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from entente.detectors.base import Candidates, Detector, State
from entente.graphs.sampling import NonEdges
from entente.graphs.temporal import TemporalGraph

LAMBDA = 0.6


def meeting_point(
    edges: NDArray[np.float32], others: NDArray[np.float32], weight: float = LAMBDA
) -> float | None:
    """The anomaly score that separates them best in Euler's sense; None without both kinds."""
    if not len(edges) or not len(others):
        return None
    known, absent = np.sort(edges), np.sort(others)
    scores = np.unique(np.concatenate((known, absent)))
    tpr = np.searchsorted(known, scores, "right") / len(known)
    fpr = np.searchsorted(absent, scores, "right") / len(absent)
    gap = np.abs((1.0 - weight) * tpr - weight * (1.0 - fpr))
    return float(scores[int(np.argmin(gap))])


def euler_threshold(detector: Detector, graph: TemporalGraph, state: State, seed: int) -> float | None:
    """The threshold from a graph of benign windows, with one sampled non-edge per edge."""
    edges, _ = detector.score(graph, state)
    window, src, dst = NonEdges(graph).draw(np.diff(graph.offsets), np.random.default_rng([seed, 104_729]))
    others, _ = detector.score(graph, state, Candidates(window, src, dst))
    return meeting_point(edges, others)
