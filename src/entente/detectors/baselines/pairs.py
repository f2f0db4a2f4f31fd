"""The baselines every model has to beat: online counts of pairs, and nothing to train.

An edge's score uses the windows before its own (and, where the rule says so, how much else its own window
holds). Equal scores are told apart by a small number hashed from pair and window, so that figures
which hang on the order of ties are those of a random order, and the same ones every time.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from entente.config import DetectorOptions
from entente.detectors.base import Candidates, State
from entente.detectors.baselines.base import Baseline, Float64, check, ties
from entente.detectors.baselines.counts import Counts, PairWindow, slices, window_of
from entente.graphs.temporal import Float32, TemporalGraph, distinct
from entente.logs.schema import MICROSECONDS


class PairBaseline(Baseline):
    """Only says what one window's pairs score, given counts of pairs."""

    own_window: ClassVar[bool] = False
    """Whether the window's own events are counted before its pairs are scored."""

    @abstractmethod
    def _scores(self, counts: Counts, window: PairWindow, edges: PairWindow, tie: Float64) -> Float64:
        """Scores of `window`'s pairs; `edges` are the window's own edges, `tie` is in [0, TIE)."""

    def initial_state(self, graph: TemporalGraph) -> State:
        return Counts.empty(graph.num_nodes)

    def score(
        self, graph: TemporalGraph, state: State, candidates: Candidates | None = None
    ) -> tuple[Float32, State]:
        check(graph)
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


class FirstSeen(PairBaseline):
    name = "first-seen"
    summary = "A pair that no earlier window had scores 1, any other 0."
    reference = True

    def _scores(self, counts: Counts, window: PairWindow, edges: PairWindow, tie: Float64) -> Float64:
        return _new(counts, window) + tie


class PairFrequency(PairBaseline):
    name = "pair-frequency"
    summary = "The fewer earlier windows had the pair, the higher."
    reference = True

    def _scores(self, counts: Counts, window: PairWindow, edges: PairWindow, tie: Float64) -> Float64:
        return _rarely_seen(counts, window, tie)


class RareTarget(PairBaseline):
    name = "rare-target"
    summary = "First-seen pairs first, those whose target has the fewest sources on top."
    reference = True

    def _scores(self, counts: Counts, window: PairWindow, edges: PairWindow, tie: Float64) -> Float64:
        rarity = _rarity(counts, window, tie)
        return np.where(_new(counts, window), 1.0 + rarity, _rarely_seen(counts, window, tie))


class NoveltyBurst(PairBaseline):
    name = "novelty-burst"
    summary = "As rare-target, times the number of new targets the source has in this window."
    reference = True

    def _scores(self, counts: Counts, window: PairWindow, edges: PairWindow, tie: Float64) -> Float64:
        new_keys = distinct(edges.keys[_new(counts, edges)])
        fan = np.bincount(new_keys >> 32, minlength=len(counts.node["sources"]))
        burst = np.maximum(fan[window.src], 1) * _rarity(counts, window, tie)
        return np.where(_new(counts, window), 1.0 + burst, _rarely_seen(counts, window, tie))


class EdgeBankOptions(DetectorOptions):
    """EdgeBank's settings."""

    name: str = "edgebank"
    memory: float | None = Field(default=None, gt=0)
    """Seconds after which an edge is forgotten; unlimited by default."""


class EdgeBank(PairBaseline):
    name = "edgebank"
    summary = "A pair that is not remembered scores 1; `memory` seconds, or for ever."
    Options = EdgeBankOptions
    config: EdgeBankOptions

    def _scores(self, counts: Counts, window: PairWindow, edges: PairWindow, tie: Float64) -> Float64:
        forgotten = _new(counts, window)
        if self.config.memory is not None:
            horizon = window.start - round(self.config.memory * MICROSECONDS)
            forgotten |= counts.of_pair("pair_last", window) < horizon
        return forgotten + tie


class Midas(PairBaseline):
    name = "midas"
    summary = "MIDAS-R: chi-squared of the pair's, source's and target's present rate against their past."
    own_window = True

    def _scores(self, counts: Counts, window: PairWindow, edges: PairWindow, tie: Float64) -> Float64:
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


def _tie(window: PairWindow) -> Float64:
    return ties(window.keys, np.array([window.start], dtype=np.int64))


def _new(counts: Counts, window: PairWindow) -> NDArray[np.bool_]:
    unseen: NDArray[np.bool_] = counts.of_pair("pair_windows", window) == 0
    return unseen


def _rarely_seen(counts: Counts, window: PairWindow, tie: Float64) -> Float64:
    rare: Float64 = 1.0 / (1.0 + counts.of_pair("pair_windows", window) + tie)
    return rare


def _rarity(counts: Counts, window: PairWindow, tie: Float64) -> Float64:
    """One over the target's sources, this one and one to spare included."""
    rare: Float64 = 1.0 / (2.0 + counts.node["sources"][window.dst] + tie)
    return rare
