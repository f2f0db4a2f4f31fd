"""What is known of a host or an account beyond its alerts: from the silos' states and the event table."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import asdict, dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from entente.console.settings import ConsoleSettings
from entente.detection.alerts import Alert
from entente.detection.history import Edges
from entente.detection.metrics import MICROSECONDS, SECONDS_PER_DAY
from entente.detection.roles import Role, role_of
from entente.errors import EntenteError
from entente.logs.events import read_manifest, scan_events
from entente.runs.folder import RunFolder
from entente.runs.steps import silo_of

DAY, HOUR = SECONDS_PER_DAY * MICROSECONDS, 3600 * MICROSECONDS
MOST_PARTNERS = 12
MOST_ROWS = 200
"""Events shown of one alert."""
MOST_READ = 5_000_000
"""Events read for one answer."""
ACCOUNT_DAYS = 14
ROLES: dict[Role, str] = {
    "hub": "it contacts many",
    "server": "many contact it",
    "workstation": "it contacts few, few contact it",
}


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A host as its silos' logs know it. Partners are (name, windows in which they met)."""

    name: str
    silos: tuple[str, ...]  # whose logs know it
    owner: str | None
    role: Role | None  # in the logs of the owner, else of the silo that saw most of it
    first: int
    last: int
    targets: tuple[tuple[str, int], ...]
    sources: tuple[tuple[str, int], ...]
    target_count: int
    source_count: int
    hours: tuple[int, ...]  # windows with activity by hour of the day
    degree: tuple[tuple[int, int], ...]  # (day, distinct partners)

    @property
    def role_said(self) -> str:
        """The role with what it means."""
        return f"{self.role}: {ROLES[self.role]}" if self.role is not None else "none yet: no contact known"


def newest_states(settings: ConsoleSettings) -> Path | None:
    """The folder of the newest states: the service's, else the run's."""
    service, run = settings.service, settings.run
    if service is not None:
        numbered = sorted((service / "states").glob("[0-9]*"))
        for folder in (*reversed(numbered), *copies_of_models(service)):
            if (folder / "state").is_dir():
                return folder
    return run if run is not None and (run / "state").is_dir() else None


def copies_of_models(service: Path) -> list[Path]:
    """The models that the service has worked with, the newest first."""
    return sorted((service / "models").glob("*"), key=lambda path: path.stat().st_mtime, reverse=True)


def silos_in(folder: Path) -> list[str]:
    """The silos that a folder of states has."""
    return sorted({silo_of(path.name) for path in (folder / "state").glob("*/silo-*")})


class Knowledge:
    """Reads states once and again when they change."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._read: tuple[Path | None, dict[str, _History]] = (None, {})

    def _states(self) -> Path | None:
        return newest_states(self._settings)

    def _silos(self) -> dict[str, _History]:
        folder = self._states()
        with self._lock:
            if folder is None or self._read[0] == folder:
                return self._read[1]
            states = RunFolder(folder).states
            found = {}
            for name in silos_in(folder):
                if states.has(name):
                    state = states.read(name)
                    found[name] = _History(state.hosts.names, state.hosts.own, state.history)
            self._read = (folder, found)
            return found

    def host(self, name: str) -> HostFacts | None:
        """What the silos remember of a host; None where none knows it."""
        silos = self._silos()
        knowing = {silo: history for silo, history in silos.items() if history.number(name) is not None}
        if not knowing:
            return None
        targets, sources = Counter[str](), Counter[str]()
        days: dict[int, set[str]] = {}
        hours, spans = np.zeros(24, dtype=np.int64), list[int]()
        owner = next((silo for silo, history in knowing.items() if history.owns(name)), None)
        roles = list[tuple[bool, bool, int, Role | None]]()
        for silo, history in knowing.items():
            contacts = []
            for counter, own, other in ((targets, "src", "dst"), (sources, "dst", "src")):
                windows, partners = history.met(name, own, other)
                contacts.append(len(set(partners)))
                spans += [int(w) for w in windows[[0, -1]]] if len(windows) else []
                # A pair that two silos see is one: the larger count is the better one.
                for partner, times in Counter(partners).items():
                    counter[partner] = max(counter[partner], times)
                for window, partner in zip((windows // DAY).tolist(), partners, strict=True):
                    days.setdefault(int(window), set()).add(partner)
                hours += np.bincount((np.unique(windows) // HOUR) % 24, minlength=24)
            role = role_of(contacts[0], contacts[1], len(history))
            roles.append((role is not None, silo == owner, sum(contacts), role))
        return HostFacts(
            name=name,
            silos=tuple(knowing),
            owner=owner,
            role=max(roles, key=itemgetter(0, 1, 2))[3],
            first=min(spans, default=0),
            last=max(spans, default=0),
            targets=tuple(targets.most_common(MOST_PARTNERS)),
            sources=tuple(sources.most_common(MOST_PARTNERS)),
            target_count=len(targets),
            source_count=len(sources),
            hours=tuple(int(n) for n in hours),
            degree=tuple((day, len(met)) for day, met in sorted(days.items())),
        )

    def nearest_usual(self, alert: Alert, most: int = 3) -> list[tuple[str, float]]:
        """The source's usual targets whose callers are most like those of the alert's target.

        This is what the alert would look like if it were normal: a target of the same kind that the source
        does contact. The figure is the share of callers that two targets have in common.
        """
        best: dict[str, float] = {}
        for history in self._silos().values():
            callers = history.callers(alert.dst)
            _, usual = history.met(alert.src, "src", "dst", before=alert.start)
            for target in set(usual) - {alert.dst}:
                others = history.callers(target)
                union = len(callers | others)
                best[target] = max(best.get(target, 0.0), len(callers & others) / union if union else 0.0)
        return sorted(best.items(), key=lambda item: (-item[1], item[0]))[:most]

    # ---- events ----------------------------------------------------------------------------------

    def events(self) -> Path | None:
        """The event table that the run was made of, where it is still there."""
        if self._settings.run is None:
            return None
        try:
            events = RunFolder(self._settings.run).experiment().data.events
            read_manifest(events)
        except (EntenteError, OSError):
            return None
        return events

    def rows(self, alert: Alert) -> list[dict[str, Any]] | None:
        """The log's own rows behind an alert: all where the log is at hand, else those it carries."""
        events = self.events()
        if events is None:
            return [asdict(row) | {"place": row.place} for row in alert.evidence] or None
        found: list[dict[str, Any]] = []
        for batch in scan_events(events, start=alert.start, end=alert.end):
            fits = pc.and_(pc.equal(batch["src"], alert.src), pc.equal(batch["dst"], alert.dst))
            found += batch.filter(fits).slice(0, MOST_ROWS).to_pylist()
            if len(found) >= MOST_ROWS:
                break
        rows = sorted(found[:MOST_ROWS], key=lambda row: int(row["time"]))
        return [{name: value for name, value in row.items() if name != "label"} for row in rows]

    def account(self, name: str) -> dict[str, Any] | None:
        """Hosts and hours of an account in the last two weeks of the event table."""
        events = self.events()
        if events is None:
            return None
        end = read_manifest(events).last_time or 0
        hosts, hours, first, last, read = Counter[str](), [0] * 24, None, None, 0
        columns = ("time", "src", "dst", "user")
        for batch in scan_events(events, columns, start=end - ACCOUNT_DAYS * DAY):
            read += batch.num_rows
            for row in batch.filter(pc.equal(batch["user"], name)).to_pylist():
                hosts.update((row["src"], row["dst"]))
                hours[row["time"] // HOUR % 24] += 1
                first = row["time"] if first is None else min(first, row["time"])
                last = row["time"] if last is None else max(last, row["time"])
            if read > MOST_READ:
                break
        if first is None:
            return None
        return {
            "from": "log",
            "first": first,
            "last": last,
            "hosts": hosts.most_common(MOST_PARTNERS),
            "host_count": len(hosts),
            "hours": hours,
        }


class _History:
    """The edges that one silo remembers, by host name."""

    def __init__(self, names: Any, own: Any, edges: Edges) -> None:
        self._names, self._own = names, own
        self._numbers = {str(name): i for i, name in enumerate(names.tolist())}
        window, src, dst = edges
        self._window = window
        self._ends = {"src": src, "dst": dst}

    def __len__(self) -> int:
        return len(self._names)

    def number(self, name: str) -> int | None:
        return self._numbers.get(name)

    def owns(self, name: str) -> bool:
        return bool(self._own[self._numbers[name]])

    def met(self, name: str, own: str, other: str, before: int | None = None) -> tuple[Any, list[str]]:
        """Windows in order and the other end of every edge that has the host at its `own` end."""
        number = self.number(name)
        if number is None:
            return np.empty(0, dtype=np.int64), []
        keep = self._ends[own] == number
        if before is not None:
            keep &= self._window < before
        windows, partners = self._window[keep], self._ends[other][keep]
        order = np.argsort(windows, kind="stable")
        return windows[order], self._names[partners[order]].tolist()

    def callers(self, name: str) -> set[str]:
        return set(self.met(name, "dst", "src")[1])
