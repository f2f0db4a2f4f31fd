"""New events and a finished run -> alerts, going on where the run (or the last call) stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays
from entente.config import Experiment
from entente.detection.alerts import Alert
from entente.detection.incidents import still_open
from entente.detection.policy import AlertPolicy
from entente.detection.raising import joined, raise_alerts
from entente.detection.table import read_table, write_table
from entente.detection.thresholds import Calibration
from entente.detectors import find
from entente.detectors.base import GraphShape, State
from entente.errors import UsageError
from entente.graphs.identity import make_identity
from entente.graphs.snapshots import Timeline, read_timeline
from entente.graphs.temporal import NOBODY, Int32, TemporalGraph
from entente.logs.events import read_manifest
from entente.logs.schema import MICROSECONDS
from entente.runs.folder import RunFolder
from entente.runtime.assembly import EVERYTHING, trained_detector
from entente.runtime.evaluation import edge_columns, score_columns
from entente.runtime.evidence import complete

RECENT = "recent.parquet"
"""Of a folder that `Night.commit` writes: alerts of the last hours."""
HISTORY = ("window", "src", "dst")
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


@dataclass(frozen=True, slots=True, eq=False)
class SiloMemory:
    """What a silo has to remember after its last window; `RunFolder.write_state` takes it."""

    state: State
    history: Arrays
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Night:
    """The outcome of one call: alerts of all silos, and the memory to go on from once they are written."""

    alerts: tuple[Alert, ...]
    excluded: Mapping[str, int]
    findings: tuple[Finding, ...]
    memory: Mapping[str, SiloMemory]
    recent: tuple[Alert, ...]  # of the last hours, which later alerts may continue

    def commit(self, keep: RunFolder) -> None:
        """Go on from here next time. Call it after the alerts are written, else they are lost."""
        for name, memory in self.memory.items():
            keep.write_state(name, memory.state, memory.history, memory.facts)
        write_table(keep.path / RECENT, self.recent, {})


def detect(run: RunFolder, events: Path, silos: Sequence[str] = (), memory: RunFolder | None = None) -> Night:
    """Score new windows for the named silos (all by default).

    Windows up to the run's end are left out: they have been scored. A silo goes on from `memory`, where
    that has its state, else from the run. Nothing is stored: `Night.commit` does that.
    """
    experiment = run.experiment()
    models, facts = run.read_model()
    known = sorted(facts["thresholds"])
    for name in silos:
        if name not in known:
            raise UsageError(f"the run has no silo {name!r}", remedy=f"It has: {', '.join(known)}.")
    shape = GraphShape(**facts["shape"])
    policy = AlertPolicy(experiment.detection.alerts_per_day, experiment.detection.exclude)
    findings, raised, memories = [], [], {}
    for name in silos or known:
        source = memory if memory is not None and memory.has_state(name) else run
        before, state, history = source.read_state(name)
        merged = find(experiment.detector.name).merged
        timeline = _read(experiment, events, int(before["until"]), merged)
        if timeline is None:
            findings.append(Finding(name, 0, 0, 0, 0))
            continue
        graph, known_hosts = _graph(experiment, timeline, before, shape, name)
        detector = trained_detector(experiment, shape, models, name)
        scores, after = detector.score(graph, state)
        own = np.array(known_hosts["own"], dtype=bool)
        names = np.array(known_hosts["hosts"], dtype=np.str_)
        found = raise_alerts(
            score_columns(name, names, own, graph, scores, facts["thresholds"][name]),
            own,
            [(history["window"], history["src"], history["dst"])],
            policy,
            Calibration.from_dict(before["calibration"]) if "calibration" in before else None,
            partial(detector.explain, graph, state),
        )
        until = graph.start + graph.num_windows * graph.width
        kept = {**known_hosts, "until": until, "calibration": before.get("calibration")}
        memories[name] = SiloMemory(after, _joined(history, recent_edges(graph)), kept)
        raised.append(found)
        new = len(names) - len(before["hosts"])
        findings.append(Finding(name, len(found.alerts), graph.num_edges, graph.num_windows, new))
    earlier = _earlier(run, memory)
    table = joined(raised)
    alerts = complete(table.alerts, events, earlier)
    recent = still_open((*earlier, *alerts))
    return Night(alerts, table.excluded, tuple(findings), memories, recent)


def _earlier(run: RunFolder, memory: RunFolder | None) -> tuple[Alert, ...]:
    """The alerts before this night whose incidents may go on."""
    stored = run.path / "alerts.parquet"
    if memory is not None and (memory.path / RECENT).is_file():
        stored = memory.path / RECENT
    return read_table(stored).alerts if stored.is_file() else ()


def recent_edges(*graphs: TemporalGraph) -> Arrays:
    """The last edges of consecutive graphs of one silo: window start, src, dst."""
    parts: list[Arrays] = [dict(zip(HISTORY, edge_columns(graph), strict=True)) for graph in graphs]
    return _joined(*parts)


def _joined(*parts: Mapping[str, NDArray[Any]]) -> Arrays:
    return {name: np.concatenate([part[name] for part in parts])[-REMEMBERED:] for name in HISTORY}


def _read(experiment: Experiment, events: Path, until: int, merged: bool) -> Timeline | None:
    """Whole windows from where the state stands, None without a later event: earlier ones were scored."""
    if read_manifest(events).last_time < until:
        return None
    return read_timeline(events, experiment.data.window, until / MICROSECONDS, merged=merged)


def _graph(
    experiment: Experiment, timeline: Timeline, memory: Mapping[str, Any], shape: GraphShape, silo: str
) -> tuple[TemporalGraph, dict[str, Any]]:
    """The silo's view of new windows; hosts it knows keep their numbers, new ones are appended."""
    hosts, owned = memory["hosts"], memory["own"]
    alone = silo == EVERYTHING
    place = {host: i for i, host in enumerate(hosts)}
    own = {host for host, is_own in zip(hosts, owned, strict=True) if is_own}
    mine = np.array([alone or host in own for host in timeline.hosts.tolist()], dtype=bool)
    from_own, to_own = mine[timeline.src], mine[timeline.dst]
    keep = from_own | to_own if experiment.graph.augmentation else from_own & to_own
    used = np.unique(np.concatenate([timeline.src[keep], timeline.dst[keep]]))
    fresh = [host for host in timeline.hosts[used].tolist() if host not in place]
    place |= {host: len(hosts) + i for i, host in enumerate(fresh)}
    number = np.array([place.get(host, -1) for host in timeline.hosts.tolist()], dtype=np.int32)
    known_rows = np.array(memory["rows"], dtype=np.int32).reshape(-1, shape.rows_per_host)
    rows = np.concatenate([known_rows, _new_rows(experiment, fresh, shape)])
    kept = np.concatenate(([0], np.cumsum(keep, dtype=np.int64)))
    graph = TemporalGraph(
        rows=rows,
        table_size=shape.table_size,
        start=timeline.start,
        width=timeline.width,
        offsets=kept[timeline.offsets],
        src=number[timeline.src[keep]],
        dst=number[timeline.dst[keep]],
        time=timeline.time[keep],
        weight=timeline.weight[keep],
        merged=timeline.merged,
    )
    known = {"hosts": [*hosts, *fresh], "own": [*owned, *(alone for _ in fresh)], "rows": rows.tolist()}
    return graph.in_order(), known


def _new_rows(experiment: Experiment, fresh: list[str], shape: GraphShape) -> Int32:
    """Rows of hosts that the run has never seen: a keyed hash has a place for them, a shared index none."""
    if experiment.graph.identity == "keyed-hash":
        return make_identity(experiment.graph, ()).rows(fresh)
    return np.full((len(fresh), shape.rows_per_host), NOBODY, dtype=np.int32)
