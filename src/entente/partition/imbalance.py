"""How unlike the silos are: the non-IID table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entente.partition.base import Assignment
from entente.partition.pairs import IntArray, Pairs


@dataclass(frozen=True, slots=True)
class SiloShare:
    """One silo's part. An edge is a distinct directed host pair; a silo sees those that touch its hosts."""

    silo: str
    hosts: int
    events: int
    edges: int
    cross_edges: int  # of these, the ones whose other end belongs to another silo


@dataclass(frozen=True, slots=True)
class Imbalance:
    """All silos, and how far they spread (sample deviation). Cross-silo edges are counted once here."""

    silos: tuple[SiloShare, ...]
    hosts_deviation: float
    events_deviation: float
    edges: int
    cross_edges: int


def measure_imbalance(assignment: Assignment, pairs: Pairs) -> Imbalance:
    """Hosts, events and edges of each silo, with 1-hop augmentation as the silo would see them."""
    owner = owners(assignment, pairs)
    src, dst = owner[pairs.src], owner[pairs.dst]
    cross = src != dst
    rows = []
    for number, (name, hosts) in enumerate(assignment.sizes().items()):
        seen = (src == number) | (dst == number)
        rows.append(
            SiloShare(
                silo=name,
                hosts=hosts,
                events=int(pairs.events[seen].sum()),
                edges=int(seen.sum()),
                cross_edges=int((seen & cross).sum()),
            )
        )
    return Imbalance(
        silos=tuple(rows),
        hosts_deviation=_deviation([row.hosts for row in rows]),
        events_deviation=_deviation([row.events for row in rows]),
        edges=len(pairs.src),
        cross_edges=int(cross.sum()),
    )


def _deviation(counts: list[int]) -> float:
    """Sample standard deviation, as the paper's table has it; 0 for one silo."""
    return float(np.std(counts, ddof=1)) if len(counts) > 1 else 0.0


def owners(assignment: Assignment, pairs: Pairs) -> IntArray:
    """The silo number of every host of the pairs; -1 where the assignment does not know it."""
    number = dict(zip(assignment.hosts, assignment.silo_of.tolist(), strict=True))
    return np.array([number.get(host, -1) for host in pairs.hosts.tolist()], dtype=np.int64)


def seen_by(assignment: Assignment, pairs: Pairs) -> dict[str, NDArray[np.bool_]]:
    """For each silo, which of the pairs touch its hosts."""
    owner = owners(assignment, pairs)
    return {
        name: (owner[pairs.src] == number) | (owner[pairs.dst] == number)
        for number, name in enumerate(assignment.silos)
    }
