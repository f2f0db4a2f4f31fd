"""Suspicion over the scores of any detector: what comes from a host that stood out scores higher.

Scores have no scale in common, so a new pair's logit is that of its rank among the silo's last new pairs.
What is remembered beside the detector's own state is kept apart from it, and a pair that was not seen for
30 days is forgotten. The detector `behaviour` has suspicion in any case and needs none of this.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays
from entente.detectors.base import Candidates, Standing, State
from entente.detectors.behaviour.memory import HOUR, MEMORY, NEVER, SWEEP, check_finite, origin, pair_keys
from entente.detectors.suspicion import QUANTILE, Float64, Suspicion
from entente.detectors.wrapper import Wrapper, joined, parts
from entente.graphs.temporal import Float32, Int32, Int64, TemporalGraph

OWN = "suspicion/"
"""How names of the state beside the detector's begin."""
LAST = 4096
"""So many scores of new pairs are remembered; a new one is ranked among them."""
SHORTEST, FEWEST = 12.0, 100
"""Hours of history and new pairs below which nobody becomes suspicious: everything is new then."""


class WithSuspicion(Wrapper):
    """A detector whose scores are raised where their source stood out in earlier windows.

    A score is raised as one of a host that another silo spoke of (`Detector.with_told`): none becomes lower,
    and that of an edge whose source does not stand out stays as it is.
    """

    suspects = True

    def initial_state(self, graph: TemporalGraph) -> State:
        return joined(self.model.initial_state(graph), _KnownPairs.empty(graph.num_nodes), OWN)

    def score(
        self, graph: TemporalGraph, state: State, candidates: Candidates | None = None
    ) -> tuple[Float32, State]:
        of_model, own = parts(state, OWN)
        scores, after = self.model.score(graph, of_model)
        walk = _Raising(graph, own)
        odds = walk.go(scores, candidates)
        if candidates is not None:
            scores, _ = self.model.score(graph, of_model, candidates)
        return self.with_told(scores, odds), joined(after, walk.state(), OWN)

    def score_hosts(self, graph: TemporalGraph, state: State) -> tuple[Float32, State, Standing]:
        of_model, own = parts(state, OWN)
        scores, after = self.model.score(graph, of_model)
        walk = _Raising(graph, own)
        odds = walk.go(scores)
        return self.with_told(scores, odds), joined(after, walk.state(), OWN), Standing.of(walk.risen)

    def with_told(self, scores: Float32, odds: Float64) -> Float32:
        return self.model.with_told(scores, odds)

    def short_windows(self, graph: TemporalGraph, state: State) -> int:
        return self.model.short_windows(graph, parts(state, OWN)[0])

    def explain(self, graph: TemporalGraph, state: State, edges: Int64) -> list[str]:
        of_model, own = parts(state, OWN)
        scores, _ = self.model.score(graph, of_model)
        walk = _Raising(graph, own, asked=frozenset(edges.tolist()))
        walk.go(scores)
        said = zip(self.model.explain(graph, of_model, edges), edges.tolist(), strict=True)
        return ["; ".join(part for part in (reason, walk.stories[edge]) if part) for reason, edge in said]


@dataclass
class _Raising:
    """Windows walked through one after another, with the detector's own scores of their edges."""

    graph: TemporalGraph
    opened: State
    asked: frozenset[int] = frozenset()  # edges whose sources' stories are wanted
    stories: dict[int, str] = field(default_factory=dict)
    risen: list[tuple[int, Int64, Float64]] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_finite(self.opened)
        self.pairs = _KnownPairs(self.opened, self.graph)
        self.suspicion = Suspicion(self.opened, self.pairs.nodes, self.pairs.hours)

    def state(self) -> State:
        return self.pairs.state() | self.suspicion.state()

    def go(self, scores: Float32, candidates: Candidates | None = None) -> Float64:
        """Log odds of 0 or more by which each edge's (or candidate's) source stood out before its window."""
        graph, pairs, suspicion = self.graph, self.pairs, self.suspicion
        offsets, src = graph.offsets, graph.src
        if candidates is not None:
            offsets = np.searchsorted(candidates.window, np.arange(graph.num_windows + 1))
            src = candidates.src
        odds = np.zeros(len(src))
        for t in range(graph.num_windows):
            start = graph.start + t * graph.width
            number = (start - pairs.origin) // graph.width
            pairs.forget(number)
            suspicion.fade()
            wanted = slice(int(offsets[t]), int(offsets[t + 1]))
            odds[wanted] = np.maximum(suspicion.above(src[wanted]), 0.0)
            low, high = int(graph.offsets[t]), int(graph.offsets[t + 1])
            for edge in self.asked.intersection(range(low, high)):
                self.stories[edge] = suspicion.story(int(graph.src[edge]), number)
            place, new, score = pairs.of_window(graph.src[low:high], graph.dst[low:high], scores[low:high])
            if (number + 1) * pairs.hours >= SHORTEST and len(pairs.scores) >= FEWEST:
                before, ends = suspicion.p, pairs.ends(new)
                suspicion.learn(pairs.logit(score), *ends, pairs.sources[ends[1]].astype(np.float32), number)
                self.risen.append((start, *suspicion.risen(before)))
            pairs.close(place, new, score, number)
        return odds


class _KnownPairs:
    """Which pairs a silo knows, how many sources its hosts have, and what its last new pairs scored."""

    def __init__(self, state: State, graph: TemporalGraph) -> None:
        self.width, self.hours = graph.width, graph.width / HOUR
        self.origin = origin(state["clock"], graph)
        self.nodes = max(graph.num_nodes, len(state["sources"]))
        self.keys: Int64 = np.union1d(state["pairs"], pair_keys(graph.src, graph.dst))
        self.last = np.full(len(self.keys), NEVER, dtype=np.int32)
        self.last[np.searchsorted(self.keys, state["pairs"])] = state["last"]
        self.sources = np.zeros(self.nodes, dtype=np.int32)
        self.sources[: len(state["sources"])] = state["sources"]
        self.scores: Float32 = state["scores"]

    @staticmethod
    def empty(nodes: int) -> Arrays:
        """The state before any window, with suspicion's; its level begins where the quantile of ranks is."""
        return Suspicion.empty(nodes) | {
            "suspicion_level": np.array([np.log(QUANTILE / (1.0 - QUANTILE)), 0.0]),
            "pairs": np.zeros(0, dtype=np.int64),
            "last": np.zeros(0, dtype=np.int32),
            "sources": np.zeros(nodes, dtype=np.int32),
            "scores": np.zeros(0, dtype=np.float32),
            "clock": np.zeros(2, dtype=np.int64),
        }

    def state(self) -> Arrays:
        known = self.last != NEVER
        return {
            "pairs": self.keys[known],
            "last": self.last[known],
            "sources": self.sources,
            "scores": self.scores,
            "clock": np.array([self.origin, self.width], dtype=np.int64),
        }

    def forget(self, number: int) -> None:
        """Now and then, let go of the pairs that have not been seen for long."""
        if number % max(1, round(SWEEP / self.hours)):
            return
        old = (self.last != NEVER) & (self.last < number - round(MEMORY / self.hours))
        self.last[old] = NEVER
        self.sources -= np.bincount(self.ends(old)[1], minlength=self.nodes).astype(np.int32)

    def of_window(
        self, src: Int32, dst: Int32, score: Float32
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], Float32]:
        """Places of a window's pairs and of the new ones, and what these score: of several edges the most."""
        place, pair = np.unique(np.searchsorted(self.keys, pair_keys(src, dst)), return_inverse=True)
        most = np.full(len(place), -np.inf, dtype=np.float32)
        np.maximum.at(most, pair, score)
        new = self.last[place] == NEVER
        return place, place[new], most[new]

    def ends(self, place: NDArray[np.intp] | NDArray[np.bool_]) -> tuple[Int32, Int32]:
        keys = self.keys[place]
        return (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)

    def logit(self, score: Float32) -> Float64:
        """Log odds of the share of the last new pairs that score lower; ties are half lower, half higher."""
        known = np.sort(self.scores)
        lower = np.searchsorted(known, score, "left") + np.searchsorted(known, score, "right")
        share = (0.5 * lower + 0.5) / (len(known) + 1.0)
        found: Float64 = np.log(share / (1.0 - share))
        return found

    def close(self, place: NDArray[np.intp], new: NDArray[np.intp], score: Float32, number: int) -> None:
        self.last[place] = number
        self.sources += np.bincount(self.ends(new)[1], minlength=self.nodes).astype(np.int32)
        self.scores = np.concatenate((self.scores, score))[-LAST:]
