"""Suppressing from where one looks: a rule from an alert, what it would have hidden, and making it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, get_args

from pydantic import ValidationError

from entente.console.desk import Desk
from entente.console.sessions import Principal
from entente.detection.alerts import Alert
from entente.detection.metrics import MICROSECONDS, SECONDS_PER_DAY
from entente.errors import UsageError
from entente.service.alerts import Filter, StoredAlert
from entente.service.suppression import FILE, Suppression, add_suppression, read_suppressions

By = Literal["src", "dst", "pair", "user", "port"]
FIELDS: tuple[By, ...] = get_args(By)
DAYS = 30
MOST = 100_000
"""Alerts that are looked at for a preview."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What a rule would have done."""

    rule: Suppression
    days: int
    looked_at: int
    hidden: int
    confirmed: int  # of the hidden ones, those that somebody closed as true
    open: int  # of the hidden ones, those that are still open

    @property
    def sentence(self) -> str:
        return (
            f"would have hidden {self.hidden:,} of the last {self.days} days' {self.looked_at:,} alerts, "
            f"{self.confirmed:,} of them confirmed"
        )


def rule_from(alert: Alert, by: str, reason: str, until: date | None, who: str) -> Suppression:
    """A rule that expects alerts like this one."""
    values: dict[str, Any] = {
        "src": alert.src,
        "dst": alert.dst,
        "user": next(iter(alert.users), None),
        "port": next(iter(alert.ports), None),
    }
    if by not in FIELDS:
        raise UsageError(f"a suppression cannot go by {by!r}", remedy=f"One of {', '.join(FIELDS)}.")
    shared = {name: values[name] for name in (("src", "dst") if by == "pair" else (by,))}
    if None in shared.values():
        raise UsageError(f"the alert has no {by}", remedy="Choose something else that it must share.")
    try:
        return Suppression(id=f"{alert.id[:8]}-{by}", reason=reason, until=until, by=who, **shared)
    except ValidationError as error:
        raise UsageError("a suppression needs a reason of 1 to 500 characters") from error


def preview(desk: Desk, rule: Suppression) -> Preview:
    """How the rule fits the last days before the newest alert: logs may have a clock of their own."""
    row = desk.connections.get().execute("SELECT max(time) FROM alerts").fetchone()
    since = int(row[0] or 0) - DAYS * SECONDS_PER_DAY * MICROSECONDS
    candidates = _candidates(desk, rule, since)
    fitting = [one for one in candidates if rule.fits(one.alert)]
    return Preview(
        rule=rule,
        days=DAYS,
        looked_at=desk.store.count(Filter(since=since, suppressed=None)),
        hidden=len(fitting),
        confirmed=sum(one.reason == "true" for one in fitting),
        open=sum(one.status == "open" and one.suppressed_by is None for one in fitting),
    )


def suppress(desk: Desk, who: Principal, rule: Suppression) -> int:
    """Add the rule, for alerts to come, and mark the open ones that it fits; how many those were."""
    folder = desk.settings.service or desk.settings.data
    add_suppression(folder / FILE, rule)
    fitting = [
        one.alert.id
        for one in _candidates(desk, rule, 0)
        if one.status == "open" and one.suppressed_by is None and rule.fits(one.alert)
    ]
    desk.store.suppress(fitting, who.name, rule.id)
    desk.audit.append("suppress", by=who.name, rule=rule.id, reason=rule.reason, alerts=len(fitting))
    return len(fitting)


def rules(desk: Desk) -> tuple[Suppression, ...]:
    folder = desk.settings.service or desk.settings.data
    return read_suppressions(folder / FILE).rules


def _candidates(desk: Desk, rule: Suppression, since: int) -> list[StoredAlert]:
    """Alerts among which all that the rule fits are, as few as the store's indexes allow."""
    host = rule.src or rule.dst
    if host is not None:
        return desk.store.find(Filter(host=host, since=since, suppressed=None), MOST)
    kind, value = ("user", rule.user) if rule.user is not None else ("port", str(rule.port))
    desk.index.catch_up()
    cases = desk.index.of_term(kind, str(value), 10_000)
    found: list[StoredAlert] = []
    for case in cases:
        found += [one for one in desk.alerts(case) if one.alert.start >= since]
        if len(found) >= MOST:
            break
    return found
