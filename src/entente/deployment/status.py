"""Where a federation stands, read from the files of a site; no connection is needed."""

from __future__ import annotations

import time
from typing import Any

from entente.deployment.audit import read
from entente.deployment.policy import HEARTBEAT_TIMEOUT
from entente.deployment.process import pid_of
from entente.deployment.site import RunState, Site
from entente.runs.folder import RunFolder


def status(site: Site) -> dict[str, Any]:
    """What `entente federation status` prints."""
    pid = pid_of(site)
    told: dict[str, Any] = {"site": site.name, "role": site.kit.role, "running": pid is not None, "pid": pid}
    if site.kit.is_coordinator:
        told |= {"silos": _silos(site, pid is not None), "runs": _runs(site)}
    else:
        told |= {"tasks": _last_tasks(site)}
    return told


def _silos(site: Site, running: bool) -> dict[str, str]:
    members = (site.members() or {}) if running else {}
    now = time.time()
    states = {}
    for name in site.kit.federation.silos:
        seen = members.get(name, {}).get("seen")
        if seen is None:
            states[name] = "away"
        else:
            states[name] = "in" if now - float(seen) < HEARTBEAT_TIMEOUT else "silent"
    return states


def _runs(site: Site) -> list[dict[str, Any]]:
    runs = []
    for folder in sorted((site.path / "runs").glob("*")):
        table = RunState(folder).read()
        if not table:
            continue
        records = RunFolder(folder).rounds()
        last = next((record for record in reversed(records) if record.trained), None)
        table_of = last.to_json() if last is not None else {}
        runs.append(
            {
                "run": folder.name,
                "phase": table.get("phase"),
                "round": table.get("round", 0),
                "rounds": table.get("rounds"),
                "reason": table.get("reason"),
                "updated": table.get("updated"),
                "last_round": {key: value for key, value in table_of.items() if key != "silos"},
                "contributions": table_of.get("silos", {}),
                "warnings": table.get("warnings", []),
            }
        )
    return sorted(runs, key=lambda run: str(run["updated"]))


def _last_tasks(site: Site) -> list[dict[str, Any]]:
    if not site.audit.path.exists():
        return []
    wanted = ("task", "task-refused", "task-failed", "job-started", "job-failed", "job-ended", "job-refused")
    entries = [entry for _, entry in read(site.audit.path) if entry["event"] in wanted]
    hidden = ("hash", "previous", "site")
    return [{key: value for key, value in entry.items() if key not in hidden} for entry in entries[-10:]]
