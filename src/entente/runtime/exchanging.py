"""The exchange while detecting: what a silo says of its hosts, and what it makes of what it is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from entente.artifacts import Arrays
from entente.config import Experiment
from entente.detection.history import Edges
from entente.detection.linked import Mention, Told, annotate, raise_entries, told_words
from entente.detection.policy import AlertPolicy
from entente.detection.raising import Raised, join_silos
from entente.detection.scored import ScoredEdges
from entente.detection.thresholds import Calibration
from entente.detectors.base import Detector, Standing
from entente.errors import ConfigError
from entente.federation.exchange.inbox import Saying, loudest
from entente.federation.exchange.keys import ExchangeKey
from entente.federation.exchange.notes import LASTS, LATE, NOTES, Note, Packet, level_of
from entente.graphs.hosts import HostTable
from entente.graphs.identity import read_secret
from entente.runs.exchange import FIELDS, ExchangeState, Ints

WAITING = 20_000
"""Edges that wait at most, the highest scores."""
Sayings = Mapping[str, Sequence[Saying]]


def exchange_key(experiment: Experiment) -> ExchangeKey | None:
    """The silos' key where the experiment exchanges suspicion; None where it does not."""
    if not experiment.federation.exchange:
        return None
    if experiment.graph.secret is None:
        raise ConfigError(
            "federation.exchange needs graph.secret",
            remedy="Make one with `openssl rand -hex 32` and give every silo the same file.",
        )
    return ExchangeKey(read_secret(experiment.graph.secret))


@dataclass(frozen=True, slots=True, eq=False)
class ExchangeView:
    """New windows of one silo, scored, with the alerts it raised by itself."""

    hosts: HostTable
    scored: ScoredEdges
    span: tuple[int, int]  # starts of the first and the last window
    standing: Standing
    detector: Detector
    history: tuple[Edges, ...]  # before the new windows
    policy: AlertPolicy  # the whole one
    calibration: Calibration | None
    raised: Raised
    before: ExchangeState = field(default_factory=ExchangeState)

    @property
    def silo(self) -> str:
        return self.scored.silos[0]

    @property
    def until(self) -> int:
        return self.span[1] + self.scored.width

    @property
    def edges(self) -> Edges:
        return self.scored.window, self.scored.src, self.scored.dst


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """What became of a view once the others were heard."""

    raised: Raised
    state: ExchangeState
    refused: dict[str, int]


def exchange(
    views: Sequence[ExchangeView], key: ExchangeKey, arrived: Iterable[Packet] = ()
) -> tuple[dict[str, Heard], tuple[Packet, ...]]:
    """All silos of one call speak, then all hear; `arrived` came from silos elsewhere.

    Gives what each silo made of it, and the packets for silos elsewhere. What a silo says rests on its own
    logs alone: nothing that it was told is passed on, so that a lie goes no further than one step.
    """
    spoken = {view.silo: _speak(view, key) for view in views}
    packets = tuple(packet for said, _ in spoken.values() for packet in said)
    everything = (*packets, *arrived)
    return {view.silo: _hear(view, key, everything, spoken[view.silo][1]) for view in views}, packets


def _speak(view: ExchangeView, key: ExchangeKey) -> tuple[list[Packet], Ints]:
    """A packet for every window, and (host, window) of the real notes in them."""
    hosts, standing = view.hosts, view.standing
    met = _first_dealings(hosts, (*view.history, view.edges))
    may = hosts.own[standing.host] & (met[standing.host] <= standing.window)
    window, host, above = standing.window[may], standing.host[may], standing.above[may]
    order = np.lexsort((host, -above, window))
    packets, said = [], list[tuple[int, int]]()
    for start in range(view.span[0], view.until, view.scored.width):
        low, high = np.searchsorted(window[order], (start, start + 1)).tolist()
        chosen = order[low:high][:NOTES].tolist()
        notes = [
            Note(key.pseudonym(str(hosts.names[host[i]]), start), level_of(float(above[i]))) for i in chosen
        ]
        packets.append(key.seal(view.silo, start, view.scored.width, notes))
        said += [(int(host[i]), start) for i in chosen]
    return packets, np.array(said, dtype=np.int64).reshape(-1, 2)


def _first_dealings(hosts: HostTable, parts: Sequence[Edges]) -> Ints:
    """The window of each host's first edge across the silo's border."""
    first = np.full(len(hosts), np.iinfo(np.int64).max, dtype=np.int64)
    for window, src, dst in parts:
        across = hosts.own[src] != hosts.own[dst]
        for end in (src, dst):
            np.minimum.at(first, end[across], window[across])
    return first


def _hear(view: ExchangeView, key: ExchangeKey, packets: Iterable[Packet], said: Ints) -> Heard:
    before, width, since = view.before, view.scored.width, view.span[0]
    inbox, refused = before.inbox.accept(packets, key, view.silo, width, since, view.until)
    inbound = _inbound(view)
    names = view.hosts.names[np.unique(inbound.src)].tolist()
    sayings = inbox.about(names, key)
    told = _told(inbound, sayings, view.detector)
    entered = _joined(before.entered, _named(view, view.raised))
    by_source: dict[int, list[int]] = {}
    for source, window in entered.tolist():
        by_source.setdefault(source, []).append(window)
    found = raise_entries(
        inbound,
        told,
        view.hosts.own,
        (*view.history, view.edges),
        view.policy,
        view.calibration,
        by_source,
        before.budget,
        view.span,
    )
    spoken = _joined(before.spoken, said)
    mention = partial(_mention, view, key, sayings, spoken)
    alerts = join_silos([(*view.raised.alerts, *found.alerts)])
    raised = Raised(
        annotate(alerts, {(a.start, a.src): m for a in alerts if (m := mention(a.start, a.src)) is not None}),
        view.raised.excluded,
        view.raised.budget,
    )
    state = ExchangeState(
        inbox.since(view.until),
        _waiting(inbound, view.until),
        _recent(spoken, view.until),
        _recent(_joined(entered, _named(view, found)), view.until),
        found.budget,
    )
    return Heard(raised, state, refused)


def _inbound(view: ExchangeView) -> ScoredEdges:
    """The edges into the silo, of the new windows and of those whose notes may come late."""
    scored, own = view.scored, view.hosts.own
    new = scored.chosen(~own[scored.src] & own[scored.dst])
    window, src, dst, score = (
        np.concatenate([view.before.inbound[name], getattr(new, name)]) for name in FIELDS
    )
    size = len(window)
    return replace(
        new,
        window=window,
        src=src,
        dst=dst,
        score=score,
        silo=np.zeros(size, dtype=np.int16),
        own_source=np.zeros(size, dtype=bool),
        alert=np.zeros(size, dtype=bool),
        label=None,
    )


def _told(inbound: ScoredEdges, sayings: Sayings, detector: Detector) -> Told:
    """What was said of the source of each edge, as of the edge's window."""
    size = len(inbound)
    odds, window, silo = np.zeros(size), np.zeros(size, dtype=np.int64), [""] * size
    spoken_of = np.isin(inbound.hosts, list(sayings))
    for i in np.flatnonzero(spoken_of[inbound.src]).tolist():
        now = int(inbound.window[i])
        best = loudest(sayings[str(inbound.hosts[inbound.src[i]])], now)
        if best is not None:
            odds[i], window[i], silo[i] = best.at(now), best.window, best.silo
    return Told(odds, silo, window, detector.with_told(inbound.score, odds))


def _mention(
    view: ExchangeView, key: ExchangeKey, sayings: Sayings, spoken: Ints, window: int, source: str
) -> Mention | None:
    best = loudest(sayings.get(source, ()), window)
    if best is not None:
        return Mention(key.link(source), told_words(best.silo, best.window))
    number = int(view.hosts.numbers(np.array([source]))[0])
    age = window - spoken[spoken[:, 0] == number, 1]
    return Mention(key.link(source)) if ((age >= 0) & (age < LASTS)).any() else None


def _named(view: ExchangeView, raised: Raised) -> Ints:
    """(host, window) of the foreign sources that alerts name."""
    alerts = [alert for alert in raised.alerts if alert.direction == "inbound"]
    numbers = view.hosts.numbers(np.array([alert.src for alert in alerts], dtype=np.str_))
    windows = np.array([alert.start for alert in alerts], dtype=np.int64)
    return np.stack([numbers.astype(np.int64), windows], axis=1)


def _joined(*parts: Ints) -> Ints:
    return np.unique(np.concatenate(parts), axis=0)


def _recent(pairs: Ints, until: int) -> Ints:
    return pairs[pairs[:, 1] > until - LASTS]


def _waiting(inbound: ScoredEdges, until: int) -> Arrays:
    places = np.flatnonzero(inbound.window >= until - LATE)
    if len(places) > WAITING:
        places = np.sort(places[np.argsort(-inbound.score[places], kind="stable")[:WAITING]])
    return {name: getattr(inbound, name)[places] for name in FIELDS}
