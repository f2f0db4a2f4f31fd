"""Suppressing from where one looks: what a rule would have hidden, and making it."""

from __future__ import annotations

from dataclasses import dataclass

from entente.console.desk import Desk
from entente.console.sessions import Principal
from entente.detection.metrics import MICROSECONDS, SECONDS_PER_DAY
from entente.service.alerts import Filter, StoredAlert
from entente.service.suppression import Suppression, read_suppressions

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


def suppress(desk: Desk, who: Principal, rule: Suppression) -> tuple[int, str]:
    """Add the rule and mark the open alerts that it fits; how many those were, and how to undo it."""
    fitting = [one.alert.id for one in _candidates(desk, rule, 0) if rule.fits(one.alert)]
    return desk.suppress(who, rule, fitting)


def rules(desk: Desk) -> tuple[Suppression, ...]:
    return read_suppressions(desk.suppression_file).rules


def _candidates(desk: Desk, rule: Suppression, since: int) -> list[StoredAlert]:
    """Alerts among which all that the rule fits are, as few as the store's indexes allow."""
    host = rule.src or rule.dst
    if host is not None or rule.net is not None:  # no index goes by networks
        return desk.store.find(Filter(host=host, since=since, suppressed=None), MOST)
    kind, value = ("user", rule.user) if rule.user is not None else ("port", str(rule.port))
    desk.index.catch_up()
    cases = desk.index.of_term(kind, str(value), 10_000)
    found: list[StoredAlert] = []
    for case in cases:
        found += [one for one in desk.alerts(case, MOST) if one.alert.start >= since]
        if len(found) >= MOST:
            break
    return found
