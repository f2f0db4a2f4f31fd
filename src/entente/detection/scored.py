"""Scored edges: what detectors leave behind, of one silo or of several as one set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.detection.metrics import MICROSECONDS, Metrics, evaluate

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ScoredEdges:
    """Edges with their scores, and whether a silo raised them. All arrays have one entry per edge.

    Hosts and silos are numbers of `hosts` and `silos`: a test of months has tens of millions of edges.
    """

    hosts: NDArray[np.str_]
    silos: tuple[str, ...]
    thresholds: tuple[float, ...]  # of each silo
    width: int  # of a window, microseconds
    window: Int64  # start, microseconds
    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    score: NDArray[np.float32]
    silo: NDArray[np.int16]  # that scored the edge
    own_source: NDArray[np.bool_]  # that silo owns the edge's source
    alert: NDArray[np.bool_]  # a silo raised the edge, by its own score and its own threshold
    label: NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return len(self.score)

    @property
    def threshold(self) -> NDArray[np.float32]:
        """The threshold of the silo that scored the edge."""
        return np.array(self.thresholds, dtype=np.float32)[self.silo]

    def src_names(self) -> list[str]:
        names: list[str] = self.hosts[self.src].tolist()
        return names

    def dst_names(self) -> list[str]:
        names: list[str] = self.hosts[self.dst].tolist()
        return names

    def chosen(self, keep: NDArray[Any]) -> ScoredEdges:
        """Some of the edges, by a mask or by their places."""
        columns = {
            item.name: column[keep]
            for item in fields(self)
            if item.name != "hosts" and isinstance(column := getattr(self, item.name), np.ndarray)
        }
        return replace(self, **columns)

    def metrics(self, budgets: tuple[int, ...]) -> Metrics:
        """Ranking by score; alerts are those that silos raised."""
        seconds = self.width / MICROSECONDS
        return evaluate(
            self.score, self.label, self.window, self.threshold, seconds, budgets, self.src, self.alert
        )


def unite(parts: Sequence[ScoredEdges]) -> ScoredEdges:
    """Several silos' edges as one set, each (window, src, dst) once.

    An edge that two silos see has the score of the one that owns its source. It is an alert when either
    raised it by its own threshold; a score is never held against the threshold of another silo.
    Events of one pair, window and silo count once, with the highest score.
    """
    whole = concatenate(parts)
    order, first = _grouped(whole)
    starts = np.flatnonzero(first)
    if len(starts) == len(order):
        return whole
    sizes = np.diff(np.append(starts, len(order)))
    many = sizes > 1
    inside = np.repeat(many, sizes)
    group, row = np.repeat(np.flatnonzero(many), sizes[many]), order[inside]
    best = np.lexsort((-whole.score[row], ~whole.own_source[row], group))
    group, row = group[best], row[best]
    kept = order[starts]
    kept[many] = row[np.concatenate(([True], np.diff(group) != 0))]
    raised = np.logical_or.reduceat(whole.alert[order], starts)
    del order, sizes, inside, starts
    return replace(whole.chosen(kept), alert=raised)


def concatenate(parts: Sequence[ScoredEdges]) -> ScoredEdges:
    """All edges of all parts with one numbering of hosts and silos; labels only where every part has them."""
    hosts = np.unique(np.concatenate([part.hosts for part in parts]))
    limits = {name: limit for part in parts for name, limit in zip(part.silos, part.thresholds, strict=True)}
    silos = tuple(limits)
    places = [np.searchsorted(hosts, part.hosts).astype(np.int32) for part in parts]
    numbers = [np.array([silos.index(name) for name in part.silos], dtype=np.int16) for part in parts]
    labels = [part.label for part in parts if part.label is not None]
    return ScoredEdges(
        hosts=hosts,
        silos=silos,
        thresholds=tuple(limits.values()),
        width=parts[0].width,
        window=np.concatenate([part.window for part in parts]),
        src=np.concatenate([place[part.src] for place, part in zip(places, parts, strict=True)]),
        dst=np.concatenate([place[part.dst] for place, part in zip(places, parts, strict=True)]),
        score=np.concatenate([part.score for part in parts]),
        silo=np.concatenate([number[part.silo] for number, part in zip(numbers, parts, strict=True)]),
        own_source=np.concatenate([part.own_source for part in parts]),
        alert=np.concatenate([part.alert for part in parts]),
        label=np.concatenate(labels) if len(labels) == len(parts) else None,
    )


def _grouped(edges: ScoredEdges) -> tuple[Int64, NDArray[np.bool_]]:
    """An order that puts rows of one (window, src, dst) together, and where each of these begins."""
    if not len(edges):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool)
    key = edges.src.astype(np.int64)
    key *= len(edges.hosts)
    key += edges.dst
    starts = edges.window - edges.window.min()
    starts //= edges.width
    windows, pairs = int(starts.max()) + 1, len(edges.hosts) ** 2
    if windows * pairs >= 2**63:  # too many to number them all: only the pairs that occur
        present, key = np.unique(key, return_inverse=True)
        pairs = len(present)
    starts *= pairs
    key += starts
    del starts  # tens of millions of rows: what is no longer needed goes at once
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.ones(len(key), dtype=bool)
    np.not_equal(key[1:], key[:-1], out=first[1:])
    return order, first
