"""A model and a baseline scored together: the model's surprise, times what the silo's own counts say."""

from __future__ import annotations

import numpy as np

from entente.detectors.base import Candidates, Detector, Standing, State
from entente.detectors.wrapper import Wrapper, joined, parts
from entente.graphs.temporal import Float32, Int64, TemporalGraph

LEAST = 1e-7
"""Probabilities of an edge below this count as this: float32 cannot tell them apart."""
COUNTED = "rule/"
"""How names of the baseline's state begin; stored states have them."""


class Ensemble(Wrapper):
    """Trained, weighed and sent as the model alone; only what it scores knows of the baseline.

    An edge's score is -log P(edge) of the model times the baseline's score. The baseline is counted from the
    silo's own logs, so nobody else can poison it, and an edge that every night has cannot rank high because
    the model has it wrong.
    """

    def __init__(self, model: Detector, baseline: Detector) -> None:
        super().__init__(model)
        self.baseline = baseline

    def initial_state(self, graph: TemporalGraph) -> State:
        return joined(self.model.initial_state(graph), self.baseline.initial_state(graph), COUNTED)

    def score(
        self, graph: TemporalGraph, state: State, candidates: Candidates | None = None
    ) -> tuple[Float32, State]:
        of_model, of_baseline = parts(state, COUNTED)
        anomaly, of_model = self.model.score(graph, of_model, candidates)
        rarity, of_baseline = self.baseline.score(graph, of_baseline, candidates)
        return _product(anomaly, rarity), joined(of_model, of_baseline, COUNTED)

    def score_hosts(self, graph: TemporalGraph, state: State) -> tuple[Float32, State, Standing]:
        of_model, of_baseline = parts(state, COUNTED)
        anomaly, of_model, standing = self.model.score_hosts(graph, of_model)
        rarity, of_baseline = self.baseline.score(graph, of_baseline)
        return _product(anomaly, rarity), joined(of_model, of_baseline, COUNTED), standing

    def short_windows(self, graph: TemporalGraph, state: State) -> int:
        return self.model.short_windows(graph, parts(state, COUNTED)[0])

    def explain(self, graph: TemporalGraph, state: State, edges: Int64) -> list[str]:
        return self.model.explain(graph, parts(state, COUNTED)[0], edges)


def _product(anomaly: Float32, rarity: Float32) -> Float32:
    surprise = -np.log(np.maximum(1.0 - anomaly.astype(np.float64), LEAST))
    return (surprise * rarity).astype(np.float32)
