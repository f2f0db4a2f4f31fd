"""Alerts -> few incidents: what hangs together in time and hosts, told in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any
from uuid import uuid5

from entente.detection.alerts import NAMESPACE, Alert
from entente.detection.explanations import SEVERITIES, Severity
from entente.detection.metrics import MICROSECONDS


@dataclass(frozen=True, slots=True)
class Incident:
    """Alerts that share hosts within some hours. `chain` is in order of time: (start, src, dst)."""

    id: str
    start: int
    end: int
    hosts: tuple[str, ...]  # in the order in which they appear
    silos: tuple[str, ...]
    chain: tuple[tuple[int, str, str], ...]
    score: float  # the highest
    severity: Severity
    explanation: tuple[str, ...]

    @property
    def alerts(self) -> int:
        return len(self.chain)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def group_alerts(alerts: Sequence[Alert], hours: float = 12.0, smallest: int = 2) -> tuple[Incident, ...]:
    """Incidents, the most severe and largest first.

    Two alerts belong together when they share a host and their windows are at most `hours` apart,
    directly or through others. Groups of fewer than `smallest` alerts stay what they are: alerts.
    """
    parent = list(range(len(alerts)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    by_host: dict[str, list[int]] = defaultdict(list)
    for i in sorted(range(len(alerts)), key=lambda i: alerts[i].start):
        for host in {alerts[i].src, alerts[i].dst}:
            earlier = by_host[host]
            if earlier and alerts[i].start - alerts[earlier[-1]].start <= hours * 3600 * MICROSECONDS:
                parent[root(i)] = root(earlier[-1])
            earlier.append(i)
    groups: dict[int, list[Alert]] = defaultdict(list)
    for i, alert in enumerate(alerts):
        groups[root(i)].append(alert)
    incidents = (_incident(group) for group in groups.values() if len(group) >= smallest)
    return tuple(
        sorted(
            incidents, key=lambda one: (-SEVERITIES.index(one.severity), -one.alerts, -one.score, one.start)
        )
    )


def _incident(group: Sequence[Alert]) -> Incident:
    ordered = _in_order(group)
    hosts = tuple(dict.fromkeys(host for alert in ordered for host in (alert.src, alert.dst)))
    silos = tuple(sorted({alert.silo for alert in ordered}))
    worst = max(SEVERITIES.index(alert.severity) for alert in ordered)
    pivots = _pivots(ordered)
    if len(pivots) >= 2 and len(silos) >= 2:
        worst = len(SEVERITIES) - 1
    return Incident(
        id=str(uuid5(NAMESPACE, " ".join(sorted(alert.id for alert in ordered)))),
        start=ordered[0].start,
        end=max(alert.end for alert in ordered),
        hosts=hosts,
        silos=silos,
        chain=tuple((alert.start, alert.src, alert.dst) for alert in ordered),
        score=max(alert.score for alert in ordered),
        severity=SEVERITIES[worst],
        explanation=_explain(ordered, hosts, silos, pivots),
    )


def _in_order(group: Sequence[Alert]) -> list[Alert]:
    """By time; within a window a hop comes after the one that reached its source."""
    by_time = sorted(group, key=lambda alert: (alert.start, -alert.score, alert.src, alert.dst))
    ordered: list[Alert] = []
    reached: set[str] = set()
    for _, members in groupby(by_time, key=lambda alert: alert.start):
        waiting = list(members)
        while waiting:
            targets = {alert.dst for alert in waiting}
            chosen = next(
                (alert for alert in waiting if alert.src in reached),
                next((alert for alert in waiting if alert.src not in targets), waiting[0]),
            )
            waiting.remove(chosen)
            ordered.append(chosen)
            reached.update((chosen.src, chosen.dst))
    return ordered


def _pivots(ordered: Iterable[Alert]) -> tuple[str, ...]:
    """Hosts that were a target first and a source later."""
    targets: set[str] = set()
    pivots: dict[str, None] = {}
    for alert in ordered:
        if alert.src in targets:
            pivots.setdefault(alert.src)
        targets.add(alert.dst)
    return tuple(pivots)


def _explain(
    ordered: Sequence[Alert], hosts: Sequence[str], silos: Sequence[str], pivots: Sequence[str]
) -> tuple[str, ...]:
    reasons = [f"starts at {ordered[0].src}; {len(ordered)} alerts touch {len(hosts)} hosts"]
    if pivots:
        shown = ", ".join(pivots[:4]) + (" and others" if len(pivots) > 4 else "")
        reasons.append(f"reached first, acting later: {shown}")
    sources: dict[str, set[str]] = defaultdict(set)
    for alert in ordered:
        sources[alert.src].add(alert.dst)
    busiest = max(sources, key=lambda src: (len(sources[src]), src))
    if len(sources[busiest]) > 1:
        reasons.append(f"{busiest} alone contacts {len(sources[busiest])} of them")
    if len(silos) > 1:
        reasons.append(f"seen in {len(silos)} silos: {', '.join(silos)}")
    techniques = sorted({alert.technique for alert in ordered if alert.technique})
    if techniques:
        reasons.append(f"technique hints: {', '.join(techniques)}")
    return tuple(reasons)
