"""scores.parquet and alerts.parquet -> alerts, incidents, the attack and a precision-recall curve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from entente.detection.alerts import Alert
from entente.detection.incidents import Incident, list_incidents
from entente.detection.metrics import pr_curve
from entente.detection.scored import ScoredEdges, unite
from entente.detection.scores import read_scores
from entente.detection.table import read_table
from entente.report.data import AttackEdge, Points


def from_alerts(path: Path) -> dict[str, Any]:
    """The fields of ReportData that come from alerts.parquet."""
    table = read_table(path)
    return {
        "alerts": table.alerts,
        "incidents": list_incidents(table.alerts, further=table.further),
        "further": table.further,
        "excluded": table.excluded,
    }


def from_scores(
    path: Path, window_seconds: float, homes: dict[str, str], alerts: tuple[Alert, ...], method: str
) -> dict[str, Any]:
    """The fields of ReportData that come from scores.parquet."""
    scored = read_scores(path, window_seconds)
    homes = homes or infer_homes(scored)
    found: dict[str, Any] = {"homes": homes, "silo_hosts": _count(homes)}
    if scored.label is not None:
        whole = unite([scored])
        found["attack"] = attack_edges(whole, alerts)
        curve = pr_curve(whole.score, whole.label == 1)
        found["curves"] = {method: Points(curve.recall, curve.precision)}
    return found


def attack_edges(whole: ScoredEdges, alerts: tuple[Alert, ...]) -> tuple[AttackEdge, ...]:
    """The malicious edges, and whether a silo's threshold was exceeded."""
    raised = {(alert.start, alert.src, alert.dst): alert.technique for alert in alerts}
    malicious = whole.chosen(np.flatnonzero(whole.label == 1))
    columns = (malicious.window.tolist(), malicious.src_names(), malicious.dst_names())
    return tuple(
        sorted(
            (
                AttackEdge(*key, found=bool(found), score=float(score), technique=raised.get(key))
                for *place, score, found in zip(*columns, malicious.score, malicious.alert, strict=True)
                if (key := (place[0], place[1], place[2]))
            ),
            key=lambda edge: (edge.time, edge.src, edge.dst),
        )
    )


def as_attack(incident: Incident) -> tuple[AttackEdge, ...]:
    """An incident drawn like an attack, where nobody knows the truth."""
    return tuple(AttackEdge(time, src, dst) for time, src, dst in incident.chain)


def infer_homes(scored: ScoredEdges) -> dict[str, str]:
    """Host -> the silo that owns it, as far as the scores tell.

    A silo sees an edge because one of its ends is its own: the source, or else the target. A target that
    no silo claims in this way is counted to the silo that sees it.
    """
    home = np.full(len(scored.hosts), -1, dtype=np.int64)
    home[scored.dst[scored.own_source]] = scored.silo[scored.own_source]
    home[scored.dst[~scored.own_source]] = scored.silo[~scored.own_source]
    home[scored.src[scored.own_source]] = scored.silo[scored.own_source]
    names = scored.hosts.tolist()
    return {names[i]: scored.silos[home[i]] for i in np.flatnonzero(home >= 0).tolist()}


def _count(homes: dict[str, str]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for silo in homes.values():
        sizes[silo] = sizes.get(silo, 0) + 1
    return sizes
