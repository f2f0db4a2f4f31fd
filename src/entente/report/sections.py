"""Sections with tables of figures; without data a section is empty and leaves no trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from entente.detection.metrics import Metrics
from entente.federation.records import RoundRecord, SiloRecord
from entente.report.data import ReportData
from entente.report.markup import Cell, amount, figure_cell, number, shape, size, table, tag, text


def section(ident: str, title: str, *content: str) -> str:
    return tag("section", tag("h2", text(title)) + "".join(content), id=ident)


def paragraph(words: str, style: str | None = "mute") -> str:
    return tag("p", text(words), class_=style)


def comparison(data: ReportData) -> str:
    rows = [
        (name, figures, "own" if name == data.method else "") for name, figures in data.all_methods().items()
    ]
    rows += [(name, figures, "baseline") for name, figures in data.baselines.items()]
    if len(rows) < 2:
        return ""
    budgets = sorted(data.overall.recall_at, key=int)
    heads = ["Method", "AP", "", "AUC", *(f"Recall@{b}" for b in budgets)]
    heads += ["Precision", "Recall", "FPR", "FDR", "Alerts/day"]
    body = []
    for name, figures, style in rows:
        label = text(name) + (" " + tag("span", "baseline", class_="tag") if style == "baseline" else "")
        ap = figures.ap
        cells = [Cell(label, name), figure_cell(ap, number(ap)), Cell(_bar(ap), ap if ap is not None else -1)]
        cells.append(_figure(figures, "auc"))
        at = figures.recall_at
        cells += [figure_cell(at.get(b), number(at.get(b), 2)) for b in budgets]
        cells += [_figure(figures, key) for key in ("precision", "recall", "fpr", "fdr")]
        rate = figures.alerts_per_day
        cells.append(figure_cell(rate, amount(rate)))
        body.append((cells, style))
    said = (
        "Baselines only remember which pairs were seen. A model that does not beat them has no "
        "reason to run. Recall@k is the share of malicious edges among the k highest scores of their window."
    )
    note = paragraph(data.note, None) if data.note else ""
    return section(
        "comparison",
        "Methods compared",
        paragraph(said),
        note,
        table("All on the same test windows", heads, body),
    )


def _figure(figures: Metrics, key: str) -> Cell:
    return figure_cell(getattr(figures, key), number(getattr(figures, key)))


def _bar(value: float | None) -> str:
    if value is None:
        return ""
    wide = max(0.0, min(1.0, value)) * 90
    track = shape("rect", x=0, y=6, width=90, height=8, rx=2, class_="track")
    filled = shape("rect", x=0, y=6, width=f"{wide:.1f}", height=8, rx=2, class_="value")
    return tag("svg", track + filled, width=90, height=20, class_="bar", aria_hidden="true")


def per_silo(data: ReportData) -> str:
    if not data.per_silo:
        return ""
    totals = _silo_totals(data.rounds)
    heads = ["Silo", "Hosts", "AP", "AUC", "Recall@10", "Alerts/day", "Malicious", "Edges"]
    heads += ["J", "Mean r", "Clipped", "Refused", "Sent", "Received", "Seconds"] if totals else []
    rows = []
    for name, figures in data.per_silo.items():
        hosts, rate = data.silo_hosts.get(name), figures.alerts_per_day
        at = figures.recall_at.get("10")
        cells = [Cell(tag("bdi", text(name)), name), figure_cell(hosts, amount(hosts))]
        cells += [_figure(figures, "ap"), _figure(figures, "auc"), figure_cell(at, number(at, 2))]
        cells.append(figure_cell(rate, amount(rate)))
        cells += [figure_cell(value, amount(value)) for value in (figures.positives, figures.edges)]
        if totals:
            cells += _federation_cells(totals.get(name, {}))
        rows.append((cells, ""))
    return section("silos", "Silos", table("What each silo saw and sent", heads, rows))


def _federation_cells(total: Mapping[str, float | None]) -> list[Cell]:
    cells = [figure_cell(total.get(key), number(total.get(key), 2)) for key in ("j", "r")]
    cells += [figure_cell(total.get(key), amount(total.get(key))) for key in ("clipped", "refused")]
    cells += [figure_cell(total.get(key), size(total.get(key))) for key in ("bytes_up", "bytes_down")]
    return [*cells, figure_cell(total.get("seconds"), amount(total.get("seconds")))]


def _silo_totals(rounds: Sequence[RoundRecord]) -> dict[str, dict[str, float | None]]:
    """Per silo over all rounds: last J, mean r, counts and sums."""
    seen: dict[str, list[SiloRecord]] = {}
    for record in rounds:
        for name, entry in record.silos.items():
            seen.setdefault(name, []).append(entry)
    totals: dict[str, dict[str, float | None]] = {}
    for name, entries in seen.items():
        accepted = [entry for entry in entries if entry.refused is None]
        r, j = _known(entry.r for entry in accepted), _known(entry.j for entry in accepted)
        totals[name] = {
            "j": j[-1] if j else None,
            "r": sum(r) / len(r) if r else None,
            "clipped": float(sum(bool(entry.clipped) for entry in entries)),
            "refused": float(sum(entry.refused is not None for entry in entries)),
        }
        for key in ("bytes_up", "bytes_down", "seconds"):
            values = _known(getattr(entry, key) for entry in entries)
            totals[name][key] = sum(values) if values else None
    return totals


def _known(values: Iterable[float | None]) -> list[float]:
    return [float(value) for value in values if value is not None]
