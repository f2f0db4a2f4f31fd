"""The trivial rules every model has to beat: online counts of pairs, and nothing to train.

An edge's score uses the windows before its own (and, where the rule says so, how much else its own window
holds). Equal scores are told apart by a small number hashed from pair and window, so that figures
which hang on the order of ties are those of a random order, and the same ones every time.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from entente.artifacts import Arrays
from entente.config import DetectorOptions
from entente.detectors.base import Candidates, Detector, GraphShape, State, Training, Validation
from entente.detectors.baselines.counts import Counts, Float64, Window, slices, window_of
from entente.detectors.neural import average_precision_and_auc
from entente.errors import DetectorError
from entente.graphs.sampling import NonEdges, mix
from entente.graphs.temporal import Float32, TemporalGraph
from entente.logs.schema import MICROSECONDS

TIE = 0.01
"""Ties are spread over this share of the gap to the next count."""

VALIDATION_WINDOWS = 0.1
"""Share of the windows, the last ones, whose edges validate a rule."""


class Baseline(Detector):
    """A detector without weights. A baseline only says what one window's pairs score, given the counts."""

    federated: ClassVar[bool] = False
    own_window: ClassVar[bool] = False
    """Whether the window's own events are counted before its pairs are scored."""

    def __init__(self, config: DetectorOptions, shape: GraphShape, seed: int) -> None:
        self.config = config
        self.shape = shape

    @abstractmethod
    def _scores(self, counts: Counts, window: Window, edges: Window, tie: Float64) -> Float64:
        """Scores of `window`'s pairs; `edges` are the window's own edges, `tie` is in [0, TIE)."""

    @property
    def components(self) -> dict[str, tuple[str, ...]]:
        return {}

    def weights(self) -> Arrays:
        return {}

    def load_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:
        if weights:
            raise DetectorError(
                f"{self.name} is a rule and has no weights, but was given {', '.join(sorted(weights))}"
            )

    def train(
        self, graph: TemporalGraph, epochs: int, rng: np.random.Generator, proximal: float = 0.0
    ) -> Training:
        """Nothing to train: a rule learns while it scores."""
        began = time.perf_counter()
        _check(graph)
        return Training(0.0, graph.num_edges, time.perf_counter() - began)

    def validate(self, graph: TemporalGraph, rng: np.random.Generator) -> Validation:
        """Online scores of the last windows' edges against as many non-edges of the same windows."""
        _check(graph)
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

    def initial_state(self, graph: TemporalGraph) -> State:
        return Counts.empty(graph.num_nodes)

    def score(
        self, graph: TemporalGraph, state: State, candidates: Candidates | None = None
    ) -> tuple[Float32, State]:
        _check(graph)
        counts = Counts(state, graph)
        src, dst = (graph.src, graph.dst) if candidates is None else (candidates.src, candidates.dst)
        offsets = slices(graph, candidates)
        scores = np.zeros(len(src), dtype=np.float32)
        for t in range(graph.num_windows):
            start = graph.start + t * graph.width
            own = slice(int(graph.offsets[t]), int(graph.offsets[t + 1]))
            asked = slice(int(offsets[t]), int(offsets[t + 1]))
            edges = window_of(counts, start, graph.src[own], graph.dst[own])
            window = edges if candidates is None else window_of(counts, start, src[asked], dst[asked])
            counts.decay()
            if self.own_window:
                counts.add_events(edges, graph.weight[own])
            scores[asked] = self._scores(counts, window, edges, _tie(window))
            if not self.own_window:
                counts.add_events(edges, graph.weight[own])
            counts.close(edges, graph.time[own])
        return scores, counts.state()


class FirstSeen(Baseline):
    name = "first-seen"
    summary = "A pair that no earlier window had scores 1, any other 0."
    reference = True

    def _scores(self, counts: Counts, window: Window, edges: Window, tie: Float64) -> Float64:
        return _new(counts, window) + tie


class PairFrequency(Baseline):
    name = "pair-frequency"
    summary = "The fewer earlier windows had the pair, the higher."
    reference = True

    def _scores(self, counts: Counts, window: Window, edges: Window, tie: Float64) -> Float64:
        return _rarely_seen(counts, window, tie)


class RareTarget(Baseline):
    name = "rare-target"
    summary = "First-seen pairs first, those whose target has the fewest sources on top."
    reference = True

    def _scores(self, counts: Counts, window: Window, edges: Window, tie: Float64) -> Float64:
        rarity = _rarity(counts, window, tie)
        return np.where(_new(counts, window), 1.0 + rarity, _rarely_seen(counts, window, tie))


class NoveltyBurst(Baseline):
    name = "novelty-burst"
    summary = "As rare-target, times the number of new targets the source has in this window."
    reference = True

    def _scores(self, counts: Counts, window: Window, edges: Window, tie: Float64) -> Float64:
        new_keys = np.unique(edges.keys[_new(counts, edges)])
        fan = np.bincount(new_keys >> 32, minlength=len(counts.node["sources"]))
        burst = np.maximum(fan[window.src], 1) * _rarity(counts, window, tie)
        return np.where(_new(counts, window), 1.0 + burst, _rarely_seen(counts, window, tie))


class EdgeBankOptions(DetectorOptions):
    """EdgeBank's settings."""

    name: str = "edgebank"
    memory: float | None = Field(default=None, gt=0)
    """Seconds after which an edge is forgotten; unlimited by default."""


class EdgeBank(Baseline):
    name = "edgebank"
    summary = "A pair that is not remembered scores 1; `memory` seconds, or for ever."
    Options = EdgeBankOptions
    config: EdgeBankOptions

    def _scores(self, counts: Counts, window: Window, edges: Window, tie: Float64) -> Float64:
        forgotten = _new(counts, window)
        if self.config.memory is not None:
            horizon = window.start - round(self.config.memory * MICROSECONDS)
            forgotten |= counts.of_pair("pair_last", window) < horizon
        return forgotten + tie


class Midas(Baseline):
    name = "midas"
    summary = "MIDAS-R: chi-squared of the pair's, source's and target's present rate against their past."
    own_window = True

    def _scores(self, counts: Counts, window: Window, edges: Window, tie: Float64) -> Float64:
        clock = counts.windows
        parts = (
            (counts.of_pair("pair_now", window), counts.of_pair("pair_events", window)),
            (counts.node["source_now"][window.src], counts.node["source_events"][window.src]),
            (counts.node["target_now"][window.dst], counts.node["target_events"][window.dst]),
        )
        largest = np.zeros(len(window.src))
        for now, total in parts:
            np.maximum(largest, chi_squared(now, total, clock), out=largest)
        return np.log1p(largest) + tie * 1e-3


def chi_squared(now: NDArray[Any], total: NDArray[Any], clock: int) -> Float64:
    """MIDAS' statistic of `now` events in the present window, of `total` in `clock` windows."""
    if clock < 2:
        return np.zeros(len(now))
    past = np.maximum(total.astype(np.float64), 1e-12) * (clock - 1)
    deviation: Float64 = np.where(total > 0, (now * clock - total) ** 2 / past, 0.0)
    return deviation


def _tie(window: Window) -> Float64:
    clock = mix(np.array([window.start], dtype=np.int64).view(np.uint64))
    drawn = mix(window.keys.view(np.uint64) ^ clock)
    return drawn.astype(np.float64) * (TIE / 2.0**64)


def _new(counts: Counts, window: Window) -> NDArray[np.bool_]:
    unseen: NDArray[np.bool_] = counts.of_pair("pair_windows", window) == 0
    return unseen


def _rarely_seen(counts: Counts, window: Window, tie: Float64) -> Float64:
    rare: Float64 = 1.0 / (1.0 + counts.of_pair("pair_windows", window) + tie)
    return rare


def _rarity(counts: Counts, window: Window, tie: Float64) -> Float64:
    """One over the target's sources, this one and one to spare included."""
    rare: Float64 = 1.0 / (2.0 + counts.node["sources"][window.dst] + tie)
    return rare


def _check(graph: TemporalGraph) -> None:
    if not np.isfinite(graph.weight).all():
        raise DetectorError(
            "an edge's weight is not a finite number", remedy="Read the log again with `entente ingest`."
        )
