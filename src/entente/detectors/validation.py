"""How well a detector ranks the edges of later windows before non-edges."""

from __future__ import annotations

import numpy as np

from entente.detectors.base import Candidates, Detector, Validation
from entente.detectors.neural import average_precision_and_auc
from entente.graphs.sampling import NonEdges
from entente.graphs.temporal import TemporalGraph


def validate_later(
    detector: Detector, graph: TemporalGraph, later: TemporalGraph, rng: np.random.Generator
) -> Validation:
    """AP and AUC of the edges of `later`, the windows after `graph`, against as many non-edges of them."""
    drawn = Candidates(*NonEdges(later).draw(np.diff(later.offsets), rng))
    if not later.num_edges or not len(drawn.window):
        return Validation(0.0, 0.0, 0)
    _, state = detector.score(graph, detector.initial_state(graph))
    real, _ = detector.score(later, state)
    other, _ = detector.score(later, state, drawn)
    truth = np.arange(len(real) + len(other)) < len(real)
    ap, auc = average_precision_and_auc(truth, -np.concatenate((real, other)))
    return Validation(ap, auc, len(real))
