"""New events and a finished run -> alerts, going on where the run (or the last call) stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from entente.detection.alerts import Alert
from entente.detection.feedback import NOTHING_LEARNT, Lessons
from entente.detection.further import SiloEdges, further_edges
from entente.detection.history import Edges
from entente.detection.incidents import still_open
from entente.detection.linked import own_part
from entente.detection.policy import AlertPolicy
from entente.detection.raising import Raised, joined, raise_alerts
from entente.federation.exchange.notes import Packet
from entente.logs.edges.store import is_edges
from entente.logs.refine import system_clock
from entente.logs.schema import STORED_SCHEMA
from entente.runs.exchange import ExchangeState
from entente.runs.folder import RunFolder
from entente.runs.mailbox import Mailbox
from entente.runs.state import SiloState
from entente.runtime.assembly import trained_detector
from entente.runtime.evaluation import edge_columns, score_columns
from entente.runtime.evidence import complete, with_events
from entente.runtime.exchanging import ExchangeView, exchange, exchange_key
from entente.runtime.nights import NightRequest, nights
from entente.runtime.waiting import (
    ALL_OF_IT,
    Closing,
    closing,
    early_events,
    joined_events,
    late_events,
    left_open,
)

REMEMBERED = 2_000_000
"""Edges that a silo keeps to explain later alerts with: about two weeks at LANL's size."""


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """One silo's outcome on new events."""

    silo: str
    alerts: int
    edges: int
    windows: int
    new_hosts: int
    since: int  # where the first of these windows begins, microseconds
    until: int  # end of the last window that was scored
    above: int = 0  # edges above the threshold, whatever became of them


@dataclass(frozen=True, slots=True, eq=False)
class Night:
    """The outcome of one call: alerts of all silos, and the memory to go on from once they are written."""

    alerts: tuple[Alert, ...]
    excluded: Mapping[str, int]
    findings: tuple[Finding, ...]
    memory: Mapping[str, SiloState]
    recent: tuple[Alert, ...]  # of the last days, which later edges may continue
    further: tuple[Alert, ...] = ()  # edges of incidents that are no alerts themselves
    waiting: pa.Table = field(default_factory=STORED_SCHEMA.empty_table)  # of windows that are not complete
    late: int = 0  # events of windows that were scored before
    ahead: int = 0  # events from the future, which are set aside
    packets: tuple[Packet, ...] = ()  # for silos elsewhere, where the federation exchanges suspicion
    refused: Mapping[str, int] = field(default_factory=dict)  # packets of theirs, by reason

    @property
    def open_since(self) -> int | None:
        """Where the windows begin that are not complete; None where no event waits."""
        return min(finding.until for finding in self.findings) if self.waiting.num_rows else None

    def commit(self, keep: RunFolder, mailbox: Mailbox | None = None) -> None:
        """Go on from here next time, all silos together. Call it after the alerts are written."""
        if mailbox is not None:
            mailbox.post(self.packets)  # first: posted twice does no harm, not at all would
        if self.memory:
            keep.states.write(self.memory, self.recent, self.waiting)


def detect(
    run: RunFolder,
    events: Path,
    silos: Sequence[str] = (),
    memory: RunFolder | None = None,
    partition: Path | None = None,
    *,
    lateness: float | None = None,
    now: int | None = None,
    lessons: Lessons = NOTHING_LEARNT,
    mailbox: Mailbox | None = None,
    before: int | None = None,
) -> Night:
    """Score new windows for the named silos (by default all, and hosts that belong to none).

    Windows up to the run's end are left out: they have been scored. A silo goes on from `memory`, where
    that has its state, else from the run. Nothing is stored: `Night.commit` does that. `partition` is a
    newer table host,silo than the run's. With `lateness` (seconds) a window is complete once the log has
    come so far beyond its end; the events of others wait in the memory for the next call. Without it all
    windows are, and so are those of an edge directory up to `before` (microseconds; all by default). Events
    from the future, by the clock `now` (microseconds), are set aside. `lessons` are what people taught by
    closing alerts; `mailbox` has what silos elsewhere say, where the run exchanges it.
    """
    if is_edges(events):  # its windows are whole
        whole = ALL_OF_IT if before is None else Closing(before)
        return _score(NightRequest(run, events, silos, memory, partition, lessons, whole, mailbox))
    waiting = memory.states.waiting() if memory is not None else STORED_SCHEMA.empty_table()
    with joined_events(waiting, events) as together:
        wanted = closing(together, lateness, system_clock() if now is None else now)
        request = NightRequest(run, together, silos, memory, partition, lessons, wanted, mailbox)
        night = _score(request)
        if lateness is not None:
            until = min(finding.until for finding in night.findings)
            night = replace(night, waiting=left_open(together, until, wanted.limit))
        late = late_events(events, min(finding.since for finding in night.findings))
        return replace(night, late=late, ahead=early_events(together, wanted.limit))


def _score(request: NightRequest) -> Night:
    run, memory, events = request.run, request.memory, request.events
    experiment = run.experiment()
    models, card = run.read_model()
    model = run.model_name()
    thresholds, shape = card.thresholds, card.shape
    policy = AlertPolicy(experiment.detection.alerts_per_day, experiment.detection.exclude, request.lessons)
    key = exchange_key(experiment)
    views: list[ExchangeView] = []
    findings: list[Finding] = []
    raised: dict[str, Raised] = {}
    memories: dict[str, SiloState] = {}
    edges: list[SiloEdges] = []
    for night in nights(request, experiment, shape, sorted(thresholds)):
        name, graph, hosts, before = night.silo, night.graph, night.hosts, night.before
        if graph is None:
            findings.append(Finding(name, 0, 0, 0, 0, before.until, night.until))
            memories[name] = before  # a new folder has to hold every silo's state
            continue
        detector = trained_detector(experiment, shape, models, night.judge)
        calibration = before.calibration
        if before.model not in (None, model):  # what a model before this one scored says nothing of it
            calibration = run.states.read(night.judge).calibration if run.states.has(night.judge) else None
        state = detector.initial_state(graph) if before.detector is None else before.detector
        scores, after, standing = detector.score_hosts(graph, state)
        scored = score_columns(name, hosts, graph, scores, thresholds[night.judge])
        takes_part = key is not None and name in thresholds
        found = raise_alerts(
            scored,
            hosts.own,
            [before.history],
            own_part(policy) if takes_part else policy,
            calibration,
            partial(detector.explain, graph, state),
            before.budget,
        )
        edges.append(SiloEdges(scored, hosts.own, (before.history,)))
        seen = recent_edges(before.history, edge_columns(graph))
        memories[name] = SiloState(night.until, hosts, after, seen, calibration, found.budget, model)
        if takes_part:
            span = graph.start, night.until - graph.width
            facts = (standing, detector, (before.history,), policy, calibration, found)
            views.append(ExchangeView(hosts, scored, span, *facts, before.exchange or ExchangeState()))
        raised[name] = found
        counts = (0, graph.num_edges, graph.num_windows, night.new_hosts)
        findings.append(Finding(name, *counts, before.until, night.until, int(scored.alert.sum())))
    packets: tuple[Packet, ...] = ()
    refused = Counter[str]()
    if key is not None:
        heard, packets = exchange(
            views, key, request.mailbox.arrived() if request.mailbox is not None else ()
        )
        for name, one in heard.items():
            raised[name], memories[name] = one.raised, replace(memories[name], exchange=one.state)
            refused.update(one.refused)
    findings = [replace(f, alerts=len(raised[f.silo].alerts)) if f.windows else f for f in findings]
    earlier = _earlier(run, memory)
    table = joined(list(raised.values()))
    alerts = complete(table.alerts, events, earlier, model)
    further = _further(edges, alerts, earlier, events, model)
    recent = still_open((*earlier, *alerts, *further))
    return Night(
        alerts,
        table.excluded,
        tuple(findings),
        memories,
        recent,
        further,
        packets=packets,
        refused=refused,
    )


def _further(
    edges: Sequence[SiloEdges], alerts: Sequence[Alert], earlier: Sequence[Alert], events: Path, model: str
) -> tuple[Alert, ...]:
    """Edges of incidents that are no alerts; those of windows before these have no events here."""
    found = further_edges(edges, alerts, earlier)
    begin = min((int(one.scored.window.min()) for one in edges if len(one.scored)), default=0)
    past, present = ([e for e in found if (e.start < begin) == before] for before in (True, False))
    return (*past, *with_events(present, events, model))


def _earlier(run: RunFolder, memory: RunFolder | None) -> tuple[Alert, ...]:
    """What was told before this night, whose incidents may go on."""
    remembered = memory.states.recent() if memory is not None else None
    return (run.states.recent() or ()) if remembered is None else remembered


def recent_edges(*parts: Edges) -> Edges:
    """The last edges of consecutive parts of a silo's history."""
    window, src, dst = (np.concatenate(column)[-REMEMBERED:] for column in zip(*parts, strict=True))
    return window, src, dst
