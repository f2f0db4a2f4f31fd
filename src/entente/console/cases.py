"""A case: what the queue lists. An incident of several alerts, or one alert that stands alone."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from entente.detection.alerts import Alert
from entente.detection.explanations import SEVERITIES, Severity
from entente.detection.incidents import list_incidents

LONGEST = 500
"""Characters kept of a name; nothing longer can be looked for."""
SHOWN = 8
"""Names of each kind that the queue's line keeps."""


@dataclass(frozen=True, slots=True)
class Case:
    """Counts, rank and sentences of one case. Times are microseconds.

    `version` grows with every change and every new alert: it tells whether somebody else was here.
    """

    id: str
    first: int
    last: int
    alerts: int
    open: int
    acknowledged: int
    closed: int
    suppressed: int
    status: str
    severity: Severity
    score: float
    assignee: str | None
    version: int
    story: dict[str, Any]  # src, dst, hosts, users, silos, techniques, ports, why

    @property
    def level(self) -> int:
        return SEVERITIES.index(self.severity)

    @property
    def etag(self) -> str:
        return f'"{self.version}"'

    def as_dict(self) -> dict[str, Any]:
        table = asdict(self)
        return {**{name: value for name, value in table.items() if name != "story"}, **self.story}

    @staticmethod
    def of_row(row: sqlite3.Row) -> Case:
        values = {name: row[name] for name in row.keys()}  # noqa: SIM118 - a row iterates over its values
        values["severity"] = SEVERITIES[int(values["severity"])]
        return Case(**{**values, "story": json.loads(values["story"])})


@dataclass(frozen=True, slots=True)
class Found:
    """One page of the queue."""

    cases: tuple[Case, ...]
    total: int
    page: int
    size: int

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // self.size))


def summarise(ident: str, counts: sqlite3.Row, alerts: Sequence[Alert]) -> Case:
    """A case from its counts in the store and its first alerts."""
    told = tell(ident, alerts)
    several = counts["assignees"] > 1
    return Case(
        id=ident,
        first=counts["first"],
        last=counts["last"],
        alerts=counts["alerts"],
        open=counts["open"],
        acknowledged=counts["acknowledged"],
        closed=counts["closed"],
        suppressed=counts["suppressed"],
        status=_status(counts),
        severity=told.pop("severity"),
        score=counts["score"],
        assignee="several" if several else counts["assignee"],
        version=counts["version"],
        story=told,
    )


def tell(ident: str, alerts: Sequence[Alert]) -> dict[str, Any]:
    """Severity, names and sentences, as the report tells them."""
    from dataclasses import replace

    incident = list_incidents((replace(alert, incident=ident) for alert in alerts), smallest=1)[0]
    alone = alerts[0].explanation if len(alerts) == 1 else incident.explanation
    ports = dict.fromkeys(port for alert in alerts for port in alert.ports)
    techniques = sorted({alert.technique for alert in alerts if alert.technique})
    _, src, dst = incident.chain[0]
    return {
        "severity": incident.severity,
        "src": src[:LONGEST],
        "dst": dst[:LONGEST],
        "hosts": [host[:LONGEST] for host in incident.hosts[:SHOWN]],
        "host_count": len(incident.hosts),
        "users": [user[:LONGEST] for user in incident.users[:SHOWN]],
        "silos": [silo[:LONGEST] for silo in incident.silos[:SHOWN]],
        "ports": list(ports)[:SHOWN],
        "techniques": techniques[:SHOWN],
        "why": [reason[: 2 * LONGEST] for reason in alone],
    }


def _status(counts: sqlite3.Row) -> str:
    """Open while one alert is; a case whose alerts are all expected is suppressed."""
    for status in ("open", "acknowledged", "closed"):
        if counts[status]:
            return status
    return "suppressed"
