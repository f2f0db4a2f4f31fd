"""What an analyst does, whoever asks: pages and REST call this, and it calls the alert store."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from entente.console.cases import Case, Found
from entente.console.database import Connections, connect_console
from entente.console.filters import CaseQuery
from entente.console.index import Index
from entente.console.sessions import Principal
from entente.console.settings import ConsoleSettings
from entente.deployment.audit import Audit
from entente.detection.table import read_table
from entente.errors import UsageError
from entente.runs.folder import ROUNDS
from entente.service.alerts import (
    AlertStore,
    ChangedError,
    Filter,
    Handling,
    Reason,
    Status,
    StoredAlert,
)
from entente.service.database import connect, transaction
from entente.service.suppression import FILE, Suppression, Suppressions

MOST_ALERTS = 2000
"""Alerts of one case that a page shows; actions and exports take all of them."""
EVERY = 1_000_000
UNDO_FOR = 600.0
"""Seconds for which a change can be taken back."""


State = tuple[int, int, int]
"""Latest alert, latest change, and how long the shown run's record of rounds is."""


class Missing(UsageError):  # noqa: N818 - what a page says: it is not there
    """Raised when there is nothing with that id or name."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to become of cases; None leaves a thing as it is."""

    status: Status | None = None
    reason: Reason | None = None
    assignee: str | None = None


class Desk:
    """The alert store with its index, undo and the console's audit trail."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self.settings = settings
        self.own = Connections(lambda: connect_console(settings.data))
        self.own.get()  # the folder is there before anything else needs it
        self.connections = Connections(lambda: connect(settings.alerts))
        self.audit = Audit(settings.data / "audit.jsonl", "console")
        if settings.service is None and settings.run is not None:
            self._take_over_run()
        self.index = Index(settings.data / "index.db", self.connections)

    @property
    def suppression_file(self) -> Path:
        """The rules of the service, or the console's own where a run's alerts are shown."""
        return (self.settings.service or self.settings.data) / FILE

    @property
    def store(self) -> AlertStore:
        return AlertStore(self.connections.get())

    def close(self) -> None:
        for connections in (self.connections, self.own):
            connections.close()
        self.index.close()

    def _take_over_run(self) -> None:
        """A run's alerts, in a store of the console's own so that they can be worked on."""
        assert self.settings.run is not None
        path = self.settings.run / "alerts.parquet"
        if not path.is_file():
            return
        table = read_table(path)
        with transaction(self.connections.get()):
            self.store.add(table.alerts, Suppressions())
            self.store.add_further(table.further)

    # ---- looking ---------------------------------------------------------------------------------

    def state(self) -> State:
        """What a page shows the state of; it differs as soon as something came or changed."""
        run = self.settings.run
        path = run / ROUNDS if run is not None else None
        size = path.stat().st_size if path is not None and path.is_file() else 0
        return (*self.index.marks(), size)

    def find(self, query: CaseQuery, page: int = 1, size: int = 50) -> Found:
        self.index.catch_up()
        return self.index.find(query, page, size)

    def case(self, ident: str) -> Case:
        self.index.catch_up()
        found = self.index.get(ident)
        if found is None:
            raise Missing(
                f"there is no incident {ident[:80]!r}", remedy="It may have another id; search for a host."
            )
        return found

    def alerts(self, case: Case, most: int = MOST_ALERTS) -> list[StoredAlert]:
        """The alerts of a case in order of time."""
        found = self.store.find(Filter(incident=case.id, suppressed=None), most)
        return sorted(found or [self.store.get(case.id)], key=lambda one: (one.alert.time, -one.alert.score))

    def alert(self, ident: str) -> StoredAlert:
        try:
            return self.store.get(ident)
        except UsageError as error:
            raise Missing(error.what, remedy="The queue lists what there is.") from error

    # ---- changing --------------------------------------------------------------------------------

    def change(self, who: Principal, cases: Sequence[tuple[str, int | None]], wish: Wish) -> str:
        """Change whole cases, each unless it moved on since `version`; the id with which to undo it."""
        self._checked_assignee(wish)
        before: list[Handling] = []
        for ident, version in cases:
            case = self.case(ident)
            members = self.store.standing(ident)
            if version is not None and version != sum(one.version for one in members):
                raise self._moved(case)
            before += [one for one in members if one.suppressed_by is None] or members
        said = {name: value for name, value in asdict(wish).items() if value is not None}
        self.store.change_all(before, who.name, **said)
        self.audit.append("change", by=who.name, incidents=[ident for ident, _ in cases], **said)
        return self._keep(who, before)

    def change_alert(self, who: Principal, ident: str, wish: Wish, version: int | None) -> StoredAlert:
        """Change one alert."""
        self._checked_assignee(wish)
        before = self.alert(ident)
        self.store.change(
            before.alert.id,
            who.name,
            status=wish.status,
            reason=wish.reason,
            assignee=wish.assignee,
            version=version,
        )
        self.audit.append(
            "change", by=who.name, alert=before.alert.id, status=wish.status, assignee=wish.assignee
        )
        return self.store.get(before.alert.id)

    def note(self, who: Principal, case: Case, text: str) -> None:
        """A note to a case: it is kept with its first alert."""
        self.store.note(self.alerts(case)[0].alert.id, who.name, text)
        self.audit.append("note", by=who.name, incident=case.id)

    def notes(self, alerts: Sequence[StoredAlert]) -> list[tuple[int, str, str]]:
        """(time, who, text) of all notes to these alerts, oldest first."""
        return sorted(note for one in alerts for note in self.store.notes(one.alert.id))

    def history(self, alerts: Sequence[StoredAlert]) -> list[dict[str, Any]]:
        """What was done to these alerts, the same action on several of them told once."""
        told: dict[tuple[int, str, str, str], dict[str, Any]] = {}
        for one in alerts:
            for at, actor, action, detail in self.store.history(one.alert.id):
                key = (at // 1_000_000, actor, action, json.dumps(detail, sort_keys=True))
                entry = told.setdefault(
                    key, {"at": at, "by": actor, "action": action, "detail": detail, "alerts": 0}
                )
                entry["alerts"] += 1
        return sorted(told.values(), key=lambda entry: int(entry["at"]))

    def _checked_assignee(self, wish: Wish) -> None:
        if wish.status is None and wish.assignee is None:
            raise UsageError("nothing is to be changed", remedy="Give a status or an assignee.")
        if wish.assignee is not None and (len(wish.assignee) > 64 or not wish.assignee.isprintable()):
            raise UsageError("an assignee has at most 64 printable characters")

    def _moved(self, case: Case) -> ChangedError:
        latest = self.history(self.alerts(case))[-1:]
        told = "new alerts joined it"
        if latest:
            detail = ", ".join(f"{k} {v}" for k, v in latest[0]["detail"].items() if v is not None)
            told = f"{latest[0]['by']} was there last ({latest[0]['action']}: {detail})"
        return ChangedError(f"the incident changed since you opened it: {told}", remedy="Look at it again.")

    # ---- taking back -----------------------------------------------------------------------------

    def suppress(self, who: Principal, rule: Suppression, fitting: Sequence[str]) -> tuple[int, str]:
        """Add a rule for alerts to come, and mark the open ones among those that it fits; how many
        those were, and the id with which to undo it."""
        before = self.store.suppress(rule, self.suppression_file, fitting, who.name)
        self.audit.append("suppress", by=who.name, rule=rule.id, reason=rule.reason, alerts=len(before))
        return len(before), self._keep(who, before, rule.id)

    def _keep(self, who: Principal, before: Sequence[Handling], rule: str | None = None) -> str:
        ident, now = secrets.token_urlsafe(12), time.time()
        kept = json.dumps({"alerts": [asdict(one) for one in before], "rule": rule})
        with transaction(self.own.get()) as connection:
            connection.execute("DELETE FROM undo WHERE at < ?", (now - UNDO_FOR,))
            connection.execute("INSERT INTO undo VALUES (?, ?, ?, ?)", (ident, who.name, now, kept))
        return ident

    def undo(self, who: Principal, ident: str) -> int:
        """Take a change back; how many alerts got back what they had."""
        row = (
            self.own.get()
            .execute(
                "SELECT * FROM undo WHERE id = ? AND actor = ? AND at > ?",
                (ident, who.name, time.time() - UNDO_FOR),
            )
            .fetchone()
        )
        if row is None:
            raise Missing(
                "there is nothing to undo", remedy="A change can be taken back once, within ten minutes."
            )
        kept = json.loads(row["before"])
        before = [Handling(**one) for one in kept["alerts"]]
        self.store.restore(before, who.name, kept["rule"], self.suppression_file)
        self.own.get().execute("DELETE FROM undo WHERE id = ?", (ident,))
        self.audit.append("undo", by=who.name, alerts=len(before), rule=kept["rule"])
        return len(before)
