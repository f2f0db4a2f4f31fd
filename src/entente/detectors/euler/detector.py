"""Euler: a graph encoder per snapshot, a recurrence over snapshots, an edge decoder."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from entente.config import DetectorOptions
from entente.detectors.base import Candidates, GraphShape, State, Training, Validation
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
from entente.errors import DetectorError
from entente.graphs.sampling import NonEdges, held_out
from entente.graphs.temporal import Float32, Int64, TemporalGraph

STATE_NAMES = ("hidden", "cell")
EMBEDDING = "embedding"

ROWS_AT_ONCE = 1 << 19
"""Embeddings (windows x hosts) that scoring holds at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class _Prepared:
    """A training graph, split into training and held-out edges.

    Non-edges are drawn among all hosts of the graph, active or not: a host that does nothing should not
    look like one that does.
    """

    source: TemporalGraph
    adjacency: Adjacency
    train: TemporalGraph
    held: TemporalGraph
    non_edges: NonEdges


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
        self._prepared: _Prepared | None = None

    @property
    def components(self) -> dict[str, tuple[str, ...]]:
        last = "ENC" if self.settings.temporal == "none" else "TEMP"
        owner = {"encoder": "ENC", "recurrence": "TEMP", "projection": last, "decoder": "DEC"}
        parts: dict[str, tuple[str, ...]] = {}
        for name, _ in self.module.named_parameters():
            part = owner[name.partition(".")[0]]
            parts[part] = (*parts.get(part, ()), name)
        return parts

    @property
    def identity_tables(self) -> tuple[str, ...]:
        tables = ("encoder.first.map.weight", "encoder.first.pool.weight")
        names = dict(self.module.named_parameters())
        return tuple(name for name in tables if name in names)

    @one_thread()
    def train(
        self, graph: TemporalGraph, epochs: int, rng: np.random.Generator, proximal: float = 0.0
    ) -> Training:
        """One Adam step per epoch over all windows, with fresh non-edges and fresh dropout in each."""
        began = time.perf_counter()
        prepared = self._prepare(graph)
        noise = torch.Generator().manual_seed(int(rng.integers(2**63)))
        anchor, loss = self.anchor(), torch.zeros(())
        edges = prepared.train.num_edges
        for _ in range(epochs if edges else 0):
            loss = self._loss(prepared, rng, noise)
            total = loss + self.proximal_term(anchor, proximal) if proximal else loss
            self.optimiser.zero_grad()
            total.backward()  # type: ignore[no-untyped-call]
            self.optimiser.step()
        if not bool(torch.isfinite(loss)):
            raise DetectorError(
                "training diverged: the loss is not a finite number",
                remedy="Lower detector.lr; check that event counts in the log are sane.",
            )
        return Training(float(loss.detach()), edges, time.perf_counter() - began)

    @one_thread()
    def validate(self, graph: TemporalGraph, rng: np.random.Generator) -> Validation:
        prepared = self._prepare(graph)
        held = prepared.held
        counts = np.diff(held.offsets)
        if self.settings.task == "prediction" and len(counts):
            counts[0] = 0
        negative = Candidates(*prepared.non_edges.draw(counts, rng))
        positive = self._in_reach(_edges(held))
        edges = len(positive.window)
        if not edges or not len(negative.window):
            return Validation(0.0, 0.0, 0)
        pairs = _join(positive, negative)
        with torch.no_grad():
            z, _ = self._embed(held, prepared.adjacency, None)
            logits = self._logits(z, prepared.adjacency, pairs).cpu().numpy()
        ap, auc = average_precision_and_auc(np.arange(len(pairs.window)) < edges, logits)
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
                scores[low:high], kept = self._score_part(part, kept, pairs)
        return scores, {name: value.cpu().numpy() for name, value in kept.items()}

    def _score_part(
        self, graph: TemporalGraph, state: dict[str, Tensor], pairs: Candidates
    ) -> tuple[Float32, dict[str, Tensor]]:
        adjacency = Adjacency(lay_out_graph(graph))
        initial = tuple(state[name] for name in STATE_NAMES if name in state)
        z, after = self._embed(graph, adjacency, None, initial)
        kept = dict(zip(STATE_NAMES, after, strict=False))
        if EMBEDDING in state:
            last = np.full(graph.num_nodes, graph.num_windows - 1)
            every = self._row(adjacency, last, np.arange(graph.num_nodes))
            kept[EMBEDDING] = z.index_select(0, indices(every).to(self.device))
            z = torch.cat((z, state[EMBEDDING]))  # what the first window's pairs are predicted from
        logits = self._logits(z, adjacency, pairs)
        anomaly: Float32 = torch.sigmoid(-logits).cpu().numpy()
        return anomaly, kept

    def _loss(self, prepared: _Prepared, rng: np.random.Generator, noise: torch.Generator) -> Tensor:
        """The mean over windows of the cross entropy, edges and non-edges weighing the same."""
        counts = np.diff(prepared.train.offsets)
        edges = self._in_reach(_edges(prepared.train))
        drawn = prepared.non_edges.draw(counts * self.settings.negatives, rng)
        non_edges = self._in_reach(Candidates(*drawn))
        sign = np.ones(len(edges.window) + len(non_edges.window), dtype=np.float32)
        sign[len(edges.window) :] = -1.0
        share = np.concatenate([_window_shares(part.window, len(counts)) for part in (edges, non_edges)])
        adjacency = prepared.adjacency
        if self.settings.edge_dropout:
            kept = rng.random(prepared.train.num_edges) >= self.settings.edge_dropout
            adjacency = Adjacency(lay_out_graph(prepared.train.select(kept)))
        z, _ = self._embed(prepared.train, adjacency, noise)
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

    def _prepare(self, graph: TemporalGraph) -> _Prepared:
        """Split and laid out; kept for the next call with the same graph."""
        if self._prepared is not None and self._prepared.source is graph:
            return self._prepared
        check_graph(graph, self.shape)
        held = held_out(graph, self.settings.validation_edges)
        train = graph.select(~held)
        self._prepared = _Prepared(
            source=graph,
            adjacency=Adjacency(lay_out_graph(train)),
            train=train,
            held=graph.select(held),
            non_edges=NonEdges(graph),
        )
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
