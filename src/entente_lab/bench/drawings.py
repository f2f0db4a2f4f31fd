"""Drawings that pages share: silos as blocks, curves of precision and contributions, bars per silo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from entente_lab.bench.cells import Row
from entente_lab.bench.document import Block, Entry, Figure, Table
from entente_lab.bench.methods import title
from entente_lab.bench.plots import bars, block_matrix, lines
from entente_lab.bench.statistics import summarise
from entente_lab.bench.tables import where


def silo_blocks(described: Mapping[str, Any]) -> list[Block]:
    """Who talks to whom, hosts in order of their silos."""
    picture = described.get("picture") or {}
    if not picture:
        return []
    drawn = block_matrix(
        f"Silos of {described['dataset']}, K = {described['k']}", picture["groups"], picture["cells"]
    )
    said = "Host pairs over the whole log, sources down and targets across, hosts in order of their silos."
    return [Figure(drawn, f"{said} {described['split'].capitalize()}.")]


def precision_curves(rows: Sequence[Row], what: str) -> list[Block]:
    """Precision over recall of the first seed."""
    series, first = {}, min((record.seed for _, record in rows), default=0)
    for labels, record in rows:
        curve = record.outcome.get("curve") or {}
        if record.seed == first and curve.get("recall"):
            series[title(str(labels["method"]))] = (curve["recall"], curve["precision"])
    if not series:
        return []
    svg = lines(f"Precision over recall: {what}", series, "recall", "precision", y_range=(0.0, 1.0))
    return [Figure(svg, f"Seed {first}; test edges of all silos.")]


def contribution_curves(rows: Sequence[Row], what: str) -> list[Block]:
    """How each silo's r goes over the rounds, and what it is made of at both ends; `rows` are Entente's."""
    chosen = min((record for _, record in rows), key=lambda record: record.seed, default=None)
    if chosen is None or chosen.status != "done":
        return []
    rounds = [r for r in chosen.outcome["rounds"] if r["kind"] == "train"]
    curves: dict[str, tuple[list[float], list[float]]] = {}
    for record in rounds:
        for silo, credit in record["silos"].items():
            if "r" in credit:
                curves.setdefault(silo, ([], []))
                curves[silo][0].append(record["round"])
                curves[silo][1].append(credit["r"])
    figure = Figure(
        lines(f"Contribution r per round: {what}", curves, "round", "r"), f"Entente, seed {chosen.seed}."
    )
    body = []
    for silo in sorted(curves):
        own = [r["silos"][silo] for r in rounds if "r" in r["silos"].get(silo, {})]
        ends = [f"{credit[name]:.3f}" for credit in (own[0], own[-1]) for name in ("norm", "r")]
        body.append([Entry(silo), Entry(f"{own[0]['j']:.3f}"), *(Entry(text) for text in ends)])
    columns = ("silo", "J", "first ‖Δ‖", "first r", "last ‖Δ‖", "last r")
    return [figure, Table(columns, body, caption=f"What r is made of (seed {chosen.seed})")]


def silo_bars(rows: Sequence[Row], methods: Sequence[str], what: str) -> list[Block]:
    """Mean AP of each silo's own edges."""
    groups: dict[str, dict[str, float | None]] = {}
    for method in methods:
        found: dict[str, list[float | None]] = {}
        for _, record in where(rows, method=method):
            for silo, figures in record.outcome.get("per_silo", {}).items():
                if silo != "all":
                    found.setdefault(silo, []).append(figures["ap"])
        for silo, values in sorted(found.items()):
            groups.setdefault(silo, {})[title(method)] = summarise(values).mean
    return [Figure(bars(f"AP per silo: {what}", groups, "AP"), "Mean over seeds.")] if groups else []
