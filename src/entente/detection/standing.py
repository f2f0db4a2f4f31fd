"""Hosts and snapshots by how much they stand out: node and snapshot detection from scored edges."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from entente.detection.metrics import area_under_roc, average_precision
from entente.detection.scored import ScoredEdges, unite
from entente.detection.sources import by_source

Thing = Literal["edge", "host", "snapshot"]


@dataclass(frozen=True, slots=True)
class Place:
    """One line of a ranking. A host is a source of edges; a snapshot is a window with all its edges."""

    score: float  # of the highest edge
    window: int  # of that edge: its start, microseconds
    src: str  # of that edge
    dst: str
    edges: int
    alerts: int
    malicious: bool | None  # None without labels

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Ranked:
    """The highest places, of how many, and how well the whole ranking finds what is malicious."""

    places: tuple[Place, ...]
    of: int
    ap: float | None
    auc: float | None


def rank(scored: ScoredEdges, by: Thing, top: int) -> Ranked:
    """What stands out most: edges, hosts over the whole time, or snapshots; each as its highest edge does."""
    whole = unite([scored])
    count = len(whole)
    group = {
        "edge": np.arange(count),
        "host": whole.src.astype(np.int64),
        "snapshot": whole.window // whole.width,
    }[by]
    truth = np.zeros(count, dtype=bool) if whole.label is None else whole.label > 0
    rows = by_source(whole.score.astype(np.float64), truth, whole.alert, np.zeros(count, np.int64), group)
    labelled = whole.label is not None
    order = np.lexsort((whole.dst, whole.src, whole.window, -whole.score))
    _, first = np.unique(group[order], return_index=True)  # each group's highest edge
    highest = order[np.sort(first)][:top]
    places = []
    for at in highest.tolist():
        members = group == group[at]
        places.append(
            Place(
                score=float(whole.score[at]),
                window=int(whole.window[at]),
                src=str(whole.hosts[whole.src[at]]),
                dst=str(whole.hosts[whole.dst[at]]),
                edges=int(members.sum()),
                alerts=int(whole.alert[members].sum()),
                malicious=bool(truth[members].any()) if labelled else None,
            )
        )
    return Ranked(
        tuple(places),
        len(rows.score),
        average_precision(rows.score, rows.truth) if labelled else None,
        area_under_roc(rows.score, rows.truth) if labelled else None,
    )
