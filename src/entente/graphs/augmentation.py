"""A silo's own graph out of a timeline: its hosts, and one hop beyond."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entente.graphs.identity import Identity
from entente.graphs.snapshots import Timeline
from entente.graphs.temporal import TemporalGraph


@dataclass(frozen=True, slots=True, eq=False)
class SiloGraph:
    """A temporal graph with the names behind its node numbers; the names stay in the silo."""

    graph: TemporalGraph
    names: NDArray[np.str_]  # of node 0, 1, ...
    own: NDArray[np.bool_]  # whether the node belongs to the silo

    @property
    def own_hosts(self) -> int:
        return int(self.own.sum())


def silo_graph(
    timeline: Timeline, own: NDArray[np.bool_], identity: Identity, *, augmentation: bool = True
) -> SiloGraph:
    """The edges a silo sees; `own` says for each of the timeline's hosts whether it is the silo's.

    With 1-hop augmentation these are all edges that touch an own host, else those between own hosts.
    Nodes are numbered in the order of the timeline's hosts; own hosts without an edge are nodes too.
    """
    from_own, to_own = own[timeline.src], own[timeline.dst]
    keep = from_own | to_own if augmentation else from_own & to_own
    src, dst = timeline.src[keep], timeline.dst[keep]
    present = own.copy()
    present[src] = True
    present[dst] = True
    number = np.cumsum(present, dtype=np.int32) - np.int32(1)
    kept = np.concatenate(([0], np.cumsum(keep, dtype=np.int64)))
    names = timeline.hosts[present]
    graph = TemporalGraph(
        rows=identity.rows(names.tolist()),
        table_size=identity.table_size,
        start=timeline.start,
        width=timeline.width,
        offsets=kept[timeline.offsets],
        src=number[src],
        dst=number[dst],
        time=timeline.time[keep],
        weight=timeline.weight[keep],
        label=None if timeline.label is None else timeline.label[keep],
        merged=timeline.merged,
    )
    return SiloGraph(graph, names, own[present])
