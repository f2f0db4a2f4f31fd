"""The entity page: a host or an account with its risk, its alerts and what is usual for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from entente.console.cases import Case
from entente.console.desk import Desk, Missing
from entente.console.knowledge import HOUR, MOST_PARTNERS, HostFacts, Knowledge
from entente.detection.alerts import Alert
from entente.detection.explanations import SEVERITIES
from entente.service.alerts import Filter, StoredAlert

MOST_CASES, MOST_ALERTS, MOST_COMPARED = 50, 100, 5
WEIGHTS = dict(zip(SEVERITIES, (1, 3, 7, 15), strict=True))


@dataclass(frozen=True, slots=True)
class Entity:
    kind: str
    name: str
    facts: HostFacts | None  # of a host
    account: dict[str, Any] | None  # of an account
    cases: tuple[Case, ...]
    alerts: tuple[StoredAlert, ...]
    usual: tuple[tuple[StoredAlert, list[tuple[str, float]]], ...]  # alerts beside what would be normal

    @property
    def risk(self) -> int:
        """Open and acknowledged incidents, the severe ones counting more; 0 without any."""
        return sum(WEIGHTS[case.severity] for case in self.cases if case.status in ("open", "acknowledged"))

    def as_dict(self) -> dict[str, Any]:
        from dataclasses import asdict

        return {
            "kind": self.kind,
            "name": self.name,
            "risk": self.risk,
            "facts": asdict(self.facts) if self.facts is not None else None,
            "account": self.account,
            "incidents": [case.as_dict() for case in self.cases],
            "alerts": [one.as_dict() for one in self.alerts],
        }


def entity_of(desk: Desk, knowledge: Knowledge, kind: str, name: str) -> Entity:
    """Everything about a host or an account; Missing if nobody has heard of it."""
    desk.index.catch_up()
    cases = tuple(desk.index.of_term(kind, name, MOST_CASES))
    facts = knowledge.host(name) if kind == "host" else None
    account = knowledge.account(name) if kind == "user" else None
    if not cases and facts is None and account is None:
        raise Missing(f"nobody has heard of {kind} {name[:80]!r}", remedy="Names are as the logs have them.")
    alerts = tuple(_alerts(desk, kind, name, cases))
    if kind == "user" and account is None:
        account = _of_alerts(name, [one.alert for one in alerts])
    acting = [one for one in alerts if one.alert.src == name and one.status != "closed"][:MOST_COMPARED]
    usual = tuple((one, knowledge.nearest_usual(one.alert)) for one in acting)
    return Entity(kind, name, facts, account, cases, alerts, usual)


def _alerts(desk: Desk, kind: str, name: str, cases: tuple[Case, ...]) -> list[StoredAlert]:
    if kind == "host":
        return desk.store.find(Filter(host=name, suppressed=None), MOST_ALERTS)
    found: list[StoredAlert] = []
    for case in cases:
        found += [one for one in desk.alerts(case) if name in one.alert.users]
        if len(found) >= MOST_ALERTS:
            break
    return found[:MOST_ALERTS]


def _of_alerts(name: str, alerts: Sequence[Alert]) -> dict[str, Any] | None:
    """Hosts and hours of an account in its alerts: by the rows that they carry, or by their own time."""
    hosts, hours, times = Counter[str](), [0] * 24, list[int]()
    for alert in alerts:
        hosts.update((alert.src, alert.dst))
        own = [row.time for row in alert.evidence if row.user == name] or [alert.time]
        times += own
        for time in own:
            hours[time // HOUR % 24] += 1
    if not times:
        return None
    return {
        "from": "alerts",
        "first": min(times),
        "last": max(times),
        "hosts": hosts.most_common(MOST_PARTNERS),
        "host_count": len(hosts),
        "hours": hours,
    }
