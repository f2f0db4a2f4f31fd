"""Euler's own evaluation: three tasks on three snapshot graphs, through the detector contract."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from entente.config import Euler as EulerConfig
from entente.detectors.base import Candidates, GraphShape
from entente.detectors.euler import Euler
from entente.detectors.neural import average_precision_and_auc
from entente.errors import UsageError
from entente.graphs.sampling import NonEdges, held_out
from entente.graphs.temporal import TemporalGraph

TEST_WINDOWS = 3
TEST_EDGES = 0.10
VALIDATION_EDGES = 0.05
EPOCHS = 1500
PATIENCE = 100
WIDTH = 1_000_000


@dataclass(frozen=True, slots=True)
class Settings:
    """What may be chosen per graph by validation."""

    lr: float
    hidden: int = 32
    embedding: int = 16
    dropout: float = 0.25
    weight_decay: float = 0.0


def read_snapshots(path: Path) -> TemporalGraph:
    """A snapshot graph of the evaluation (`t, src, dst, num_nodes`), self loops dropped."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            t, src, dst = (arrays[name].astype(np.int64) for name in ("t", "src", "dst"))
            nodes = int(arrays["num_nodes"])
    except (OSError, KeyError, ValueError) as error:
        raise UsageError(
            f"is not a snapshot graph ({error})",
            where=path,
            remedy="Give --data the folder that holds enron10.npz, dblp.npz and fb.npz.",
        ) from error
    keys = np.unique(((t * nodes + src) * nodes + dst)[src != dst])
    t, src, dst = keys // nodes**2, keys // nodes % nodes, keys % nodes
    windows = int(t.max()) + 1
    return TemporalGraph(
        rows=np.arange(nodes, dtype=np.int32)[:, None],
        table_size=nodes,
        start=0,
        width=WIDTH,
        offsets=np.searchsorted(t, np.arange(windows + 1)).astype(np.int64),
        src=src.astype(np.int32),
        dst=dst.astype(np.int32),
        time=t * WIDTH,
        weight=np.ones(len(keys), dtype=np.float32),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One task on one graph with one seed: what is trained on, what is fed, what is asked."""

    task: str
    train: TemporalGraph
    fed: TemporalGraph
    asked: Candidates
    label: Any


def trial(graph: TemporalGraph, task: str, seed: int) -> Trial:
    """Cut a graph as the evaluation does; `seed` draws the held-out edges and the non-edges."""
    first = graph.num_windows - TEST_WINDOWS
    if task == "detection":
        test = held_out(graph, TEST_EDGES, salt=2 * seed + 1)
        rest = graph.select(~test)
        share = VALIDATION_EDGES / (1.0 - TEST_EDGES)
        fed = rest.select(~held_out(rest, share))
        positive = graph.select(test)
        train = rest.windows(0, first)
    else:
        fed, positive = graph, graph
        if task == "new":
            positive = graph.select(_is_new(graph))
        train = graph.windows(0, first)
    one_way = positive.select((positive.src < positive.dst) & (positive.window_of_edge() >= first))
    rng = np.random.default_rng([seed, 7])
    non_edges = NonEdges(graph, symmetric=True).draw(np.diff(one_way.offsets), rng)
    window = np.concatenate((one_way.window_of_edge(), non_edges[0]))
    order = np.argsort(window, kind="stable")
    asked = Candidates(
        window[order],
        np.concatenate((one_way.src, non_edges[1]))[order],
        np.concatenate((one_way.dst, non_edges[2]))[order],
    )
    return Trial(task, train, fed, asked, (np.arange(len(window)) < one_way.num_edges)[order])


def _is_new(graph: TemporalGraph) -> Any:
    """True for edges that the window before does not have."""
    window = graph.window_of_edge()
    before = NonEdges(graph).contains(window - 1, graph.src.astype(np.int64), graph.dst.astype(np.int64))
    return ~before & (window > 0)


@dataclass(frozen=True, slots=True)
class Outcome:
    auc: float
    ap: float
    validation: float
    epochs: int


def run_trial(
    cut: Trial, settings: Settings, seed: int, epochs: int = EPOCHS, patience: int = PATIENCE
) -> Outcome:
    """Train with early stopping on validation AP + AUC, then score the test pairs with the best weights."""
    config = EulerConfig(
        task="detection" if cut.task == "detection" else "prediction",
        lr=settings.lr,
        hidden=settings.hidden,
        embedding=settings.embedding,
        dropout=settings.dropout,
        weight_decay=settings.weight_decay,
        validation_edges=VALIDATION_EDGES / (1.0 - TEST_EDGES)
        if cut.task == "detection"
        else VALIDATION_EDGES,
    )
    detector = Euler(config, GraphShape(cut.train.table_size), seed)
    rng = np.random.default_rng([seed, 11])
    best, best_epoch, weights = -1.0, 0, detector.weights()
    for epoch in range(epochs):
        detector.train(cut.train, 1, rng)
        validation = detector.validate(cut.train, np.random.default_rng([seed, 13]))
        if validation.ap + validation.auc > best:
            best, best_epoch, weights = validation.ap + validation.auc, epoch, detector.weights()
        elif epoch - best_epoch >= patience:
            break
    detector.load_weights(weights)
    anomaly, _ = detector.score(cut.fed, detector.initial_state(cut.fed), cut.asked)
    ap, auc = average_precision_and_auc(cut.label, -anomaly)
    return Outcome(auc, ap, best / 2, best_epoch)
