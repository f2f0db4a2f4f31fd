"""New events and a finished run -> alerts, going on where the run (or the last call) stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays
from entente.config import Experiment
from entente.detection.alerts import Alert, ScoredEdges, build_alerts
from entente.detectors import find
from entente.detectors.base import GraphShape
from entente.errors import GraphError, UsageError
from entente.graphs.identity import make_identity
from entente.graphs.snapshots import Timeline, read_timeline
from entente.graphs.temporal import NOBODY, Int32, TemporalGraph
from entente.logs.schema import MICROSECONDS
from entente.runs.folder import RunFolder
from entente.runtime.assembly import EVERYTHING, trained_detector

REMEMBERED = 2_000_000
"""Edges that a silo keeps to explain later alerts with: about two weeks at LANL's size."""


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """One silo's outcome on new events."""

    silo: str
    alerts: tuple[Alert, ...]
    edges: int
    windows: int
    new_hosts: int


def detect(
    run: RunFolder, events: Path, silos: Sequence[str] = (), keep: RunFolder | None = None
) -> list[Finding]:
    """Score new windows for the named silos (all by default).

    Windows up to the run's end are left out: they have been scored. With `keep`, each silo's state
    after the last window is stored there, and the next call with the same folder goes on from it.
    """
    experiment = run.experiment()
    models, facts = run.read_model()
    known = sorted(facts["thresholds"])
    for name in silos:
        if name not in known:
            raise UsageError(f"the run has no silo {name!r}", remedy=f"It has: {', '.join(known)}.")
    shape = GraphShape(**facts["shape"])
    findings = []
    for name in silos or known:
        source = keep if keep is not None and keep.has_state(name) else run
        memory, state, history = source.read_state(name)
        merged = find(experiment.detector.name).merged
        timeline = _read(experiment, events, int(memory["until"]), merged)
        graph, known_hosts = _graph(experiment, timeline, memory, shape, name)
        names = np.array(known_hosts["hosts"], dtype=np.str_)
        detector = trained_detector(experiment, shape, models, name)
        scores, state = detector.score(graph, state)
        edges = ScoredEdges(
            window=_starts(graph),
            src=names[graph.src],
            dst=names[graph.dst],
            score=scores.astype(np.float64),
            silo=np.full(len(scores), name),
        )
        alerts = build_alerts(
            edges,
            facts["thresholds"][name],
            graph.width / MICROSECONDS,
            history=(history["window"], names[history["src"]], names[history["dst"]]),
            home={host: name for host, own in zip(names.tolist(), known_hosts["own"], strict=True) if own},
        )
        if keep is not None:
            until = graph.start + graph.num_windows * graph.width
            seen = _joined(history, recent_edges(graph))
            keep.write_state(name, state, seen, {**known_hosts, "until": until})
        new = len(names) - len(memory["hosts"])
        findings.append(Finding(name, alerts, graph.num_edges, graph.num_windows, new))
    return findings


def recent_edges(*graphs: TemporalGraph) -> Arrays:
    """The last edges of consecutive graphs of one silo: window start, src, dst."""
    parts: list[Arrays] = [{"window": _starts(g), "src": g.src, "dst": g.dst} for g in graphs]
    return _joined(*parts)


def _joined(*parts: Mapping[str, NDArray[Any]]) -> Arrays:
    names = ("window", "src", "dst")
    return {name: np.concatenate([part[name] for part in parts])[-REMEMBERED:] for name in names}


def _starts(graph: TemporalGraph) -> NDArray[np.int64]:
    return graph.start + graph.window_of_edge() * graph.width


def _read(experiment: Experiment, events: Path, until: int, merged: bool) -> Timeline:
    """Whole windows from where the state stands; events before it have been scored already."""
    try:
        return read_timeline(events, experiment.data.window, until / MICROSECONDS, merged=merged)
    except GraphError as error:
        raise GraphError(
            f"no event lies after second {until / MICROSECONDS:.0f}, where the run stopped",
            where=events,
            remedy="Ingest newer logs, or leave out --state to start from the run's own end.",
        ) from error


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
