"""A silo's own graph out of a timeline, in training and night after night: its hosts, and one hop beyond."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entente.graphs.hosts import UNKNOWN, HostTable
from entente.graphs.identity import Identity
from entente.graphs.snapshots import Timeline
from entente.graphs.temporal import Int32, Int64, TemporalGraph


@dataclass(frozen=True, slots=True, eq=False)
class SiloGraph:
    """A temporal graph with the hosts behind its node numbers; their names stay in the silo."""

    graph: TemporalGraph
    hosts: HostTable


def silo_graph(
    timeline: Timeline,
    own: NDArray[np.bool_],
    identity: Identity,
    *,
    known: HostTable | None = None,
    augmentation: bool = True,
    weight: str = "events",
) -> SiloGraph:
    """The edges a silo sees; `own` says for each of the timeline's hosts whether it is the silo's.

    With 1-hop augmentation these are all edges that touch an own host, else those between own hosts.
    Hosts of `known` keep their numbers. New ones are numbered in the order in which the silo meets them,
    within a window in the order of the timeline's hosts: what is known at any moment are the first so
    many. New own hosts without an edge come last. `identity` gives the rows of new hosts. A `weight` other
    than "events" needs a timeline with context.
    """
    if known is None:
        known = HostTable.empty(identity.rows_per_host)
    from_own, to_own = own[timeline.src], own[timeline.dst]
    keep = from_own | to_own if augmentation else from_own & to_own
    src, dst = timeline.src[keep], timeline.dst[keep]
    offsets = np.concatenate(([0], np.cumsum(keep, dtype=np.int64)))[timeline.offsets]
    met = _first_windows(offsets, src, dst, len(timeline.hosts))
    number = known.numbers(timeline.hosts)
    new = np.flatnonzero((own | (met < timeline.num_windows)) & (number == UNKNOWN))
    new = new[np.argsort(met[new], kind="stable")]
    number[new] = len(known) + np.arange(len(new), dtype=np.int32)
    names = timeline.hosts[new]
    hosts = known.extend(names, own[new], identity.rows(names.tolist()))
    context = None if timeline.context is None else timeline.context[keep].compact()
    graph = TemporalGraph(
        rows=hosts.rows,
        table_size=identity.table_size,
        start=timeline.start,
        width=timeline.width,
        offsets=offsets,
        src=number[src],
        dst=number[dst],
        time=timeline.time[keep],
        weight=timeline.weight[keep],
        label=None if timeline.label is None else timeline.label[keep],
        merged=timeline.merged,
        context=context,
        strength=None if weight == "events" or context is None else context.strengths(weight),
    )
    return SiloGraph(graph.in_order(), hosts)


def _first_windows(offsets: Int64, src: Int32, dst: Int32, hosts: int) -> Int64:
    """The window of each host's first edge; the number of windows for a host without one."""
    windows = len(offsets) - 1
    window = np.repeat(np.arange(windows, dtype=np.int64), np.diff(offsets))
    first = np.full(hosts, windows, dtype=np.int64)
    for end in (src, dst):
        np.minimum.at(first, end, window)
    return first
