"""A statistical peer: seasonal Poisson factorisation of pairs, and how unusual a source's window is for it.

The rate of a -> b in a window is season(hour) · (θ_a · β_b, mixed with out_a · in_b / all), where θ and β are
non-negative factors of the pairs' rates so far (multiplicative updates for the Poisson likelihood), fitted
anew every day. An edge's surprise is -log P(at least one event). A source's surprise is the sum over its
edges against what is usual for it, which makes a p-value under an exponential tail. Nothing travels: factors
belong to hosts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.detectors.base import Candidates, State
from entente.detectors.baselines.base import Baseline, Float64, check
from entente.detectors.baselines.counts import Counts, slices, window_of
from entente.graphs.sampling import mix
from entente.graphs.temporal import Float32, Int32, TemporalGraph

FACTORS, STEPS = 12, 30
MIXED = 0.05
"""Share of the rate that follows from how busy both hosts are, whoever they otherwise talk to."""
FLOOR = 1e-7
"""Least rate of a pair in a window."""
DAY = 24 * 3600 * 1_000_000
USUAL = 336.0
"""Half-life in hours of what is usual for a source."""
PRIOR = 2.0
"""Surprise of a window of a source that nothing is known of."""


class PoissonFactors(Baseline):
    name = "poisson-factors"
    summary = "Seasonal Poisson factorisation of pairs, with a p-value per source and window."

    def initial_state(self, graph: TemporalGraph) -> State:
        return Counts.empty(graph.num_nodes) | Factors.empty(graph.num_nodes)

    def score(
        self, graph: TemporalGraph, state: State, candidates: Candidates | None = None
    ) -> tuple[Float32, State]:
        check(graph)
        counts, factors = Counts(state, graph), Factors(state, graph)
        src, dst = (graph.src, graph.dst) if candidates is None else (candidates.src, candidates.dst)
        offsets = slices(graph, candidates)
        scores = np.zeros(len(src), dtype=np.float32)
        for t in range(graph.num_windows):
            start = graph.start + t * graph.width
            own = slice(int(graph.offsets[t]), int(graph.offsets[t + 1]))
            asked = slice(int(offsets[t]), int(offsets[t + 1]))
            edges = window_of(counts, start, graph.src[own], graph.dst[own])
            if start % DAY < graph.width:
                factors.fit(counts)
            surprise = factors.surprise(edges.src, edges.dst, start)
            unusual = factors.unusual(edges.src, surprise)
            wanted = surprise
            if candidates is not None:
                wanted = factors.surprise(src[asked], dst[asked], start)
            scores[asked] = wanted * (1.0 + unusual[src[asked]])
            factors.learn(edges.src, surprise, start)
            counts.decay()
            counts.add_events(edges, graph.weight[own])
            counts.close(edges, graph.time[own])
        return scores, counts.state() | factors.state()


class Factors:
    """Factors of hosts, activity by hour, and what is usual for each source, opened from a state."""

    def __init__(self, state: State, graph: TemporalGraph) -> None:
        self._nodes = graph.num_nodes
        self._left, self._right = (
            _grown(state[name], graph.num_nodes) for name in ("factors_left", "factors_right")
        )
        self._out, self._into = (_grown(state[name], graph.num_nodes) for name in ("rate_out", "rate_in"))
        self._usual = _grown(state["usual"], graph.num_nodes)
        self._hours = state["hours"].copy()
        self._fade = 2.0 ** (-graph.width / 3.6e9 / USUAL)

    @staticmethod
    def empty(nodes: int) -> State:
        return {
            "factors_left": np.zeros((nodes, FACTORS)),
            "factors_right": np.zeros((nodes, FACTORS)),
            "rate_out": np.zeros(nodes),
            "rate_in": np.zeros(nodes),
            "usual": np.zeros((nodes, 2)),  # surprise and windows, fading
            "hours": np.zeros(24),
        }

    def state(self) -> State:
        return {
            "factors_left": self._left,
            "factors_right": self._right,
            "rate_out": self._out,
            "rate_in": self._into,
            "usual": self._usual,
            "hours": self._hours,
        }

    def fit(self, counts: Counts) -> None:
        """Factors of the pairs' rates so far, from the same start every time."""
        seen = np.flatnonzero(counts.pair["pair_windows"] > 0)
        if not len(seen):
            return
        a, b = counts.keys[seen] >> 32, counts.keys[seen] & 0xFFFFFFFF
        rate = counts.pair["pair_windows"][seen] / max(counts.windows, 1)
        self._out = np.bincount(a, rate, self._nodes)
        self._into = np.bincount(b, rate, self._nodes)
        left = _start(self._nodes, 1) * np.sqrt(self._out)[:, None]
        right = _start(self._nodes, 2) * np.sqrt(self._into)[:, None]
        for _ in range(STEPS):
            left *= _sums(a, rate, (left[a] * right[b]).sum(axis=1), right[b], self._nodes)
            left /= right.sum(axis=0) + 1e-12
            right *= _sums(b, rate, (left[a] * right[b]).sum(axis=1), left[a], self._nodes)
            right /= left.sum(axis=0) + 1e-12
        self._left, self._right = left, right

    def surprise(self, a: Int32, b: Int32, start: int) -> Float64:
        """-log of the chance that the pair has an event in the window."""
        total = self._out.sum()
        busy = self._out[a] * self._into[b] / total if total else np.zeros(len(a))
        rate = (1.0 - MIXED) * (self._left[a] * self._right[b]).sum(axis=1) + MIXED * busy
        mean = self._hours.mean()
        season = (self._hours[_hour(start)] + 0.1 * mean) / (1.1 * mean) if mean else 1.0
        chance = -np.expm1(-np.maximum(rate * season, FLOOR))
        found: Float64 = -np.log(chance)
        return found

    def unusual(self, a: Int32, surprise: Float64) -> Float64:
        """-log p of every source's window, on a logarithmic scale."""
        total = np.bincount(a, surprise, self._nodes)
        usual = (self._usual[:, 0] + PRIOR) / (self._usual[:, 1] + 1.0)
        found: Float64 = np.log1p(total / usual)
        return found

    def learn(self, a: Int32, surprise: Float64, start: int) -> None:
        self._usual *= self._fade
        self._usual[:, 0] += np.bincount(a, surprise, self._nodes)
        self._usual[:, 1] += np.bincount(a, minlength=self._nodes) > 0
        self._hours[_hour(start)] = 0.9 * self._hours[_hour(start)] + 0.1 * len(a)


def _sums(rows: NDArray[Any], rate: Float64, model: Float64, other: Float64, nodes: int) -> Float64:
    ratio = rate / np.maximum(model, 1e-12)
    return np.stack([np.bincount(rows, ratio * other[:, k], nodes) for k in range(FACTORS)], axis=1)


def _start(nodes: int, side: int) -> Float64:
    """Positive numbers hashed from the host's number: the same whichever hosts come later."""
    numbers: NDArray[np.uint64] = np.arange(nodes * FACTORS, dtype=np.uint64).reshape(nodes, FACTORS)
    drawn: Float64 = mix(numbers ^ np.uint64(side << 40)).astype(np.float64) / 2.0**64
    found: Float64 = (0.5 + drawn) / np.sqrt(FACTORS)
    return found


def _hour(start: int) -> int:
    return start // 3_600_000_000 % 24


def _grown(values: NDArray[Any], nodes: int) -> NDArray[Any]:
    grown = np.zeros((nodes, *values.shape[1:]), dtype=values.dtype)
    grown[: len(values)] = values
    return grown
