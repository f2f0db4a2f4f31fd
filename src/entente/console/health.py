"""How the service is doing, and the alert budget against what was raised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from entente.artifacts import read_json
from entente.console.desk import Desk
from entente.console.knowledge import copies_of_models, newest_states, silos_in
from entente.errors import EntenteError, StorageError
from entente.runs.folder import RunFolder
from entente.service.status import FILE, STALE
from entente.text import count

DAYS = 30
DRIFT = 3.0
"""Times as many unusual edges as in training: time to train again."""


@dataclass(frozen=True, slots=True)
class Health:
    """What the health page shows; `status` is what the service last wrote of itself."""

    status: dict[str, Any] | None
    running: bool
    age: float | None  # seconds since its last sign of life
    days: tuple[tuple[int, int, int], ...]
    budget: float | None  # alerts a day, all silos together; None where none is set
    by_status: dict[str, int]
    problems: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return {
            "running": self.running,
            "status": self.status,
            "days": [{"day": d, "raised": r, "suppressed": s} for d, r, s in self.days],
            "budget": self.budget,
            "incidents": self.by_status,
            "problems": list(self.problems),
        }


def health_of(desk: Desk, now: float) -> Health:
    status = _status(desk)
    age = now - float(status.get("at", 0.0)) if status is not None else None
    running = age is not None and age < STALE
    return Health(
        status=status,
        running=running,
        age=age,
        days=tuple(desk.index.days(DAYS)),
        budget=_budget(desk, status),
        by_status=desk.index.by_status(),
        problems=tuple(_problems(desk, status, running)),
    )


def _status(desk: Desk) -> dict[str, Any] | None:
    if desk.settings.service is None:
        return None
    try:
        table = read_json(desk.settings.service / FILE)
    except StorageError:
        return None
    return table if isinstance(table, dict) else None


def _problems(desk: Desk, status: dict[str, Any] | None, running: bool) -> list[str]:
    """What somebody should look after, in sentences."""
    if desk.settings.service is None:
        return []
    if status is None:
        return ["The service has never run here. Start it with entente watch."]
    found = (
        [] if running else ["The service does not run: nothing new is scored. Start it with entente watch."]
    )
    found += [str(one) for one in status.get("problems", ())]
    found += [f"Source {one['name']} is silent." for one in status.get("sources", ()) if one["silent"]]
    for one in status.get("outputs", ()):
        if one["attempts"]:
            tries = count(one["attempts"], "attempt")
            found.append(f"Output {one['name']} takes no alerts: {one['waiting']} to deliver after {tries}.")
        if one["refused"]:
            found.append(f"Output {one['name']} refused {count(one['refused'], 'alert')} for good.")
    drift = status.get("drift")
    if drift is not None and drift > DRIFT:
        found.append(f"{drift:.1f} times as many unusual edges as in training: retrain the model.")
    return found


def _budget(desk: Desk, status: dict[str, Any] | None) -> float | None:
    """Alerts a day that the policy of the model at work allows: per silo, times the silos."""
    service, states = desk.settings.service, newest_states(desk.settings)
    copies = copies_of_models(service) if service is not None else []
    working = (one for one in copies if status is not None and one.name == status.get("model"))
    folder = next(iter((*working, *copies)), desk.settings.run)
    if folder is None:
        return None
    try:
        per_silo = RunFolder(folder).experiment().detection.alerts_per_day
    except (EntenteError, OSError):
        return None
    return None if per_silo is None else per_silo * max(1, len(silos_in(states)) if states is not None else 1)
