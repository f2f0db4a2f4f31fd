"""A case as a file: CSV, STIX, or a layer for the ATT&CK Navigator."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from entente.console.cases import Case
from entente.detection.explanations import TECHNIQUES
from entente.detection.sinks import create
from entente.detection.sinks.base import timestamp
from entente.errors import UsageError
from entente.service.alerts import StoredAlert
from entente.text import visible

COLUMNS = (
    "id", "time", "until", "severity", "score", "src", "dst", "users", "ports", "kinds", "technique", "silo",
    "status", "reason", "assignee", "why",
)  # fmt: skip
KINDS = {"csv": "text/csv", "stix": "application/json", "navigator": "application/json"}
SUFFIXES = {"csv": "csv", "stix": "json", "navigator": "json"}


def export(kind: str, case: Case, alerts: Sequence[StoredAlert]) -> str:
    """The text of the file; UsageError for a format that is not one."""
    match kind:
        case "csv":
            return as_csv(alerts)
        case "stix":
            return create("stix").render([one.alert for one in alerts])
        case "navigator":
            return as_layer(case, alerts)
    raise UsageError(f"there is no export {kind[:40]!r}", remedy=f"One of {', '.join(KINDS)}.")


def as_csv(alerts: Sequence[StoredAlert]) -> str:
    """One row per alert. A cell that a spreadsheet would take for a formula begins with an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for one in alerts:
        a = one.alert
        values: tuple[Any, ...] = (
            a.id, timestamp(a.time), timestamp(a.until), a.severity, a.score, a.src, a.dst, " ".join(a.users),
            " ".join(map(str, a.ports)), " ".join(a.kinds), a.technique or "", " ".join(a.silos), one.status,
            one.reason or "", one.assignee or "", "; ".join(a.explanation),
        )  # fmt: skip
        writer.writerow([_harmless(value) for value in values])
    return text.getvalue()


def _harmless(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    shown = visible(value)
    return "'" + shown if shown.startswith(("=", "+", "-", "@", "\t")) else shown


def as_layer(case: Case, alerts: Sequence[StoredAlert]) -> str:
    """A Navigator layer: the techniques that alerts hint at, with how many do."""
    seen = Counter(one.alert.technique for one in alerts if one.alert.technique in TECHNIQUES)
    techniques = [
        {
            "techniqueID": technique,
            "tactic": TECHNIQUES[technique][1][1].lower().replace(" ", "-"),
            "score": number,
            "comment": f"{number} alerts hint at it; a hint, not a finding",
            "enabled": True,
        }
        for technique, number in sorted(seen.items())
    ]
    layer = {
        "name": f"Entente incident {case.id[:8]}",
        "versions": {"layer": "4.5", "navigator": "5.0.0"},
        "domain": "enterprise-attack",
        "description": visible("; ".join(case.story["why"]), 1000),
        "techniques": techniques,
        "gradient": {
            "colors": ["#fdebd3", "#b84300"],
            "minValue": 0,
            "maxValue": max(seen.values(), default=1),
        },
    }
    return json.dumps(layer, indent=1) + "\n"
