"""The behaviour detector: a small network over counts that each silo keeps of its own history.

It learns to tell the silo's own traffic from campaigns injected into it. No host has a weight, so what a
federation exchanges is a few kilobytes in which nobody is named, and hosts that nobody has met are scored
like any other.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from entente.detectors.base import Candidates, GraphShape, Standing, State, Training, Validation
from entente.detectors.behaviour.base_model import base_weights
from entente.detectors.behaviour.features import COLUMN, describe, scaled
from entente.detectors.behaviour.fitting import Fit, Fitter
from entente.detectors.behaviour.injection.campaigns import Recipe
from entente.detectors.behaviour.memory import HOUR, Memory, origin
from entente.detectors.behaviour.network import Forward, Network
from entente.detectors.behaviour.options import BehaviourOptions
from entente.detectors.behaviour.training import WARM_UP, Examples, draw_examples, graph_seed, joined
from entente.detectors.behaviour.words import reasons
from entente.detectors.neural import NeuralDetector, average_precision_and_auc, one_thread
from entente.detectors.suspicion import Suspicion, told_score
from entente.errors import DetectorError
from entente.graphs.temporal import Float32, Int32, Int64, TemporalGraph

Float64 = NDArray[np.float64]

LOG = logging.getLogger(__name__)

HIDDEN = 0.25
"""Chance of each feature to be hidden from the network in training."""
HELD_OUT = 0.1
"""Share of the training windows, the last ones, that validate a model where there are no later ones."""
VALIDATION_REPLICAS = 4
SHORTEST, FEWEST = 12.0, 1000
"""Hours and edges of history below which evidence alone is scored: the network has nothing to go by."""
BLOCK = 1 << 18
"""Edges that are described at once."""
TRAIN, VALIDATE = 1, 2  # purposes of drawing campaigns


class Behaviour(NeuralDetector):
    name = "behaviour"
    summary = "Small network over a silo's own counts, trained on campaigns injected into its history."
    local_epochs = 1
    reads_context = True
    suspects = True
    Options = BehaviourOptions
    config: BehaviourOptions

    def __init__(self, config: BehaviourOptions, shape: GraphShape, seed: int) -> None:
        super().__init__(config, shape, seed, lambda: Network(config.hidden))
        self._base = base_weights() if config.base else None
        if self._base is not None:
            self.load_weights(self._base)
        self._recipe = Recipe()
        self._examples: tuple[TemporalGraph, Examples] | None = None
        self._cut: tuple[TemporalGraph, TemporalGraph, TemporalGraph] | None = None
        self._held_out: tuple[TemporalGraph, TemporalGraph, Examples] | None = None

    @property
    def components(self) -> dict[str, tuple[str, ...]]:
        parts = {"ENC": ("first", "second"), "DEC": ("last",)}
        return {
            part: tuple(f"{layer}.{kind}" for layer in layers for kind in ("weight", "bias"))
            for part, layers in parts.items()
        }

    def _seen(self, graph: TemporalGraph) -> TemporalGraph:
        """The graph as this detector is to look at it."""
        return graph if self.config.accounts else replace(graph, context=None)

    def _forward(self) -> Forward:
        return Forward(self.weights(), self._base)

    # ---- training --------------------------------------------------------------------------

    def train(
        self, graph: TemporalGraph, epochs: int, rng: np.random.Generator, proximal: float = 0.0
    ) -> Training:
        began = time.perf_counter()
        _check(graph)
        examples = self._training_examples(graph)
        if not examples.positive.any():
            return Training(0.0, 0, time.perf_counter() - began)
        with one_thread():
            loss = self.fit(examples, epochs, rng, proximal)
        return Training(loss, graph.num_edges, time.perf_counter() - began)

    def _training_examples(self, graph: TemporalGraph) -> Examples:
        """Drawn once per history and kept between rounds; never sent."""
        if self._examples is None or self._examples[0] is not graph:
            first = round(graph.num_windows * WARM_UP)
            drawn = draw_examples(
                self._seen(graph), first, self.config.replicas, graph_seed(graph, TRAIN), self._recipe
            )
            self._examples = (graph, drawn)
        return self._examples[1]

    def fit(self, examples: Examples, epochs: int, rng: np.random.Generator, proximal: float = 0.0) -> float:
        """Train on examples; the mean loss of one in the last pass."""
        fitter = Fitter(self.weights(), self.optimiser_state())
        loss = fitter.fit(examples, self._plan(epochs, proximal), rng)
        self.load_weights(fitter.weights())
        self.load_optimiser_state(fitter.memory())
        return loss

    def _plan(self, epochs: int, proximal: float) -> Fit:
        return Fit(epochs, self.config.batch, self.config.lr, proximal, HIDDEN)

    # ---- validation ------------------------------------------------------------------------

    def validate(self, graph: TemporalGraph, rng: np.random.Generator) -> Validation:
        """AP and AUC of campaigns injected into the last windows against the silo's own edges there."""
        _check(graph)
        if self._cut is None or self._cut[0] is not graph:
            first = graph.num_windows - max(1, round(graph.num_windows * HELD_OUT))
            self._cut = (graph, graph.windows(0, first), graph.windows(first))
        return self.validate_later(*self._cut[1:], rng)

    def validate_later(
        self, graph: TemporalGraph, later: TemporalGraph, rng: np.random.Generator
    ) -> Validation:
        """AP and AUC of injected campaigns in the windows of `later` against the edges there."""
        known = self._held_out
        if known is None or known[0] is not graph or known[1] is not later:
            whole = joined(self._seen(graph), self._seen(later))
            drawn = draw_examples(
                whole, graph.num_windows, VALIDATION_REPLICAS, graph_seed(whole, VALIDATE), self._recipe
            )
            self._held_out = known = (graph, later, drawn)
        examples = known[2]
        if not examples.positive.any():
            return Validation(0.0, 0.0, 0)
        logit = self._forward()(examples.features)
        ap, auc = average_precision_and_auc(examples.positive, logit)
        return Validation(ap, auc, len(examples))

    # ---- scoring ---------------------------------------------------------------------------

    def initial_state(self, graph: TemporalGraph) -> State:
        return Memory.empty(graph.num_nodes) | Suspicion.empty(graph.num_nodes)

    def score(
        self, graph: TemporalGraph, state: State, candidates: Candidates | None = None
    ) -> tuple[Float32, State]:
        scores, walk = self._walk(graph, state, candidates)
        return scores, walk.state()

    def score_hosts(self, graph: TemporalGraph, state: State) -> tuple[Float32, State, Standing]:
        scores, walk = self._walk(graph, state, None)
        return scores, walk.state(), walk.standing()

    def _walk(
        self, graph: TemporalGraph, state: State, candidates: Candidates | None
    ) -> tuple[Float32, _Walk]:
        _check(graph)
        graph = self._seen(graph)
        walk = _Walk(graph, state, self._forward())
        scores = [walk.score(first, last, candidates) for first, last in _blocks(graph)]
        if walk.short.any():
            windows = len(walk.short)
            LOG.info(
                "%d of %d windows have too little history: scored by evidence", walk.short.sum(), windows
            )
        return np.concatenate([np.zeros(0, dtype=np.float32), *scores]), walk

    def short_windows(self, graph: TemporalGraph, state: State) -> int:
        return int(_short(graph, state).sum())

    def with_told(self, scores: Float32, odds: Float64) -> Float32:
        return told_score(scores, odds)

    def explain(self, graph: TemporalGraph, state: State, edges: Int64) -> list[str]:
        _check(graph)
        graph = self._seen(graph)
        forward = self._forward()
        walk, said = _Walk(graph, state, forward), [""] * len(edges)
        for first, last in _blocks(graph):
            inside = (edges >= graph.offsets[first]) & (edges < graph.offsets[last])
            for place in np.flatnonzero(inside).tolist():
                walk.asked[int(edges[place])] = place
            walk.score(first, last, None)
        for place, raw, story in walk.found:
            said[place] = reasons(forward, raw, graph.width / 6e7, story)
        return said


class _Walk:
    """Windows scored one after another: features, network, suspicion."""

    def __init__(self, graph: TemporalGraph, state: State, forward: Forward) -> None:
        self.graph, self.forward = graph, forward
        self.memory = Memory(state, graph)
        self.suspicion = Suspicion(state, self.memory.nodes, self.memory.hours)
        self.short = _short(graph, state)
        self.asked: dict[int, int] = {}  # edges whose features are wanted, and where to put them
        self.found: list[tuple[int, Float32, str]] = []
        self.risen: list[tuple[int, Int64, Float64]] = []  # window, and who stood out in it

    def standing(self) -> Standing:
        """Who stood out in the windows so far."""
        return Standing.of(self.risen)

    def state(self) -> State:
        return self.memory.state() | self.suspicion.state()

    def score(self, first: int, last: int, candidates: Candidates | None) -> Float32:
        """Scores of the edges of windows first..last-1, or of the candidates there."""
        graph, memory = self.graph.windows(first, last), self.memory
        wanted = None if candidates is None else _within(candidates, first, last)
        own, asked = describe(memory, graph, wanted)
        offsets = graph.offsets if wanted is None else _offsets(wanted, graph.num_windows)
        scores = np.zeros(int(offsets[-1]), dtype=np.float32)
        for t in range(graph.num_windows):
            part = slice(int(graph.offsets[t]), int(graph.offsets[t + 1]))
            raw, src = own[part], graph.src[part]
            number = memory.number(graph.start + t * graph.width)
            enough = not self.short[first + t]
            logit = self._logits(raw, enough)
            self.suspicion.fade()
            if wanted is None:
                scores[part] = _scores(self.suspicion.raised(logit, src))
            else:
                span = slice(int(offsets[t]), int(offsets[t + 1]))
                other = self._logits(asked[span], enough)
                scores[span] = _scores(self.suspicion.raised(other, wanted.src[span]))
            self._find(int(self.graph.offsets[first]) + part.start, raw, src, number)
            if enough:
                new = raw[:, COLUMN["new"]] > 0
                sources = raw[new, COLUMN["b_sources"]]
                before = self.suspicion.p
                self.suspicion.learn(logit[new], src[new], graph.dst[part][new], sources, number)
                self.risen.append((graph.start + t * graph.width, *self.suspicion.risen(before)))
        return scores

    def _logits(self, raw: Float32, enough: bool) -> Float64:
        return self.forward(scaled(raw)).astype(np.float64) if enough else evidence_logit(raw)

    def _find(self, begin: int, raw: Float32, src: Int32, number: int) -> None:
        if self.asked:
            for row in range(len(raw)):
                if begin + row in self.asked:
                    story = self.suspicion.story(int(src[row]), number)
                    self.found.append((self.asked[begin + row], raw[row].copy(), story))


def _short(graph: TemporalGraph, state: State) -> NDArray[np.bool_]:
    """Whether there is too little history before each window for the network."""
    clock = state["clock"]
    windows = (graph.start - origin(clock, graph)) // graph.width + np.arange(1, graph.num_windows + 1)
    hours = windows * (graph.width / HOUR)
    found: NDArray[np.bool_] = (hours < SHORTEST) | (clock[2] + graph.offsets[:-1] < FEWEST)
    return found


def evidence_logit(raw: Float32) -> Float64:
    """What stands in for the network: new pairs by their source's evidence against its own habit."""
    relative = np.log(np.maximum(raw[:, COLUMN["relative"]].astype(np.float64), 1e-4))
    rarity = -np.log(2.0 + raw[:, COLUMN["b_sources"]].astype(np.float64))
    new = raw[:, COLUMN["new"]] > 0
    found: Float64 = np.where(new, relative + 0.5 * rarity - 3.0, -8.0 + 0.1 * relative)
    return found


def _blocks(graph: TemporalGraph) -> list[tuple[int, int]]:
    """Spans of windows of about BLOCK edges, so that a long graph needs no more memory than a short one."""
    number = graph.offsets[:-1] // BLOCK
    starts = np.flatnonzero(np.diff(number, prepend=-1)).tolist()
    return list(pairwise([*starts, graph.num_windows]))


def _within(candidates: Candidates, first: int, last: int) -> Candidates:
    low, high = np.searchsorted(candidates.window, (first, last)).tolist()
    part = slice(low, high)
    return Candidates(candidates.window[part] - first, candidates.src[part], candidates.dst[part])


def _offsets(candidates: Candidates, windows: int) -> Int64:
    return np.searchsorted(candidates.window, np.arange(windows + 1)).astype(np.int64)


def _scores(logit: Float64) -> Float32:
    """Between 0 and 1; half the logit, so that float32 still tells the highest apart."""
    return (1.0 / (1.0 + np.exp(-0.5 * logit))).astype(np.float32)


def _check(graph: TemporalGraph) -> None:
    if not np.isfinite(graph.weight).all():
        raise DetectorError(
            "an edge's weight is not a finite number", remedy="Read the log again with `entente ingest`."
        )
