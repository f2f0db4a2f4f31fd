"""Alerts -> few incidents: campaigns with ids that stay while they grow, told in order."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from uuid import uuid5

from entente.detection.alerts import NAMESPACE, Alert, in_order
from entente.detection.explanations import SEVERITIES, Severity
from entente.detection.metrics import MICROSECONDS
from entente.text import count

HOURS = 12.0
"""An incident to which nothing was added for so long is over."""
AGAIN = 48.0
"""Hours after an alert in which its pair, seen again, still belongs to the incident."""
IMPERSONAL = frozenset(("-", "SYSTEM", "ANONYMOUS LOGON", "LOCAL SERVICE", "NETWORK SERVICE", "ANONYMOUS"))


@dataclass(frozen=True, slots=True)
class Incident:
    """Alerts of one campaign. `chain` is in order of time: (start, src, dst)."""

    id: str
    start: int
    end: int
    hosts: tuple[str, ...]  # in the order in which they appear
    users: tuple[str, ...]
    silos: tuple[str, ...]
    chain: tuple[tuple[int, str, str], ...]
    score: float  # the highest
    severity: Severity
    explanation: tuple[str, ...]
    further: int = 0  # edges that belong to it and are no alerts

    @property
    def alerts(self) -> int:
        return len(self.chain)

    @property
    def weight(self) -> float:
        """Decides which incident is looked at first."""
        return self.alerts * math.log2(1 + len({src for _, src, _ in self.chain}))


def assign_incidents(
    alerts: Iterable[Alert], earlier: Iterable[Alert] = (), hours: float = HOURS
) -> tuple[Alert, ...]:
    """The alerts, each with the id of its incident; `earlier` are alerts of before, which have theirs.

    An alert joins the incident in which its source acted within the last `hours`; else the one in which
    its source was a target; else the one in which one of its accounts acted; else it opens its own. Two
    sources that only have a target in common are two incidents. An id never changes, incidents never merge.
    """
    seen = _Seen(round(hours * 3600 * MICROSECONDS))
    for alert in sorted(earlier, key=in_order):
        if alert.raised:
            seen.note(alert)
    found = []
    for alert in _in_order(list(alerts)):
        incident = seen.incident_of(alert) or str(uuid5(NAMESPACE, f"incident {alert.id}"))
        found.append(replace(alert, incident=incident))
        seen.note(found[-1])
    return tuple(sorted(found, key=in_order))


class _Seen:
    """Who did what in which incident, and when last."""

    def __init__(self, span: int) -> None:
        self._span = span
        self._last: dict[tuple[str, str], tuple[str, int]] = {}

    def note(self, alert: Alert) -> None:
        if alert.incident is None:
            return
        users = (("user", user) for user in alert.users if _personal(user))
        for key in (("source", alert.src), ("target", alert.dst), *users):
            self._last[key] = (alert.incident, alert.start)

    def incident_of(self, alert: Alert) -> str | None:
        users = (("user", user) for user in alert.users if _personal(user))
        for key in (("source", alert.src), ("target", alert.src), *users):
            incident, when = self._last.get(key, ("", 0))
            if incident and alert.start - when <= self._span:
                return incident
        return None


def _personal(user: str) -> bool:
    """Whether an account can tie alerts together: accounts of machines and of the system are everywhere."""
    name = user.split("\\")[-1].split("@")[0].upper()
    return bool(name) and not name.endswith("$") and name not in IMPERSONAL


def still_open(alerts: Sequence[Alert], hours: float = AGAIN) -> tuple[Alert, ...]:
    """Those alerts whose incidents later alerts and further edges may still join."""
    last = max((alert.start for alert in alerts), default=0)
    return tuple(alert for alert in alerts if last - alert.start <= hours * 3600 * MICROSECONDS)


def list_incidents(
    alerts: Iterable[Alert], smallest: int = 2, further: Iterable[Alert] = ()
) -> tuple[Incident, ...]:
    """The incidents of alerts that have ids of them, the weightiest first; `further` edges are counted.

    The weight is the number of alerts times log2(1 + sources that act in it): what several hosts do one after
    the other is a campaign before it is somebody's busy hour. Groups of fewer than `smallest` alerts stay
    what they are: alerts.
    """
    groups: dict[str, list[Alert]] = defaultdict(list)
    for alert in alerts:
        if alert.incident is not None:
            groups[alert.incident].append(alert)
    beside = Counter(edge.incident for edge in further)
    incidents = (
        _incident(name, group, beside[name]) for name, group in groups.items() if len(group) >= smallest
    )
    return tuple(
        sorted(
            incidents, key=lambda one: (-one.weight, -SEVERITIES.index(one.severity), -one.score, one.start)
        )
    )


def _incident(name: str, group: Sequence[Alert], further: int) -> Incident:
    ordered = _in_order(group)
    hosts = tuple(dict.fromkeys(host for alert in ordered for host in (alert.src, alert.dst)))
    silos = tuple(sorted({silo for alert in ordered for silo in alert.silos}))
    worst = max(SEVERITIES.index(alert.severity) for alert in ordered)
    pivots = _pivots(ordered)
    if len(pivots) >= 2 and len(silos) >= 2:
        worst = len(SEVERITIES) - 1
    return Incident(
        id=name,
        start=ordered[0].start,
        end=max(alert.end for alert in ordered),
        hosts=hosts,
        users=tuple(dict.fromkeys(user for alert in ordered for user in alert.users)),
        silos=silos,
        chain=tuple((alert.start, alert.src, alert.dst) for alert in ordered),
        score=max(alert.score for alert in ordered),
        severity=SEVERITIES[worst],
        explanation=(
            *_explain(ordered, hosts, silos, pivots),
            *((f"{count(further, 'further edge')} of it below what is raised",) if further else ()),
        ),
        further=further,
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
    reasons += list(dict.fromkeys(said for alert in ordered for said in alert.elsewhere))[:3]
    links = list(dict.fromkeys(alert.link for alert in ordered if alert.link))
    if links:
        shown = ", ".join(links[:4]) + (" and others" if len(links) > 4 else "")
        reasons.append(f"other silos may have alerts with the same link: {shown}")
    users = list(dict.fromkeys(user for alert in ordered for user in alert.users))
    if users:
        shown = ", ".join(users[:4]) + (" and others" if len(users) > 4 else "")
        reasons.append(f"accounts: {shown}")
    techniques = sorted({alert.technique for alert in ordered if alert.technique})
    if techniques:
        reasons.append(f"technique hints: {', '.join(techniques)}")
    return tuple(reasons)
