"""The strongest counting we know: evidence of the source in the last day, against its own habit.

A source's evidence is the sum of 1 / (2 + sources of t) over its new targets t, with a half-life of 24 hours.
It shares memory and code with the features of the behaviour detector.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from entente.detectors.base import Candidates, State
from entente.detectors.baselines.base import Baseline, check, ties
from entente.detectors.behaviour.features import COLUMN, describe
from entente.detectors.behaviour.memory import Memory, pair_keys
from entente.graphs.temporal import Float32, TemporalGraph

YOUNG = 24.0
"""Hours for which a pair is young."""


class Evidence(Baseline):
    name = "evidence"
    summary = "New pairs first, by the source's evidence of the last day against its own habit."
    reference = True
    young: ClassVar[float] = 0.0
    """Hours after its first contact for which a pair still counts as new."""

    def initial_state(self, graph: TemporalGraph) -> State:
        return Memory.empty(graph.num_nodes)

    def score(
        self, graph: TemporalGraph, state: State, candidates: Candidates | None = None
    ) -> tuple[Float32, State]:
        check(graph)
        memory = Memory(state, graph)
        own, other = describe(memory, graph, candidates)
        if candidates is None:
            raw, window, keys = own, graph.window_of_edge(), pair_keys(graph.src, graph.dst)
        else:
            raw, window, keys = other, candidates.window, pair_keys(candidates.src, candidates.dst)
        new = (raw[:, COLUMN["new"]] > 0) | (raw[:, COLUMN["pair_age"]] < self.young)
        relative = raw[:, COLUMN["relative"]].astype(np.float64)
        tie = 1.0 + ties(keys, graph.start + window * graph.width)
        score = np.where(new, 1.0 + relative, 1.0 / (2.0 + raw[:, COLUMN["pair_windows"]])) * tie
        return score.astype(np.float32), memory.state()


class YoungEvidence(Evidence):
    name = "evidence-young"
    summary = "As evidence, for pairs that were new within the last day."
    reference = True
    young = YOUNG
