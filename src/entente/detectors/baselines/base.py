"""What every baseline shares: no weights, nothing to train, validation by online scores."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays
from entente.config import DetectorOptions
from entente.detectors.base import Candidates, Detector, GraphShape, Training, Validation
from entente.detectors.neural import average_precision_and_auc
from entente.errors import DetectorError
from entente.graphs.sampling import NonEdges, mix
from entente.graphs.temporal import Int64, TemporalGraph

Float64 = NDArray[np.float64]

TIE = 0.01
"""Ties are spread over this share of the gap to the next count."""

VALIDATION_WINDOWS = 0.1
"""Share of the windows, the last ones, whose edges validate a baseline."""


class Baseline(Detector):
    """A detector without weights: it learns while it scores."""

    federated: ClassVar[bool] = False

    def __init__(self, config: DetectorOptions, shape: GraphShape, seed: int) -> None:
        self.config = config
        self.shape = shape

    @property
    def components(self) -> dict[str, tuple[str, ...]]:
        return {}

    def weights(self) -> Arrays:
        return {}

    def load_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:
        if weights:
            raise DetectorError(
                f"{self.name} is a baseline and has no weights, but was given {', '.join(sorted(weights))}"
            )

    def train(
        self, graph: TemporalGraph, epochs: int, rng: np.random.Generator, proximal: float = 0.0
    ) -> Training:
        """Nothing to train: a baseline learns while it scores."""
        began = time.perf_counter()
        check(graph)
        return Training(0.0, graph.num_edges, time.perf_counter() - began)

    def validate(self, graph: TemporalGraph, rng: np.random.Generator) -> Validation:
        """Online scores of the last windows' edges against as many non-edges of the same windows."""
        check(graph)
        first = graph.num_windows - max(1, round(graph.num_windows * VALIDATION_WINDOWS))
        tail = graph.windows(first)
        _, state = self.score(graph.windows(0, first), self.initial_state(graph))
        window, src, dst = NonEdges(tail).draw(np.diff(tail.offsets), rng)
        if not len(window):
            return Validation(0.0, 0.0, 0)
        real, _ = self.score(tail, state)
        drawn, _ = self.score(tail, state, Candidates(window, src, dst))
        truth = np.arange(len(real) + len(drawn)) < len(real)
        ap, auc = average_precision_and_auc(truth, -np.concatenate((real, drawn)))
        return Validation(ap, auc, len(real))


def ties(keys: Int64, start: Int64) -> Float64:
    """A number in [0, TIE) hashed from each pair and the start of its window."""
    drawn = mix(keys.view(np.uint64) ^ mix(start.astype(np.int64).view(np.uint64)))
    return drawn.astype(np.float64) * (TIE / 2.0**64)


def check(graph: TemporalGraph) -> None:
    if not np.isfinite(graph.weight).all():
        raise DetectorError(
            "an edge's weight is not a finite number", remedy="Read the log again with `entente ingest`."
        )
