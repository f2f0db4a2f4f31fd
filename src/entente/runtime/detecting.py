"""New events and a finished run -> alerts, going on where the run (or the last call) stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from entente.detection.alerts import Alert
from entente.detection.history import Edges
from entente.detection.incidents import still_open
from entente.detection.policy import AlertPolicy
from entente.detection.raising import joined, raise_alerts
from entente.graphs.snapshots import log_summary
from entente.logs.schema import MICROSECONDS
from entente.runs.folder import RunFolder
from entente.runs.state import SiloState
from entente.runtime.assembly import trained_detector
from entente.runtime.evaluation import edge_columns, score_columns
from entente.runtime.evidence import complete
from entente.runtime.nights import NightRequest, nights

CUT_SHORT = 0.1
"""Share of a window that a log may lack at its end before that is said."""
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
    until: int  # end of the last window that was scored, microseconds


@dataclass(frozen=True, slots=True, eq=False)
class Night:
    """The outcome of one call: alerts of all silos, and the memory to go on from once they are written."""

    alerts: tuple[Alert, ...]
    excluded: Mapping[str, int]
    findings: tuple[Finding, ...]
    memory: Mapping[str, SiloState]
    recent: tuple[Alert, ...]  # of the last hours, which later alerts may continue
    last_event: int  # of the log that was read, microseconds
    width: int  # of a window

    @property
    def cut_short(self) -> int | None:
        """The end of the last window, where the log ends well before it: later events are not scored."""
        until = max((finding.until for finding in self.findings if finding.windows), default=0)
        return until if until - self.last_event > self.width * CUT_SHORT else None

    def commit(self, keep: RunFolder) -> None:
        """Go on from here next time, all silos together. Call it after the alerts are written."""
        if self.memory:
            keep.states.write(self.memory, self.recent)


def detect(
    run: RunFolder,
    events: Path,
    silos: Sequence[str] = (),
    memory: RunFolder | None = None,
    partition: Path | None = None,
) -> Night:
    """Score new windows for the named silos (by default all, and hosts that belong to none).

    Windows up to the run's end are left out: they have been scored. A silo goes on from `memory`, where
    that has its state, else from the run. Nothing is stored: `Night.commit` does that. `partition` is a
    newer table host,silo than the run's.
    """
    experiment = run.experiment()
    models, card = run.read_model()
    thresholds, shape = card.thresholds, card.shape
    policy = AlertPolicy(experiment.detection.alerts_per_day, experiment.detection.exclude)
    request = NightRequest(run, events, silos, memory, partition)
    findings, raised, memories = [], [], {}
    for night in nights(request, experiment, shape, sorted(thresholds)):
        name, graph, hosts, before = night.silo, night.graph, night.hosts, night.before
        if graph is None:
            findings.append(Finding(name, 0, 0, 0, 0, night.until))
            memories[name] = before  # a new folder has to hold every silo's state
            continue
        detector = trained_detector(experiment, shape, models, night.judge)
        state = detector.initial_state(graph) if before.detector is None else before.detector
        scores, after = detector.score(graph, state)
        found = raise_alerts(
            score_columns(name, hosts, graph, scores, thresholds[night.judge]),
            hosts.own,
            [before.history],
            policy,
            before.calibration,
            partial(detector.explain, graph, state),
            before.budget,
        )
        seen = recent_edges(before.history, edge_columns(graph))
        memories[name] = SiloState(night.until, hosts, after, seen, before.calibration, found.budget)
        raised.append(found)
        counts = (len(found.alerts), graph.num_edges, graph.num_windows, night.new_hosts, night.until)
        findings.append(Finding(name, *counts))
    earlier = _earlier(run, memory)
    table = joined(raised)
    alerts = complete(table.alerts, events, earlier)
    recent = still_open((*earlier, *alerts))
    last_event, width = log_summary(events).last_time, round(experiment.data.window * MICROSECONDS)
    return Night(alerts, table.excluded, tuple(findings), memories, recent, last_event, width)


def _earlier(run: RunFolder, memory: RunFolder | None) -> tuple[Alert, ...]:
    """The alerts before this night whose incidents may go on."""
    remembered = memory.states.recent() if memory is not None else None
    return (run.states.recent() or ()) if remembered is None else remembered


def recent_edges(*parts: Edges) -> Edges:
    """The last edges of consecutive parts of a silo's history."""
    window, src, dst = (np.concatenate(column)[-REMEMBERED:] for column in zip(*parts, strict=True))
    return window, src, dst
