"""An evaluation on labelled test windows -> the figures of one line of a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from entente.detection.incidents import HOURS, assign_incidents
from entente.detection.metrics import MICROSECONDS, average_precision
from entente.detection.policy import AlertPolicy
from entente.detection.raising import joined, raise_alerts
from entente.detection.scored import ScoredEdges
from entente.runtime.assembly import Dataset
from entente.runtime.evaluation import Evaluation, edge_columns
from entente_lab.bench.measure import flat

PER_DAY = 10.0
"""Alerts per silo and day that analysts are assumed to have time for."""
KEPT = (
    *("ap", "ap_lift", "auc", "recall_at_10", "precision_at_half_recall", "false_per_day_at_half_recall"),
    *("positives", "edges"),
)
SOURCES = ("per_source_window", "per_source_day")


def figures(evaluation: Evaluation, parts: Mapping[str, ScoredEdges] | None = None) -> dict[str, Any]:
    """`values` over all edges, and AP per silo; `parts` are what silos see, where they did not score."""
    whole = evaluation.overall().metrics(evaluation.detection.budgets)
    plain = flat(whole)
    values = {name: plain.get(name) for name in KEPT}
    for name in SOURCES:
        found = getattr(whole, name)
        values[f"{name}_ap"] = None if found is None else found.ap
    silos = {name: _ap(scored) for name, scored in (evaluation.scored if parts is None else parts).items()}
    return {"values": values | silo_values(silos), "per_silo": {n: {"ap": ap} for n, ap in silos.items()}}


def honest_part(evaluation: Evaluation, cheats: Collection[str]) -> Evaluation:
    """What the silos outside `cheats` have found."""
    seen = {name: scored for name, scored in evaluation.scored.items() if name not in cheats}
    return replace(evaluation, scored=seen)


def _ap(scored: ScoredEdges) -> float | None:
    if scored.label is None or not scored.label.any():
        return None
    return average_precision(scored.score, scored.label)


def silo_values(ap: Mapping[str, float | None]) -> dict[str, float | None]:
    """Mean and worst AP over the silos that have a malicious edge to find."""
    known = [value for value in ap.values() if value is not None]
    return {
        "silo_mean": float(np.mean(known)) if known else None,
        "silo_worst": min(known) if known else None,
    }


def alert_figures(dataset: Dataset, evaluation: Evaluation) -> dict[str, Any]:
    """At ten alerts a day and silo: the share of malicious edges raised, and of those that an incident holds.

    An incident holds an edge that is raised, and one that would have joined it: its source acted in the
    incident, or was reached by it, within the hours for which incidents stay open.
    """
    policy = AlertPolicy(PER_DAY, evaluation.detection.exclude)
    raised = [
        raise_alerts(
            evaluation.scored[name],
            silo.hosts.own,
            [edge_columns(silo.train), edge_columns(silo.validation)],
            policy,
        )
        for name, silo in dataset.silos.items()
        if name in evaluation.scored
    ]
    alerts = assign_incidents(joined(raised).alerts)
    edges = {(alert.start, alert.src, alert.dst) for alert in alerts}
    moments: dict[str, list[int]] = {}
    for alert in alerts:
        for host in (alert.src, alert.dst):
            moments.setdefault(host, []).append(alert.start)
    bad = malicious(evaluation.overall())
    if not bad:
        return {"raised_share": None, "incident_share": None, "raised_a_day": None}
    span = HOURS * 3600 * MICROSECONDS
    held = [
        edge in edges or any(0 <= edge[0] - start <= span for start in moments.get(edge[1], ()))
        for edge in bad
    ]
    days = {start // (86_400 * MICROSECONDS) for start, _, _ in edges}
    return {
        "raised_share": sum(edge in edges for edge in bad) / len(bad),
        "incident_share": sum(held) / len(bad),
        "raised_a_day": len(edges) / max(1, len(days)),
    }


def malicious(scored: ScoredEdges) -> list[tuple[int, str, str]]:
    """Window start, source and target of every malicious edge."""
    if scored.label is None:
        return []
    bad = scored.chosen(np.flatnonzero(scored.label))
    return list(zip(bad.window.tolist(), bad.src_names(), bad.dst_names(), strict=True))
