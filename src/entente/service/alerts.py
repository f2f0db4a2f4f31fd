"""The alert store: what was raised, what people made of it, and who did what when."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from entente.detection.alerts import Alert
from entente.detection.explanations import SEVERITIES
from entente.detection.feedback import DAYS, ClosedAlert, Lessons, learn
from entente.errors import UsageError
from entente.logs.schema import DAY
from entente.service.database import transaction
from entente.service.suppression import Suppression, Suppressions, add_suppression, remove_suppression

Status = Literal["open", "acknowledged", "closed"]
Reason = Literal["true", "benign", "duplicate"]
STATUSES: tuple[Status, ...] = get_args(Status)
REASONS: tuple[Reason, ...] = get_args(Reason)
LONGEST_NOTE = 10_000
STANDING = "id, status, reason, assignee, suppressed_by, version"


class ChangedError(UsageError):
    """Raised when somebody else changed an alert after it was read."""


@dataclass(frozen=True, slots=True)
class StoredAlert:
    """An alert and what people made of it."""

    alert: Alert
    incident: str | None
    status: Status
    reason: Reason | None
    assignee: str | None
    suppressed_by: str | None
    version: int

    def as_dict(self) -> dict[str, Any]:
        names = ("incident", "status", "reason", "assignee", "suppressed_by", "version")
        return {**self.alert.as_dict(), **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True, slots=True)
class Handling:
    """What people made of an alert, without the alert."""

    id: str
    status: Status
    reason: Reason | None
    assignee: str | None
    suppressed_by: str | None
    version: int


@dataclass(frozen=True, slots=True)
class Filter:
    """Which alerts to list; everything that is given has to fit."""

    status: Status | None = None
    host: str | None = None
    silo: str | None = None
    severity: str | None = None  # at least
    incident: str | None = None
    since: int | None = None  # microseconds
    until: int | None = None
    suppressed: bool | None = False  # None: both

    def where(self) -> tuple[str, list[Any]]:
        """The condition in SQL, and its values."""
        parts, values = ["1"], list[Any]()
        for condition, value in (
            ("status = ?", self.status),
            ("silo = ?", self.silo),
            ("incident = ?", self.incident),
            ("time >= ?", self.since),
            ("time < ?", self.until),
        ):
            if value is not None:
                parts.append(condition)
                values.append(value)
        if self.host is not None:
            parts.append("(src = ? OR dst = ?)")
            values += [self.host, self.host]
        if self.severity is not None:
            parts.append("severity >= ?")
            values.append(_level(self.severity))
        if self.suppressed is not None:
            parts.append("suppressed_by IS NOT NULL" if self.suppressed else "suppressed_by IS NULL")
        return " AND ".join(parts), values


class AlertStore:
    """Alerts in the service's database. Every change is in the audit trail."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def add(
        self,
        alerts: Sequence[Alert],
        suppressions: Suppressions,
        now: int | None = None,
    ) -> list[str]:
        """Store alerts inside the caller's transaction; the ids of the new ones that are not suppressed.

        An alert that is there already stays as it is: it was raised before, and people may have worked on it.
        """
        moment = now if now is not None else time.time_ns() // 1000
        fresh = []
        for alert in alerts:
            hidden = suppressions.of(alert)
            stored = self._connection.execute(
                "INSERT OR IGNORE INTO alerts "
                "(id, incident, time, silo, severity, score, src, dst, document, suppressed_by, raised_at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    alert.id,
                    alert.incident,
                    alert.time,
                    alert.silo,
                    _level(alert.severity),
                    alert.score,
                    alert.src,
                    alert.dst,
                    json.dumps(alert.as_dict(), allow_nan=False),
                    hidden,
                    moment,
                ),
            )
            if stored.rowcount and hidden is None:
                fresh.append(alert.id)
        return fresh

    def add_further(self, edges: Sequence[Alert]) -> None:
        """Store edges of incidents that are no alerts, inside the caller's transaction."""
        self._connection.executemany(
            "INSERT OR IGNORE INTO further VALUES (?, ?, ?, ?)",
            [(one.id, one.incident, one.time, json.dumps(one.as_dict(), allow_nan=False)) for one in edges],
        )

    def further(self, incident: str, most: int = 1000) -> list[Alert]:
        """The edges of an incident that are no alerts, the latest `most` of them in order of time."""
        rows = self._connection.execute(
            "SELECT document FROM further WHERE incident = ? ORDER BY time DESC, id LIMIT ?", (incident, most)
        )
        return [Alert.from_dict(json.loads(row["document"])) for row in rows][::-1]

    def find(self, wanted: Filter, most: int = 100, skip: int = 0) -> list[StoredAlert]:
        """Alerts, the most severe and newest first."""
        condition, values = wanted.where()
        rows = self._connection.execute(
            f"SELECT * FROM alerts WHERE {condition} "  # noqa: S608 - fixed texts # nosec B608
            "ORDER BY severity DESC, time DESC, score DESC, id LIMIT ? OFFSET ?",
            [*values, most, skip],
        )
        return [_stored(row) for row in rows]

    def count(self, wanted: Filter) -> int:
        condition, values = wanted.where()
        row = self._connection.execute(
            f"SELECT count(*) FROM alerts WHERE {condition}",  # noqa: S608 - fixed texts # nosec B608
            values,
        ).fetchone()
        return int(row[0])

    def get(self, name: str) -> StoredAlert:
        """The alert with this id or the only one whose id begins with it; UsageError otherwise."""
        rows = self._connection.execute(
            "SELECT * FROM alerts WHERE id >= ? AND id < ? LIMIT 2", (name, name + "\x7f")
        ).fetchall()
        if not rows or not name:
            raise UsageError(f"there is no alert {name!r}", remedy="`entente alerts list` shows their ids.")
        if len(rows) > 1 and rows[0]["id"] != name:
            raise UsageError(f"several alerts begin with {name!r}", remedy="Give more of the id.")
        return _stored(rows[0])

    def standing(self, case: str) -> list[Handling]:
        """What people made of a case: of an incident's alerts, or of the one alert that belongs to none."""
        rows = self._connection.execute(
            f"SELECT {STANDING} FROM alerts WHERE incident = ? OR (incident IS NULL AND id = ?)",  # noqa: S608 # nosec B608
            (case, case),
        )
        return [Handling(*row) for row in rows]

    def change(
        self,
        name: str,
        actor: str,
        *,
        status: Status | None = None,
        reason: Reason | None = None,
        assignee: str | None = None,
        version: int | None = None,
    ) -> None:
        """Set status or assignee. With `version` only if nobody has changed the alert since it was read."""
        said = _said(status, reason, assignee)
        with transaction(self._connection):
            one = self.get(name)
            if version is not None and version != one.version:
                raise self._changed([one.alert.id])
            self._set(one.alert.id, actor, "change", said)

    def change_all(
        self,
        before: Sequence[Handling],
        actor: str,
        *,
        status: Status | None = None,
        reason: Reason | None = None,
        assignee: str | None = None,
    ) -> None:
        """`change` for several alerts, all or none: none if one has moved on since `before` was read."""
        said = _said(status, reason, assignee)
        with transaction(self._connection):
            self._check_unchanged(before, since=0)
            for one in before:
                self._set(one.id, actor, "change", said)

    def restore(
        self, before: Sequence[Handling], actor: str, rule: str | None = None, file: Path | None = None
    ) -> None:
        """Take one change back: alerts get back what they had; none if one has moved on.

        With `rule`, that suppression leaves its `file` too.
        """
        with transaction(self._connection):
            self._check_unchanged(before, since=1)
            for one in before:
                said = {
                    name: getattr(one, name) for name in ("status", "reason", "assignee", "suppressed_by")
                }
                self._set(one.id, actor, "undo", said)
            if rule is not None and file is not None:
                remove_suppression(file, rule)

    def suppress(self, rule: Suppression, file: Path, names: Sequence[str], actor: str) -> list[Handling]:
        """Add a rule to its file and mark those of the named alerts that are open; what these were before.

        One transaction: nobody's rule is lost, and what was closed or suppressed meanwhile stays so.
        """
        with transaction(self._connection):
            add_suppression(file, rule)
            found = [one for one in self._standing(names) if one.status == "open" and not one.suppressed_by]
            for one in found:
                self._set(one.id, actor, "suppress", {"suppressed_by": rule.id})
        return found

    def _standing(self, names: Sequence[str]) -> list[Handling]:
        rows = self._connection.execute(
            f"SELECT {STANDING} FROM alerts WHERE id IN (SELECT value FROM json_each(?))",  # noqa: S608 # nosec B608
            (json.dumps(list(names)),),
        )
        return [Handling(*row) for row in rows]

    def _check_unchanged(self, before: Sequence[Handling], since: int) -> None:
        """ChangedError unless each alert has been changed `since` times after it was read."""
        now = {one.id: one.version for one in self._standing([one.id for one in before])}
        if any(now.get(one.id) != one.version + since for one in before):
            raise self._changed([one.id for one in before])

    def _set(self, ident: str, actor: str, action: str, said: Mapping[str, Any]) -> None:
        for column, value in said.items():
            self._connection.execute(
                f"UPDATE alerts SET {column} = ? WHERE id = ?",  # noqa: S608 - four fixed names # nosec B608
                (value, ident),
            )
        self._connection.execute("UPDATE alerts SET version = version + 1 WHERE id = ?", (ident,))
        self._record(actor, action, ident, said)

    def _changed(self, names: Sequence[str]) -> ChangedError:
        """Who was there in the meantime, and what they did."""
        last = self._connection.execute(
            "SELECT actor, detail FROM audit WHERE target IN (SELECT value FROM json_each(?)) "
            "ORDER BY number DESC LIMIT 1",
            (json.dumps(list(names)),),
        ).fetchone()
        who = f" by {last['actor']}" if last else ""
        detail = json.loads(last["detail"]) if last else {}
        said = ", ".join(f"{k} {v}" for k, v in detail.items() if v is not None)
        return ChangedError(
            f"changed{who} in the meantime" + (f" ({said})" if said else ""), remedy="Look at it again."
        )

    def note(self, name: str, actor: str, text: str) -> None:
        """Add a note to an alert."""
        if not text.strip() or len(text) > LONGEST_NOTE:
            raise UsageError(f"a note has 1 to {LONGEST_NOTE} characters")
        with transaction(self._connection):
            found = self.get(name)
            self._connection.execute(
                "INSERT INTO notes (alert, at, actor, text) VALUES (?, ?, ?, ?)",
                (found.alert.id, time.time_ns() // 1000, actor, text),
            )
            self._record(actor, "note", found.alert.id, {"text": text})

    def lessons(self, until: int) -> Lessons:
        """What the alerts taught that people have closed, of the days before `until` (microseconds)."""
        rows = self._connection.execute(
            "SELECT silo, src, reason, score - json_extract(document, '$.threshold') AS excess FROM alerts "
            "WHERE status = 'closed' AND reason IN ('benign', 'true') AND time >= ?",
            (until - DAYS * DAY,),
        )
        return learn(ClosedAlert(r["silo"], r["src"], r["excess"], r["reason"] == "benign") for r in rows)

    def notes(self, name: str) -> list[tuple[int, str, str]]:
        """(time, who, text) of an alert's notes, oldest first."""
        rows = self._connection.execute(
            "SELECT at, actor, text FROM notes WHERE alert = ? ORDER BY number", (self.get(name).alert.id,)
        )
        return [(int(row["at"]), str(row["actor"]), str(row["text"])) for row in rows]

    def history(self, name: str) -> list[tuple[int, str, str, Mapping[str, Any]]]:
        """(time, who, action, detail) of everything done to an alert, oldest first."""
        rows = self._connection.execute(
            "SELECT at, actor, action, detail FROM audit WHERE target = ? ORDER BY number",
            (self.get(name).alert.id,),
        )
        return [(int(r["at"]), str(r["actor"]), str(r["action"]), json.loads(r["detail"])) for r in rows]

    def _record(self, actor: str, action: str, target: str, detail: Mapping[str, Any]) -> None:
        self._connection.execute(
            "INSERT INTO audit (at, actor, action, target, detail) VALUES (?, ?, ?, ?, ?)",
            (time.time_ns() // 1000, actor, action, target, json.dumps(detail)),
        )


def _said(status: Status | None, reason: Reason | None, assignee: str | None) -> dict[str, Any]:
    """The columns that a change sets."""
    if (status == "closed") != (reason is not None):
        raise UsageError("an alert is closed with a reason", remedy=f"Reasons: {', '.join(REASONS)}.")
    said: dict[str, Any] = {}
    if status is not None:
        said |= {"status": status, "reason": reason}
    if assignee is not None:
        said["assignee"] = assignee or None
    return said


def _stored(row: sqlite3.Row) -> StoredAlert:
    return StoredAlert(
        alert=Alert.from_dict(json.loads(row["document"])),
        incident=row["incident"],
        status=row["status"],
        reason=row["reason"],
        assignee=row["assignee"],
        suppressed_by=row["suppressed_by"],
        version=int(row["version"]),
    )


def _level(severity: str) -> int:
    if severity not in SEVERITIES:
        raise UsageError(f"there is no severity {severity!r}", remedy=f"Levels: {', '.join(SEVERITIES)}.")
    return SEVERITIES.index(severity)
