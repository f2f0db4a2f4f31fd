"""New events and a finished run -> alerts, going on where the run (or the last call) stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from entente.detection.alerts import Alert
from entente.detection.feedback import NOTHING_LEARNT, Lessons
from entente.detection.history import Edges
from entente.detection.incidents import still_open
from entente.detection.policy import AlertPolicy
from entente.detection.raising import joined, raise_alerts
from entente.logs.edges.store import is_edges
from entente.logs.refine import system_clock
from entente.logs.schema import STORED_SCHEMA
from entente.runs.folder import RunFolder
from entente.runs.state import SiloState
from entente.runtime.assembly import trained_detector
from entente.runtime.evaluation import edge_columns, score_columns
from entente.runtime.evidence import complete
from entente.runtime.nights import NightRequest, nights
from entente.runtime.waiting import closing, early_events, joined_events, late_events, left_open

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


@dataclass(frozen=True, slots=True, eq=False)
class Night:
    """The outcome of one call: alerts of all silos, and the memory to go on from once they are written."""

    alerts: tuple[Alert, ...]
    excluded: Mapping[str, int]
    findings: tuple[Finding, ...]
    memory: Mapping[str, SiloState]
    recent: tuple[Alert, ...]  # of the last hours, which later alerts may continue
    waiting: pa.Table = field(default_factory=STORED_SCHEMA.empty_table)  # of windows that are not complete
    late: int = 0  # events of windows that were scored before
    ahead: int = 0  # events from the future, which are set aside

    @property
    def open_since(self) -> int | None:
        """Where the windows begin that are not complete; None where no event waits."""
        return min(finding.until for finding in self.findings) if self.waiting.num_rows else None

    def commit(self, keep: RunFolder) -> None:
        """Go on from here next time, all silos together. Call it after the alerts are written."""
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
) -> Night:
    """Score new windows for the named silos (by default all, and hosts that belong to none).

    Windows up to the run's end are left out: they have been scored. A silo goes on from `memory`, where
    that has its state, else from the run. Nothing is stored: `Night.commit` does that. `partition` is a
    newer table host,silo than the run's. With `lateness` (seconds) a window is complete once the log has
    come so far beyond its end; the events of others wait in the memory for the next call. Without it all
    windows are, and so are those of an edge directory. Events from the future, by the clock `now`
    (microseconds), are set aside. `lessons` are what people taught by closing alerts.
    """
    if is_edges(events):  # its windows are whole
        return _score(NightRequest(run, events, silos, memory, partition, lessons))
    waiting = memory.states.waiting() if memory is not None else STORED_SCHEMA.empty_table()
    with joined_events(waiting, events) as together:
        wanted = closing(together, lateness, system_clock() if now is None else now)
        request = NightRequest(run, together, silos, memory, partition, lessons, wanted)
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
    findings, raised, memories = [], [], {}
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
        scores, after = detector.score(graph, state)
        found = raise_alerts(
            score_columns(name, hosts, graph, scores, thresholds[night.judge]),
            hosts.own,
            [before.history],
            policy,
            calibration,
            partial(detector.explain, graph, state),
            before.budget,
        )
        seen = recent_edges(before.history, edge_columns(graph))
        memories[name] = SiloState(night.until, hosts, after, seen, calibration, found.budget, model)
        raised.append(found)
        counts = (len(found.alerts), graph.num_edges, graph.num_windows, night.new_hosts)
        findings.append(Finding(name, *counts, before.until, night.until))
    earlier = _earlier(run, memory)
    table = joined(raised)
    alerts = complete(table.alerts, events, earlier, model)
    recent = still_open((*earlier, *alerts))
    return Night(alerts, table.excluded, tuple(findings), memories, recent)


def _earlier(run: RunFolder, memory: RunFolder | None) -> tuple[Alert, ...]:
    """The alerts before this night whose incidents may go on."""
    remembered = memory.states.recent() if memory is not None else None
    return (run.states.recent() or ()) if remembered is None else remembered


def recent_edges(*parts: Edges) -> Edges:
    """The last edges of consecutive parts of a silo's history."""
    window, src, dst = (np.concatenate(column)[-REMEMBERED:] for column in zip(*parts, strict=True))
    return window, src, dst
