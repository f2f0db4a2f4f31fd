"""Whether the hosts that a source has just turned to belong together: a department, the users of one server.

Somebody who maintains machines goes to machines that have something in common; an intruder goes where the
way leads. T is the set of targets that a source met within the last hours, its present window included. For
every host s that members of T use, the number of them that do is compared with chance; likewise for every
host that contacted members of T before. The best such host says how well T hangs together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.detectors.behaviour.memory import Memory
from entente.graphs.temporal import Int32, Int64

Values = NDArray[Any]

LATELY = 4.0
"""Hours within which a target is among those that a source has just turned to."""
FEWEST = 3
"""Targets below which nothing is said."""
WIDEST = 256
"""A host with more partners than this tells nothing about what its partners have in common."""


class Kinship:
    """Of one window: how well each source's latest targets hang together, and by which host."""

    def __init__(self, memory: Memory, number: int, a: Int32, b: Int32) -> None:
        nodes = memory.nodes
        self.out, self.into = np.zeros(nodes), np.zeros(nodes)
        self._by_out, self._by_in = np.full(nodes, -1), np.full(nodes, -1)
        self._memory = memory
        group, member = _latest(memory, number, a, b)
        if len(group):
            sources, targets = memory.host["sources"], memory.host["targets"]
            self.out, self._by_out = _best(memory, group, member, memory.targets_of, sources, targets)
            self.into, self._by_in = _best(memory, group, member, memory.sources_of, targets, sources)

    def values(self, a: Int32, b: Int32) -> dict[str, Values]:
        """Raw values of pairs of this window."""
        belongs = np.zeros(len(a), dtype=bool)
        some = np.flatnonzero((self._by_out[a] >= 0) | (self._by_in[a] >= 0))
        if len(some):
            source, target, known = a[some], b[some], self._memory.knows
            belongs[some] = known(target, self._by_out[source]) | known(self._by_in[source], target)
        return {"kin_out": self.out[a], "kin_in": self.into[a], "kin_b": belongs}


def _latest(memory: Memory, number: int, a: Int32, b: Int32) -> tuple[Int64, Int64]:
    """Sources with enough new targets lately, and these targets: one entry each."""
    count = np.bincount(a, minlength=memory.nodes)
    chosen = np.flatnonzero((count > 0) & (count + memory.host["new_4"] >= FEWEST))
    if not len(chosen):
        return chosen, chosen
    row, place = memory.rows(chosen)
    since = number - round(LATELY / memory.hours)
    young = (memory.pair["pair_windows"][place] > 0) & (memory.pair["pair_first"][place] >= since)
    now = np.isin(a, chosen)
    group = np.concatenate((chosen[row[young]], a[now].astype(np.int64)))
    member = np.concatenate((memory.keys[place[young]] & 0xFFFFFFFF, b[now].astype(np.int64)))
    size = np.bincount(group, minlength=memory.nodes)
    enough = size[group] >= FEWEST
    return group[enough], member[enough]


def _best(
    memory: Memory, group: Int64, member: Int64, partners: Any, popularity: Values, activity: Values
) -> tuple[Values, Values]:
    """Per source the largest surprise, in nats a target, that its targets share a partner; and who it is."""
    nodes = memory.nodes
    size = np.bincount(group, minlength=nodes)
    row, partner = partners(member, WIDEST)
    gain, by = np.zeros(nodes), np.full(nodes, -1)
    outside = partner != group[row]
    pairs, count = np.unique((group[row] * nodes + partner)[outside], return_counts=True)
    several = count >= 2
    pairs, count = pairs[several], count[several]
    if not len(pairs):
        return gain, by
    owner, shared = pairs // nodes, pairs % nodes
    active = np.bincount(memory.part[activity > 0], minlength=memory.parts)[memory.part[shared]]
    chance = np.minimum((popularity[shared] + 1.0) / (active + 2.0), 0.999)
    share = np.minimum(count / size[owner], 1.0)
    rest = np.maximum(1.0 - share, 1e-12)
    surprise = share * np.log(share / chance) + rest * np.log(rest / (1.0 - chance))
    surprise = np.where(share > chance, surprise, 0.0)
    order = np.lexsort((-shared, surprise, owner))  # the last of each owner is its best, ties to the lower
    last = order[np.append(owner[order][1:] != owner[order][:-1], True)]
    gain[owner[last]], by[owner[last]] = surprise[last], shared[last]
    return gain, by
