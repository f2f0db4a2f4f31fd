"""scores.parquet -> alerts with reasons, incidents, the attack and a precision-recall curve."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from entente.config import Experiment
from entente.detection.alerts import Alert, ScoredEdges, build_alerts
from entente.detection.history import encode
from entente.detection.incidents import Incident, group_alerts
from entente.detection.metrics import pr_curve
from entente.errors import EntenteError, StorageError
from entente.report.data import AttackEdge, Points


def from_scores(
    path: Path, experiment: Experiment, metrics: Mapping[str, Any], homes: dict[str, str], method: str
) -> dict[str, Any]:
    """The fields of ReportData that come from scores.parquet."""
    columns = _read_scores(path)
    edges = ScoredEdges(
        window=columns["window"],
        src=columns["src"],
        dst=columns["dst"],
        score=columns["score"].astype(np.float64),
        silo=columns.get("silo"),
    )
    limit = columns.get("threshold", metrics["overall"].get("threshold"))
    if limit is None:
        limit = np.inf
    homes = homes or infer_homes(columns)
    history = _history(experiment, int(columns["window"].min())) if len(columns["window"]) else None
    alerts = build_alerts(edges, limit, experiment.data.window, history=history, home=homes)
    found: dict[str, Any] = {"homes": homes, "alerts": alerts, "incidents": group_alerts(alerts)}
    found["silo_hosts"] = _count(homes)
    if "label" in columns:
        found["attack"] = attack_edges(columns, alerts)
        curve = pr_curve(*_once(columns))
        found["curves"] = {method: Points(curve.recall, curve.precision)}
    return found


def _read_scores(path: Path) -> dict[str, Any]:
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    try:
        loaded = pq.read_table(path)
    except (OSError, ArrowException) as error:
        raise StorageError(f"is not readable Parquet ({error})", where=path) from error
    missing = {"window", "src", "dst", "score"} - set(loaded.column_names)
    if missing:
        raise StorageError(f"has no column {sorted(missing)[0]}", where=path)
    columns = {name: loaded.column(name).to_numpy() for name in loaded.column_names}
    if "label" in columns and loaded.column("label").null_count == len(loaded):
        del columns["label"]
    return columns


def attack_edges(columns: Mapping[str, Any], alerts: tuple[Alert, ...]) -> tuple[AttackEdge, ...]:
    """The malicious edges of scored edges, each once, and whether an alert names it."""
    raised = {(alert.start, alert.src, alert.dst): alert for alert in alerts}
    best: dict[tuple[int, str, str], float] = {}
    for i in np.flatnonzero(columns["label"] == 1).tolist():
        key = (int(columns["window"][i]), str(columns["src"][i]), str(columns["dst"][i]))
        best[key] = max(best.get(key, -np.inf), float(columns["score"][i]))
    return tuple(
        AttackEdge(
            *key, found=key in raised, score=score, technique=raised[key].technique if key in raised else None
        )
        for key, score in sorted(best.items())
    )


def as_attack(incident: Incident) -> tuple[AttackEdge, ...]:
    """An incident drawn like an attack, where nobody knows the truth."""
    return tuple(AttackEdge(time, src, dst) for time, src, dst in incident.chain)


def _once(columns: Mapping[str, Any]) -> tuple[Any, Any]:
    """Scores and labels with each edge once: one that two silos scored counts with the higher score."""
    window, score = columns["window"], columns["score"]
    _, (src, dst) = encode(columns["src"], columns["dst"])
    order = np.lexsort((-score, dst, src, window))
    first = np.ones(len(order), dtype=bool)
    first[1:] = (np.diff(window[order]) != 0) | (np.diff(src[order]) != 0) | (np.diff(dst[order]) != 0)
    chosen = order[first]
    return score[chosen], columns["label"][chosen] == 1


def infer_homes(columns: Mapping[str, Any]) -> dict[str, str]:
    """Host -> the silo in which most of its edges were scored: its own silo sees them all."""
    if "silo" not in columns:
        return {}
    counts: dict[tuple[str, str], int] = {}
    for end in ("src", "dst"):
        for pair in zip(columns[end].tolist(), columns["silo"].tolist(), strict=True):
            counts[pair] = counts.get(pair, 0) + 1
    homes: dict[str, str] = {}
    for (host, silo), _ in sorted(counts.items(), key=lambda item: (item[1], item[0][1])):
        homes[host] = silo
    return homes


def _count(homes: Mapping[str, str]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for silo in homes.values():
        sizes[silo] = sizes.get(silo, 0) + 1
    return sizes


def _history(experiment: Experiment, before: int) -> tuple[Any, Any, Any] | None:
    """(window, src, dst) of the training windows, if the events are still where they were."""
    from entente.graphs.snapshots import read_timeline

    data = experiment.data
    if not data.events.is_dir():
        return None
    try:
        timeline = read_timeline(data.events, data.window, data.start, before / 1_000_000)
    except EntenteError:
        return None
    number = np.repeat(np.arange(timeline.num_windows), np.diff(timeline.offsets))
    window = timeline.start + number * timeline.width
    return window, timeline.hosts[timeline.src], timeline.hosts[timeline.dst]
