"""Recorded cells -> a tidy Parquet table, and the tables that people read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from entente.artifacts import replacing, write_text
from entente_lab.bench.cells import Label, Record, Row
from entente_lab.bench.document import Document, Entry, Mark, Table, to_html, write_markdown
from entente_lab.bench.methods import title
from entente_lab.bench.statistics import Comparison, Summary, compare, ranked, summarise

PERCENT = 100.0


def tidy(rows: Sequence[Row]) -> pa.Table:
    """One row per cell: labels, status, figures; None where a figure is missing."""
    names: dict[str, None] = {}
    for labels, record in rows:
        names.update(dict.fromkeys((*labels, *record.values)))
    flat = [
        {
            **dict.fromkeys(names),
            **labels,
            **record.values,
            "status": record.status,
            "error": record.error,
            "seconds": record.seconds,
            "peak_memory_mb": record.peak_memory_mb,
            "key": record.key,
            "data_hash": record.data,
            "code": record.versions.get("code"),
        }
        for labels, record in rows
    ]
    return pa.Table.from_pylist(flat)


def silo_table(rows: Sequence[Row]) -> pa.Table:
    """One row per cell and silo, for cells that have figures per silo."""
    flat: list[dict[str, Any]] = []
    for labels, record in rows:
        for silo, figures in record.outcome.get("per_silo", {}).items():
            plain = {k: v for k, v in figures.items() if not isinstance(v, dict)}
            flat.append({**labels, "silo": silo, **plain})
    return pa.Table.from_pylist(flat)


def write_outputs(folder: Path, grid: str, rows: Sequence[Row], document: Document) -> list[Path]:
    """Write GRID.parquet, GRID.md and GRID.html (and GRID.silos.parquet) whole; give their paths."""
    import pyarrow.parquet as pq

    paths = []
    for name, table in ((grid, tidy(rows)), (f"{grid}.silos", silo_table(rows))):
        if table.num_rows:
            paths.append(folder / f"{name}.parquet")
            with replacing(paths[-1]) as temporary:
                pq.write_table(table, temporary)
    paths += write_markdown(folder / f"{grid}.md", document)
    paths.append(folder / f"{grid}.html")
    write_text(paths[-1], to_html(document))
    return paths


def where(rows: Iterable[Row], **wanted: Label) -> list[Row]:
    """The rows whose labels have these values."""
    return [row for row in rows if all(row[0].get(name) == value for name, value in wanted.items())]


def distinct(rows: Iterable[Row], name: str) -> list[Any]:
    """Values of a label, in the order of the plan."""
    return list(dict.fromkeys(labels[name] for labels, _ in rows if name in labels))


def figure(record: Record, name: str) -> float | None:
    """A figure of a finished cell; None for a failed one."""
    return record.values.get(name) if record.status == "done" else None


def by_seed(rows: Iterable[Row], name: str) -> dict[int, float | None]:
    """A figure per seed."""
    return {record.seed: figure(record, name) for _, record in rows}


def summary(rows: Iterable[Row], name: str) -> Summary:
    return summarise([figure(record, name) for _, record in rows])


def versus(
    rows: Sequence[Row], ours: Mapping[str, Label], theirs: Mapping[str, Label], name: str
) -> Comparison:
    """Two sets of rows, given by labels, compared seed by seed."""
    return compare(by_seed(where(rows, **ours), name), by_seed(where(rows, **theirs), name))


def twins(rows: Sequence[Row], label: str) -> dict[str, str]:
    """Values of a label whose models are bit for bit those of an earlier one, for every seed: {it: earlier}.

    With one full-batch epoch FedProx is FedAVG, and without an update longer than M Entente is Entente-UB.
    An ensemble has the bits of its model and other scores, so that it is nobody's twin.
    """
    digests: dict[str, dict[int, tuple[str, Any] | None]] = {}
    for labels, record in rows:
        model = record.outcome.get("model") if record.status == "done" else None
        known = None if model is None else (model, record.experiment.get("detection"))
        digests.setdefault(str(labels[label]), {})[record.seed] = known
    found: dict[str, str] = {}
    for name, models in digests.items():
        for earlier, others in digests.items():
            if earlier == name:
                break
            if models == others and None not in models.values() and earlier not in found:
                found[name] = earlier
                break
    return found


def percent(found: Summary, mark: Mark = "") -> Entry:
    """Mean ± standard deviation in percent, failures included."""
    if found.mean is None:
        return Entry("failed" if found.failed else "–", "bad" if found.failed else "")
    text = f"{PERCENT * found.mean:.2f}"
    if found.std is not None:
        text += f" ± {PERCENT * found.std:.2f}"
    if found.failed:
        text += f" ({found.failed} failed)"
    return Entry(text, mark)


def marks(means: Mapping[str, float | None]) -> dict[str, Mark]:
    """Which names are best and second best."""
    best, second = ranked(means)
    found: dict[str, Mark] = dict.fromkeys(means, "")
    found.update(dict.fromkeys(second, "second"))
    found.update(dict.fromkeys(best, "best"))
    return found


def interval(found: Comparison) -> str:
    """A paired difference in percent points with its interval."""
    if found.difference is None:
        return "–"
    text = f"{PERCENT * found.difference:+.2f}"
    if found.low is None or found.high is None:
        return text
    return f"{text} [{PERCENT * found.low:+.2f}, {PERCENT * found.high:+.2f}]"


ALERTED = {
    "ap_lift": ("AP ÷ prevalence", 1.0, ".1f"),
    "precision_at_half_recall": ("precision at half recall, %", PERCENT, ".2f"),
    "false_per_day_at_half_recall": ("false a day there", 1.0, ".1f"),
}
UNITS = {"": "", "per_source_day_": ", (source, day)"}


def alert_table(rows: Sequence[Row], label: str, caption: str) -> Table:
    """Means over seeds of what AP does not tell, by edge and by (source, day)."""
    body = []
    for name in distinct(rows, label):
        part = where(rows, **{label: name})
        entries = [Entry(title(str(name)))]
        for unit in UNITS:
            if unit:
                entries.append(percent(summary(part, f"{unit}ap")))
            for key, (_, factor, form) in ALERTED.items():
                mean = summary(part, unit + key).mean
                entries.append(Entry("–" if mean is None else f"{factor * mean:{form}}"))
        body.append(entries)
    columns = [label]
    for unit, words in UNITS.items():
        columns += [f"AP{words}"] if unit else []
        columns += [text + words for text, _, _ in ALERTED.values()]
    return Table(columns, body, caption=caption)


def failures(rows: Sequence[Row]) -> Table | None:
    """Every failed cell with the reason, or None."""
    failed = [
        [
            Entry(", ".join(f"{k} {v}" for k, v in labels.items())),
            Entry((record.error or "").splitlines()[0] if record.error else "", "bad"),
        ]
        for labels, record in rows
        if record.status == "failed"
    ]
    return Table(("failed cell", "reason"), failed) if failed else None
