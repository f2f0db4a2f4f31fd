"""Edges that belong to an incident without being alerts: what its sources did below what is raised."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.detection.alerts import Alert, in_order
from entente.detection.history import Edges
from entente.detection.incidents import AGAIN, HOURS
from entente.detection.metrics import MICROSECONDS
from entente.detection.policy import to_many
from entente.detection.raising import direction
from entente.detection.scored import ScoredEdges

MOST = 20
"""Further edges of one incident, window and silo: those with the highest scores."""
PAIR_AGAIN = "a pair of this incident, seen again"
FIRST_CONTACT = "a first contact of a source that acts in this incident"
HOUR = 3600 * MICROSECONDS

Incidents = Mapping[int, str]
"""Window -> incident."""


@dataclass(frozen=True, slots=True, eq=False)
class SiloEdges:
    """A silo's scored edges, which of their hosts are its own, and its edges of before."""

    scored: ScoredEdges
    own: NDArray[np.bool_]
    history: Sequence[Edges]


def further_edges(
    silos: Sequence[SiloEdges], alerts: Sequence[Alert], earlier: Sequence[Alert] = ()
) -> tuple[Alert, ...]:
    """The edges that were not raised but belong to incidents of `alerts`, or of what was told before them.

    A pair's first contact does where its source was raised within `HOURS` hours of it, before or after. Then
    every edge does whose pair was an alert or such a contact within the last `AGAIN` hours. What two silos
    see is told by the one that owns the source. An edge from before the scored windows has a score of 0: it
    is not known any more.
    """
    told = _Told(alerts, earlier)
    found: dict[str, Alert] = {}
    candidates = [_candidates(silo, told) for silo in silos]
    for belonging in (told.contact, told.again):
        for silo, edges in zip(silos, candidates, strict=True):
            for edge in _belonging(silo, edges, belonging, told):
                if edge.id not in found or edge.direction != "inbound":
                    found[edge.id] = edge
        for edge in found.values():
            told.note(edge)
    return tuple(sorted(found.values(), key=in_order))


@dataclass(frozen=True, slots=True)
class _Candidate:
    window: int
    src: int
    dst: int
    score: float
    first: bool  # contact of the pair
    past: bool  # from before the scored windows


class _Told:
    """What is told already: when which source and which pair belonged to which incident."""

    def __init__(self, alerts: Sequence[Alert], earlier: Sequence[Alert]) -> None:
        self.edges = set[tuple[int, str, str]]()
        self.sources: dict[str, dict[int, str]] = defaultdict(dict)  # that were raised
        self.now: dict[str, dict[int, str]] = defaultdict(dict)  # by the present call
        self._pairs: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
        for alert in (*earlier, *alerts):
            self.note(alert)
        for alert in alerts:
            if alert.incident is not None:
                self.now[alert.src][alert.start] = alert.incident

    def pairs_among(self, names: Sequence[str]) -> NDArray[np.int64]:
        """The pairs that belong to incidents, by the hosts' places in `names`."""
        wanted = {name for pair in self._pairs for name in pair}
        place = {name: i for i, name in enumerate(names) if name in wanted}
        known = [(place[src], place[dst]) for src, dst in self._pairs if src in place and dst in place]
        src, dst = np.array(known, dtype=np.int32).reshape(-1, 2).T
        return _pair(src, dst)

    def note(self, edge: Alert) -> None:
        self.edges.add((edge.start, edge.src, edge.dst))
        if edge.incident is None:
            return
        if edge.raised:
            self.sources[edge.src][edge.start] = edge.incident
        if edge.explanation != (PAIR_AGAIN,):
            self._pairs[edge.src, edge.dst][edge.start] = edge.incident

    def contact(self, edge: _Candidate, src: str, dst: str) -> tuple[str, str] | None:
        """The incident in which the source of a first contact acted nearest to it."""
        raised = self.now if edge.past else self.sources
        near = _nearest(raised.get(src, {}), edge.window, HOURS, HOURS) if edge.first else None
        return None if near is None else (near, FIRST_CONTACT)

    def again(self, edge: _Candidate, src: str, dst: str) -> tuple[str, str] | None:
        """The incident that the pair belonged to last."""
        near = None if edge.past else _nearest(self._pairs.get((src, dst), {}), edge.window, AGAIN, 0.0)
        return None if near is None else (near, PAIR_AGAIN)


def _nearest(incidents: Incidents, window: int, before: float, after: float) -> str | None:
    """The incident nearest to the window, from so many hours before to so many hours after it."""
    inside = [start for start in incidents if -after * HOUR <= window - start <= before * HOUR]
    return incidents[min(inside, key=lambda start: (abs(window - start), start))] if inside else None


def _candidates(silo: SiloEdges, told: _Told) -> list[_Candidate]:
    """Edges scored now of sources that are raised, and of the hours before of sources that are raised now."""
    scored = silo.scored
    names = scored.hosts.tolist()
    acting, now = (np.array([name in known for name in names], bool) for known in (told.sources, told.now))
    if not len(scored) or not acting.any():
        return []
    begin = int(scored.window.min())
    parts = [_chosen(acting, scored.window, scored.src, scored.dst, scored.score)]
    for window, src, dst in silo.history if now.any() else ():
        late = window >= begin - HOURS * HOUR
        parts.append(_chosen(now, window[late], src[late], dst[late], np.zeros(int(late.sum()), np.float32)))
    window, src, dst, score = (np.concatenate(column) for column in zip(*parts, strict=True))
    first = window == _first_windows(window, src, dst, silo.history, len(names))
    # Only a first contact and a pair that belongs to an incident, or will, can belong to one.
    follow = np.union1d(_pair(src[first], dst[first]), told.pairs_among(names))
    keep = first | np.isin(_pair(src, dst), follow)
    rows = zip(*(column[keep].tolist() for column in (window, src, dst, score, first)), strict=True)
    found = [_Candidate(when, s, d, high, new, when < begin) for when, s, d, high, new in rows]
    return sorted(found, key=lambda edge: (edge.window, -edge.score))


def _chosen(wanted: NDArray[np.bool_], *columns: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """The rows of (windows, sources, targets, ...) whose sources are wanted."""
    keep = wanted[columns[1]]
    return tuple(column[keep] for column in columns)


def _first_windows(
    window: NDArray[np.int64],
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    history: Sequence[Edges],
    hosts: int,
) -> NDArray[np.int64]:
    """For every edge the first window of its pair, among these edges and in the history."""
    keys = np.unique(_pair(src, dst))
    sources, targets = np.zeros((2, hosts), dtype=bool)
    sources[src], targets[dst] = True, True
    first = np.full(len(keys), np.iinfo(np.int64).max)
    for when, a, b in ((window, src, dst), *history):
        near = sources[a] & targets[b]
        pairs, starts = _pair(a[near], b[near]), when[near]
        place = np.minimum(np.searchsorted(keys, pairs), len(keys) - 1)
        same = keys[place] == pairs
        np.minimum.at(first, place[same], starts[same])
    found: NDArray[np.int64] = first[np.searchsorted(keys, _pair(src, dst))]
    return found


def _pair(src: NDArray[np.int32], dst: NDArray[np.int32]) -> NDArray[np.int64]:
    """One number per directed pair."""
    keys: NDArray[np.int64] = (src.astype(np.int64) << 32) | dst
    return keys


def _belonging(
    silo: SiloEdges,
    edges: Iterable[_Candidate],
    belonging: Callable[[_Candidate, str, str], tuple[str, str] | None],
    told: _Told,
) -> Iterator[Alert]:
    scored, own = silo.scored, silo.own
    members, done = Counter[tuple[int, str]](), set(told.edges)
    for edge in edges:
        src, dst = str(scored.hosts[edge.src]), str(scored.hosts[edge.dst])
        if (edge.window, src, dst) in done:
            continue
        done.add((edge.window, src, dst))
        found = belonging(edge, src, dst)
        if found is None or members[edge.window, found[0]] == MOST or to_many(dst):
            continue
        members[edge.window, found[0]] += 1
        yield Alert(
            start=edge.window,
            end=edge.window + scored.width,
            src=src,
            dst=dst,
            score=edge.score,
            threshold=float(np.float32(scored.thresholds[0])),
            severity="low",
            silo=scored.silos[0],
            explanation=(found[1],),
            direction=direction(bool(own[edge.src]), bool(own[edge.dst])),
            incident=found[0],
            raised=False,
        )
