"""What the events of alerts say: accounts, kinds, ports, times, outcome, looked up in the event table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from entente.detection.alerts import EVIDENCE, Alert, EvidenceRow, in_order
from entente.detection.explanations import technique_hint
from entente.detection.incidents import assign_incidents
from entente.detection.services import service_of
from entente.graphs.context import NOTHING, EdgeContext
from entente.graphs.snapshots import Timeline, read_timeline
from entente.logs.edges.store import is_edges
from entente.logs.events import scan_events
from entente.logs.schema import DAY, MICROSECONDS, ORIGIN

COLUMNS = {"users": "user", "kinds": "kind", "logons": "logon", "ports": "port"}
"""Field of an alert -> column of an event."""


def complete(
    alerts: Iterable[Alert], events: Path, earlier: Iterable[Alert] = (), model: str | None = None
) -> tuple[Alert, ...]:
    """The alerts with what their events say and the incidents they belong to, in order.

    `model` names what scored them. `earlier` are alerts of before, whose incidents may go on.
    """
    return assign_incidents(with_events(alerts, events, model), earlier)


def with_events(alerts: Iterable[Alert], events: Path, model: str | None = None) -> list[Alert]:
    """The alerts with what their events say, in order.

    Only days that have alerts are read again, one at a time: to keep the context of every edge until it is
    known which are raised takes far more memory.
    """
    found: list[Alert] = []
    for (width, _), group in groupby(sorted(alerts, key=in_order), key=_span):
        found += _looked_up(list(group), events, width)
    return [replace(alert, model=model) for alert in found]


def _span(alert: Alert) -> tuple[int, int]:
    """Width of the window, and the day (or the longer window) that it begins in."""
    width = alert.end - alert.start
    return width, alert.start // max(DAY, width)


def _looked_up(alerts: Sequence[Alert], events: Path, width: int) -> list[Alert]:
    first, last = alerts[0].start, alerts[-1].end
    timeline = read_timeline(
        events, width / MICROSECONDS, first / MICROSECONDS, last / MICROSECONDS, context=True
    )
    rows = {} if is_edges(events) else _rows(alerts, events, width)
    found = []
    for alert in alerts:
        edge = _edge(timeline, alert)
        shown = rows.get((alert.start, alert.src, alert.dst), ())
        said = {} if edge is None else _said(timeline, edge)
        found.append(replace(alert, **said, evidence=tuple(shown)))
    return found


def _rows(
    alerts: Sequence[Alert], events: Path, width: int
) -> Mapping[tuple[int, str, str], Sequence[EvidenceRow]]:
    """The first events of every alert's edge, and where they stand in their logs."""
    wanted = {(alert.start, alert.src, alert.dst) for alert in alerts}
    first = alerts[0].start
    sources, targets = (sorted({edge[end] for edge in wanted}) for end in (1, 2))
    found: dict[tuple[int, str, str], list[EvidenceRow]] = defaultdict(list)
    columns = ("time", "src", "dst", "user", "kind", "port", *ORIGIN)
    for batch in scan_events(events, columns, first, alerts[-1].end):
        sent, got = (
            pc.is_in(batch[name], value_set=pa.array(names, pa.string()))
            for name, names in (("src", sources), ("dst", targets))
        )
        for row in batch.filter(pc.and_(sent, got)).to_pylist():
            start = first + (row["time"] - first) // width * width
            edge = (start, row.pop("src"), row.pop("dst"))
            if edge in wanted:
                found[edge] = sorted([*found[edge], EvidenceRow(**row)], key=_when)[:EVIDENCE]
    return found


def _when(row: EvidenceRow) -> tuple[int, str, int]:
    return row.time, row.log or "", row.line or 0


def _edge(timeline: Timeline, alert: Alert) -> int | None:
    """The place of the alert's edge in the timeline."""
    window = (alert.start - timeline.start) // timeline.width
    low, high = timeline.offsets[window : window + 2].tolist()
    src, dst = np.searchsorted(timeline.hosts, [alert.src, alert.dst]).tolist()
    places = low + np.flatnonzero((timeline.src[low:high] == src) & (timeline.dst[low:high] == dst))
    if not len(places) or (timeline.hosts[src], timeline.hosts[dst]) != (alert.src, alert.dst):
        return None
    return int(places[0])


def _said(timeline: Timeline, edge: int) -> dict[str, Any]:
    found: dict[str, Any] = {"first": int(timeline.time[edge]), "events": int(timeline.weight[edge])}
    context = timeline.context
    if context is None:
        return found
    found |= {"last": int(context.last_time[edge]), **_frequent(context, edge)}
    if context.failures is not None and context.failures[edge] != NOTHING:
        found["failures"] = int(context.failures[edge])
    found["service"] = service_of(found.get("ports", ()))
    hint = technique_hint(found.get("kinds", ()), found.get("ports", ()), found.get("logons", ()))
    if hint is not None:
        found["technique"], found["technique_reason"] = hint
    return found


def _frequent(context: EdgeContext, edge: int) -> dict[str, Any]:
    columns = {name: getattr(context, column) for name, column in COLUMNS.items()}
    return {name: column.of(edge) for name, column in columns.items() if column is not None}
