"""Jbeil: a temporal graph network (TGN) over single events, transductive and inductive."""

from __future__ import annotations

import time
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from entente.config import DetectorOptions
from entente.detectors.base import Candidates, GraphShape, State, Training, Validation
from entente.detectors.jbeil.memory import TgnMemory
from entente.detectors.jbeil.options import JbeilOptions
from entente.detectors.jbeil.tgn import TGN, Asked, Stream
from entente.detectors.jbeil.training import batches, link_logits, other_targets, train_epoch
from entente.detectors.neural import NeuralDetector, average_precision_and_auc, check_graph, one_thread
from entente.errors import DetectorError
from entente.graphs.neighbours import Ring
from entente.graphs.sampling import mix
from entente.graphs.temporal import Float32, Int64, TemporalGraph

HIDING = np.uint64(0x4A6265696C)
"""Salt of the choice of hidden hosts: the same in every silo, whatever else is random."""

PAIRS_AT_ONCE = 4096
"""Candidates of one moment that are scored together."""


def hidden_hosts(graph: TemporalGraph, share: float) -> NDArray[np.bool_]:
    """Which hosts training must not see. It hangs on a host's identity rows alone, so silos agree."""
    drawn = np.full(graph.num_nodes, HIDING, dtype=np.uint64)
    for column in graph.rows.T:
        drawn = mix(drawn ^ column.astype(np.uint64))
    return drawn.astype(np.float64) / 2.0**64 < share


class Jbeil(NeuralDetector):
    """The event detector of the paper. It has no identity table: a host is its memory and its neighbours."""

    name: ClassVar[str] = "jbeil"
    summary: ClassVar[str] = "Memory and attention over recent neighbours, event by event (TGN, Jbeil)."
    merged: ClassVar[bool] = False
    norm_bound: ClassVar[float] = 70.0
    Options: ClassVar[type[DetectorOptions]] = JbeilOptions

    config: JbeilOptions
    module: TGN

    def __init__(self, config: JbeilOptions, shape: GraphShape, seed: int) -> None:
        self.settings = config.settings()
        features = int(shape.weighted)
        super().__init__(config, shape, seed, lambda: TGN(self.settings, shape.roles, features))

    @property
    def components(self) -> dict[str, tuple[str, ...]]:
        owner = {"roles": "ENC", "attention": "ENC", "memory": "TEMP", "decoder": "DEC"}
        parts: dict[str, tuple[str, ...]] = {}
        for name, _ in self.module.named_parameters():
            part = owner[name.partition(".")[0]]
            parts[part] = (*parts.get(part, ()), name)
        return parts

    @one_thread()
    def train(
        self, graph: TemporalGraph, epochs: int, rng: np.random.Generator, proximal: float = 0.0
    ) -> Training:
        """Epochs over the first events between visible hosts; the last share of the events validates."""
        began = time.perf_counter()
        check_graph(graph, self.shape)
        order, cut = self._split(graph)
        seen = order[:cut][~self._hidden(graph)[order[:cut]]]
        if not len(seen):
            return Training(0.0, 0, time.perf_counter() - began)
        stream = self._stream(graph, seen)
        targets = np.unique(stream.dst)
        anchor = self.anchor()
        loss = 0.0
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**63)))
            for _ in range(epochs):
                loss = train_epoch(
                    self.module,
                    self.optimiser,
                    stream,
                    self._memory(graph),
                    self.settings.batch,
                    targets,
                    rng,
                    (lambda: self.proximal_term(anchor, proximal)) if proximal else None,
                )
        return Training(loss, len(seen), time.perf_counter() - began)

    @one_thread()
    def validate(self, graph: TemporalGraph, rng: np.random.Generator) -> Validation:
        """The last events between visible hosts, each against one other target of the training events."""
        check_graph(graph, self.shape)
        order, cut = self._split(graph)
        hidden = self._hidden(graph)[order]
        kept = (np.arange(len(order)) >= cut) & ~hidden
        asked = order[kept]
        known = order[:cut][~hidden[:cut]]
        if not len(asked):
            return Validation(0.0, 0.0, 0)
        stream = self._stream(graph, np.concatenate((known, asked)))
        events = np.arange(len(stream))
        memory = self._memory(graph)
        for batch in batches(events[: len(known)], self.settings.batch):
            self.module.observe(stream, memory, batch)
        targets = np.unique(stream.dst[: len(known)] if len(known) else stream.dst)
        drawn = other_targets(targets, stream.dst[len(known) :], rng)
        parts = batches(events[len(known) :], self.settings.batch)
        real, other = link_logits(self.module, stream, memory, parts, drawn)
        truth = np.arange(len(real) + len(other)) < len(real)
        ap, auc = average_precision_and_auc(truth, np.concatenate((real, other)))
        return Validation(ap, auc, len(real))

    def initial_state(self, graph: TemporalGraph) -> State:
        ring = Ring.empty(graph.num_nodes, self.settings.neighbours)
        return self._memory(graph).state() | _ring_state(ring)

    @one_thread()
    def score(
        self, graph: TemporalGraph, state: State, candidates: Candidates | None = None
    ) -> tuple[Float32, State]:
        check_graph(graph, self.shape)
        order = np.lexsort((graph.time, graph.window_of_edge()))
        features = int(self.shape.weighted)
        memory = TgnMemory.load(state, graph.num_nodes, self.settings.memory, self.device, features)
        stream = self._stream(graph, order, self._ring(state, graph.num_nodes))
        own = candidates is None
        if candidates is None:
            window = graph.window_of_edge()
            candidates = Candidates(window, graph.src[order], graph.dst[order], graph.time[order])
        scores = np.empty(len(candidates.window), dtype=np.float32)
        if len(scores) and not 0 <= candidates.window[0] <= candidates.window[-1] < graph.num_windows:
            raise DetectorError("a pair to be scored names a window that the graph does not have")
        bounds = np.searchsorted(candidates.window, np.arange(graph.num_windows + 1))
        self.module.eval()
        for t in range(graph.num_windows):
            events = range(int(graph.offsets[t]), int(graph.offsets[t + 1]))
            ends = graph.start + (t + 1) * graph.width
            asked = slice(int(bounds[t]), int(bounds[t + 1]))
            self._score_window(stream, memory, events, ends, candidates, asked, scores)
        if own:
            scores[order] = scores.copy()
        return scores, memory.state() | _ring_state(stream.neighbours.ring(len(stream)))

    @torch.no_grad()
    def _score_window(
        self,
        stream: Stream,
        memory: TgnMemory,
        events: range,
        ends: int,
        candidates: Candidates,
        asked: slice,
        scores: Float32,
    ) -> None:
        """Fill `scores[asked]`, each pair beside the batch its moment falls into, and take the events in.

        Batches end with windows and never part a moment: scores do not hang on how a log is cut into calls.
        """
        pairs = np.arange(asked.start, asked.stop)
        moment = np.full(len(pairs), ends) if candidates.time is None else candidates.time[asked]
        parts = [*stream.whole_moments(self.settings.batch, events.start, events.stop), np.zeros(0, np.int64)]
        until = np.array([stream.time[batch[-1]] for batch in parts[:-1]], dtype=np.int64)
        part_of_pair = np.searchsorted(until, moment, side="left")
        for number, batch in enumerate(parts):
            here = np.flatnonzero(part_of_pair == number)
            updated = None
            for chunk in batches(here, max(PAIRS_AT_ONCE, self.settings.batch)):
                at = pairs[chunk]
                question = Asked(
                    candidates.src[at].astype(np.int64), candidates.dst[at].astype(np.int64), moment[chunk]
                )
                logits, updated = self.module(stream, memory, batch, question)
                scores[at] = torch.sigmoid(-logits).cpu().numpy()
            if len(batch):
                self.module.observe(stream, memory, batch, updated)

    def _memory(self, graph: TemporalGraph) -> TgnMemory:
        features = int(self.shape.weighted)
        return TgnMemory.empty(graph.num_nodes, self.settings.memory, self.device, features)

    def _stream(self, graph: TemporalGraph, events: Int64, past: Ring | None = None) -> Stream:
        k = self.settings.neighbours
        if past is None:
            past = Ring.empty(graph.num_nodes, k)
        weight = roles = None
        if self.shape.weighted:
            if graph.strength is None:
                raise DetectorError(
                    "the graph does not say what its edges weigh", remedy="Build it with graph.weight."
                )
            weight = graph.strength[events]
        if self.shape.roles:
            first = self.shape.table_size - self.shape.roles
            roles = np.where(graph.rows[:, -1] >= 0, graph.rows[:, -1] - first, -1).astype(np.int64)
        return Stream(graph.src[events], graph.dst[events], graph.time[events], past, k, weight, roles)

    def _split(self, graph: TemporalGraph) -> tuple[Int64, int]:
        """Events in order of time, and how many of them train."""
        order = np.argsort(graph.time, kind="stable")
        return order, round(len(order) * (1.0 - self.settings.validation_events))

    def _hidden(self, graph: TemporalGraph) -> NDArray[np.bool_]:
        """Which events touch a hidden host."""
        hosts = hidden_hosts(graph, self.settings.hidden_hosts)
        return hosts[graph.src] | hosts[graph.dst]

    def _ring(self, state: State, nodes: int) -> Ring:
        ring = Ring.empty(nodes, self.settings.neighbours)
        for name, array in _ring_state(ring).items():
            if state[name].shape[1:] != array.shape[1:] or not np.isfinite(state[name]).all():
                raise DetectorError(f"the state's {name} has another shape or holds no finite number")
            array[: len(state[name])] = state[name]
        return ring


def _ring_state(ring: Ring) -> State:
    return {"neighbour": ring.node, "neighbour_time": ring.time}
