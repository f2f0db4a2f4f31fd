"""Euler: a graph encoder per snapshot, a recurrence over snapshots, an edge decoder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from entente.config import DetectorOptions
from entente.detectors.base import Candidates, GraphShape, State, Training, Validation
from entente.detectors.euler.batches import MakeBatch, TrainingGraph
from entente.detectors.euler.cells import CELLS, States
from entente.detectors.euler.layout import indices, lay_out_graph
from entente.detectors.euler.model import EulerModel
from entente.detectors.euler.options import EulerOptions
from entente.detectors.layers import Adjacency
from entente.detectors.neural import (
    NeuralDetector,
    average_precision_and_auc,
    check_arrays,
    check_graph,
    one_thread,
)
from entente.detectors.peers import Peers
from entente.errors import DetectorError
from entente.graphs.temporal import Float32, Int64, TemporalGraph

STATE_NAMES = ("hidden", "cell")
EMBEDDING = "embedding"
TABLES = ("encoder.first.map.weight", "encoder.first.pool.weight")
"""Weights with one row per identity, unless they are fixed."""

ROWS_AT_ONCE = 1 << 19
"""Embeddings (windows x hosts) that scoring holds at a time."""


class Euler(NeuralDetector):
    """The snapshot detector of the paper; see `EulerOptions` for its parts."""

    name: ClassVar[str] = "euler"
    summary: ClassVar[str] = "GCN, SAGE or GAT per snapshot, GRU or LSTM over snapshots (Euler)."
    local_epochs: ClassVar[int] = 5
    Options: ClassVar[type[DetectorOptions]] = EulerOptions

    config: EulerOptions
    module: EulerModel

    def __init__(self, config: EulerOptions, shape: GraphShape, seed: int) -> None:
        self.settings = config.settings()
        super().__init__(config, shape, seed, lambda: EulerModel(self.settings, shape))
        self._prepared: TrainingGraph | None = None

    @property
    def components(self) -> dict[str, tuple[str, ...]]:
        last = "ENC" if self.settings.temporal == "none" else "TEMP"
        owner = {"encoder": "ENC", "recurrence": "TEMP", "projection": last, "decoder": "DEC"}
        parts: dict[str, tuple[str, ...]] = {}
        for name in self._parameters(own=False):
            part = owner[name.partition(".")[0]]
            parts[part] = (*parts.get(part, ()), name)
        return parts

    @property
    def identity_tables(self) -> tuple[str, ...]:
        return () if self.settings.identities == "local" else self._tables

    @property
    def own_names(self) -> tuple[str, ...]:
        return self._tables if self.settings.identities == "local" else ()

    @property
    def _tables(self) -> tuple[str, ...]:
        names = dict(self.module.named_parameters())
        return tuple(name for name in TABLES if name in names)

    @one_thread()
    def train(
        self, graph: TemporalGraph, epochs: int, rng: np.random.Generator, proximal: float = 0.0
    ) -> Training:
        """One Adam step per epoch over all windows, with fresh non-edges and fresh dropout in each.

        With `batch_edges` one per batch; processes that train together take one each and step by the mean.
        """
        began = time.perf_counter()
        edges = self._prepare(graph).learnt
        noise = torch.Generator().manual_seed(int(rng.integers(2**63)))
        anchor, peers, loss = self.anchor(), Peers.present(), 0.0
        peers.begin(self.module)
        for _ in range(epochs if edges else 0):
            batches, losses = self._batches(graph, rng, noise), []
            while step := list(islice(batches, peers.size)):
                self.optimiser.zero_grad()
                for batch in step[peers.rank :: peers.size]:
                    losses.append(self._learn(batch, len(step), anchor, proximal))
                peers.sum_gradients(self.module)
                self.optimiser.step()
            loss = peers.mean(losses)
        if not np.isfinite(loss):
            raise DetectorError(
                "training diverged: the loss is not a finite number",
                remedy="Lower detector.lr; check that event counts in the log are sane.",
            )
        return Training(loss, edges, time.perf_counter() - began)

    @one_thread()
    def validate(self, graph: TemporalGraph, rng: np.random.Generator) -> Validation:
        whole = self._prepare(graph)
        state = self._fit_state(graph, self.initial_state(graph))
        labels, logits = [], []
        with torch.no_grad():
            for number, part in enumerate([whole] if self._at_once(whole) else whole.spans(ROWS_AT_ONCE)):
                counts, positive = np.diff(part.held.offsets), _edges(part.held)
                if number == 0:
                    positive = self._in_reach(positive)
                    if self.settings.task == "prediction" and len(counts):
                        counts[0] = 0
                negative = Candidates(*part.non_edges.draw(counts, rng))
                pairs = _join(positive, negative)
                found, state = self._logits_after(part.train, part.adjacency, state, pairs)
                logits.append(found.cpu().numpy())
                labels.append(np.arange(len(pairs.window)) < len(positive.window))
        label = np.concatenate(labels) if labels else np.zeros(0, dtype=np.bool_)
        edges = int(label.sum())
        if not 0 < edges < len(label):
            return Validation(0.0, 0.0, 0)
        ap, auc = average_precision_and_auc(label, np.concatenate(logits))
        return Validation(ap, auc, edges)

    def initial_state(self, graph: TemporalGraph) -> State:
        return {
            name: np.zeros((graph.num_nodes, width), np.float32) for name, width in self._widths().items()
        }

    @one_thread()
    def score(
        self, graph: TemporalGraph, state: State, candidates: Candidates | None = None
    ) -> tuple[Float32, State]:
        check_graph(graph, self.shape)
        kept = self._fit_state(graph, state)
        if candidates is None:
            candidates = _edges(graph)
        scores = np.empty(len(candidates.window), dtype=np.float32)
        if len(scores) and not 0 <= candidates.window[0] <= candidates.window[-1] < graph.num_windows:
            raise DetectorError("a pair to be scored names a window that the graph does not have")
        step = max(1, ROWS_AT_ONCE // max(graph.num_nodes, 1))
        with torch.no_grad():
            for first in range(0, graph.num_windows, step):
                part = graph.windows(first, first + step)
                low, high = np.searchsorted(candidates.window, (first, first + part.num_windows))
                pairs = Candidates(
                    candidates.window[low:high] - first, candidates.src[low:high], candidates.dst[low:high]
                )
                logits, kept = self._logits_after(part, Adjacency(lay_out_graph(part)), kept, pairs)
                scores[low:high] = torch.sigmoid(-logits).cpu().numpy()
        return scores, {name: value.cpu().numpy() for name, value in kept.items()}

    def _logits_after(
        self, graph: TemporalGraph, adjacency: Adjacency, state: dict[str, Tensor], pairs: Candidates
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Logits of pairs, `state` being what the windows before left, and the state after the last one."""
        initial = tuple(state[name] for name in STATE_NAMES if name in state)
        z, after = self._embed(graph, adjacency, None, initial)
        kept = dict(zip(STATE_NAMES, after, strict=False))
        if EMBEDDING in state:
            last = np.full(graph.num_nodes, graph.num_windows - 1)
            every = self._row(adjacency, last, np.arange(graph.num_nodes))
            kept[EMBEDDING] = z.index_select(0, indices(every).to(self.device))
            z = torch.cat((z, state[EMBEDDING]))  # what the first window's pairs are predicted from
        return self._logits(z, adjacency, pairs), kept

    def _at_once(self, whole: TrainingGraph) -> bool:
        """Whether the graph is small enough to be taken as one."""
        return self.config.batch_edges is None or whole.source.num_edges <= self.config.batch_edges

    def _batches(
        self, graph: TemporalGraph, rng: np.random.Generator, noise: torch.Generator
    ) -> Iterator[Callable[[], Tensor]]:
        """What an epoch learns, as losses to be computed; each batch has draws of its own."""
        whole = self._prepare(graph)
        if self.config.batch_edges is None or self._at_once(whole):
            yield partial(self._loss, whole, rng, noise)
            return
        for make in whole.batches(self.config.batch_edges, rng):
            yield partial(self._batch_loss, make, int(rng.integers(2**63)))

    def _learn(
        self, batch: Callable[[], Tensor], batches: int, anchor: list[Tensor], proximal: float
    ) -> float:
        """Add the gradients of one of a step's batches; its loss."""
        loss = batch()
        total = loss + self.proximal_term(anchor, proximal) if proximal else loss
        (total / batches).backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    def _batch_loss(self, make: MakeBatch, seed: int) -> Tensor:
        rng = np.random.default_rng(seed)
        noise = torch.Generator().manual_seed(int(rng.integers(2**63)))
        return self._loss(make(rng), rng, noise)

    def _loss(self, part: TrainingGraph, rng: np.random.Generator, noise: torch.Generator) -> Tensor:
        """The mean over windows of the cross entropy, edges and non-edges weighing the same."""
        counts = np.diff(part.train.offsets)
        edges = self._in_reach(_edges(part.train))
        drawn = part.non_edges.draw(counts * self.settings.negatives, rng)
        non_edges = self._in_reach(Candidates(*drawn))
        sign = np.ones(len(edges.window) + len(non_edges.window), dtype=np.float32)
        sign[len(edges.window) :] = -1.0
        share = np.concatenate([_window_shares(pairs.window, len(counts)) for pairs in (edges, non_edges)])
        adjacency = part.adjacency
        if self.settings.edge_dropout:
            kept = rng.random(part.train.num_edges) >= self.settings.edge_dropout
            adjacency = Adjacency(lay_out_graph(part.train.select(kept)))
        z, _ = self._embed(part.train, adjacency, noise)
        logits = self._logits(z, adjacency, _join(edges, non_edges))
        losses = nn.functional.softplus(-torch.from_numpy(sign).to(self.device) * logits)
        return torch.dot(losses, torch.from_numpy(share).to(self.device)) / 2

    def _embed(
        self,
        graph: TemporalGraph,
        adjacency: Adjacency,
        noise: torch.Generator | None,
        initial: States | None = None,
    ) -> tuple[Tensor, States]:
        """Z, and the states after the last window; from zero states unless `initial` has others."""
        if initial is None:
            states = [name for name in self._widths() if name != EMBEDDING]
            initial = tuple(
                torch.zeros(graph.num_nodes, self.settings.hidden, device=self.device) for _ in states
            )
        rows = indices(graph.rows.astype(np.int64)).to(self.device)
        z, after = self.module(rows, adjacency, initial, noise)
        return z, after

    def _logits(self, z: Tensor, adjacency: Adjacency, pairs: Candidates) -> Tensor:
        """Logits of pairs from their own window's embeddings, or from those of the window before."""
        ends = []
        for node in (pairs.src.astype(np.int64), pairs.dst.astype(np.int64)):
            if self.settings.task == "detection":
                row = self._row(adjacency, pairs.window, node)
            else:
                before = len(z) - adjacency.layout.nodes + node
                row = np.where(pairs.window > 0, self._row(adjacency, pairs.window - 1, node), before)
            ends.append(indices(row).to(self.device))
        logits: Tensor = self.module.decoder(z, *ends)
        return logits

    def _row(self, adjacency: Adjacency, window: Int64, node: Int64) -> Int64:
        """The row of Z that holds a host in a window."""
        if self.module.recurrence is None:
            return adjacency.layout.position(window, node)
        if self.module.by_visit:
            return adjacency.visits.position(window, node)
        return window * adjacency.layout.nodes + node

    def _in_reach(self, pairs: Candidates) -> Candidates:
        """Without the first window's pairs, which training has nothing to predict from."""
        if self.settings.task == "detection":
            return pairs
        first = int(np.searchsorted(pairs.window, 1))
        return Candidates(pairs.window[first:], pairs.src[first:], pairs.dst[first:])

    def _widths(self) -> dict[str, int]:
        """Names and widths of the state's arrays."""
        recurrent = self.settings.temporal != "none"
        count = CELLS[self.settings.temporal].states if recurrent else 0
        widths = dict.fromkeys(STATE_NAMES[:count], self.settings.hidden)
        if self.settings.task == "prediction" and not self.module.by_visit:
            widths[EMBEDDING] = self.settings.embedding  # else it follows from the hidden state
        return widths

    def _fit_state(self, graph: TemporalGraph, state: State) -> dict[str, Tensor]:
        """The state on the device, with zeros for hosts that were appended since."""
        known = min((len(array) for array in state.values()), default=0)
        check_arrays("state", {name: (known, width) for name, width in self._widths().items()}, state)
        if known > graph.num_nodes:
            raise DetectorError(
                f"the state knows {known} hosts, the graph only {graph.num_nodes}",
                remedy="New hosts are appended; known ones keep their numbers.",
            )
        fitted = {}
        for name, array in state.items():
            fitted[name] = torch.zeros(graph.num_nodes, array.shape[1], device=self.device)
            fitted[name][:known] = torch.from_numpy(np.array(array))
        return fitted

    def _prepare(self, graph: TemporalGraph) -> TrainingGraph:
        """Kept for the next call with the same graph."""
        if self._prepared is None or self._prepared.source is not graph:
            check_graph(graph, self.shape)
            self._prepared = TrainingGraph.of(graph, self.settings.validation_edges)
        return self._prepared


def _edges(graph: TemporalGraph) -> Candidates:
    return Candidates(graph.window_of_edge(), graph.src, graph.dst)


def _join(one: Candidates, other: Candidates) -> Candidates:
    return Candidates(
        np.concatenate((one.window, other.window)),
        np.concatenate((one.src, other.src)),
        np.concatenate((one.dst, other.dst)),
    )


def _window_shares(window: Int64, windows: int) -> Float32:
    """Weights with which a sum over pairs becomes the mean over windows of the mean over a window's pairs."""
    counts = np.bincount(window, minlength=windows)
    shares: Float32 = (1.0 / (counts[window] * max(int(np.count_nonzero(counts)), 1))).astype(np.float32)
    return shares
