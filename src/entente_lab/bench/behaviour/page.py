"""The page of `bench behaviour`: mean and interval over seeds, each seed another company or replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from entente_lab.bench.behaviour.methods import BASELINES, PARTS, POOLED, reference
from entente_lab.bench.cells import Row
from entente_lab.bench.document import Block, Command, Document, Entry, Figure, Heading, Paragraph, Table
from entente_lab.bench.plots import bars, lines
from entente_lab.bench.statistics import Summary, half_width
from entente_lab.bench.tables import by_seed, distinct, failures, figure, summary, twins, versus, where

COLUMNS = {
    "ap": "AP",
    "recall_at_10": "recall@10",
    "per_source_window_ap": "AP (source, window)",
    "silo_mean": "AP silos, mean",
    "silo_worst": "worst",
    "incident_share": "red edges in incidents",
    "raised_share": "raised",
    "ap_lift": "AP ÷ prevalence",
    "precision_at_half_recall": "precision at half recall",
    "false_per_day_at_half_recall": "false a day there",
    "best_round": "round chosen",
}
DIGITS = {"ap_lift": 0, "false_per_day_at_half_recall": 1, "epsilon": 1, "best_round": 1}
DRAWN = ("entente", "fedavg", "fedavg-n", "median", "local-only", "pooled", "evidence-young")
WORDS = {
    "clean": "All methods, nobody cheats",
    "cheats": "Silos that cheat, of four",
    "noise": "Central noise",
    "features": "Without a family of features",
    "similarity": "Does J matter?",
    "injection": "Without a dimension of the injected campaigns",
}


def draw(rows: Sequence[Row], facts: Mapping[str, Any]) -> Document:
    blocks: list[Block] = [
        Paragraph(
            f"The behaviour detector, {facts['rounds']} rounds; every seed is another simulated company or "
            "another replay, and the seed of its training. Mean ± half of the 95 % interval of the mean; "
            "differences are paired over seeds. At ten alerts a day and silo: the share of the attack's "
            "edges that are raised, and of those that an incident holds (raised, or of a source that acted "
            "in, or was reached by, a raised incident within 12 hours before). Round chosen: the mean over "
            "seeds of the round whose model is taken; round 0 is the base model as it was shipped."
        ),
        Command(str(facts["command"])),
    ]
    for dataset in distinct(rows, "dataset"):
        blocks.append(Heading(str(dataset)))
        for part in distinct(where(rows, dataset=dataset), "part"):
            found = where(rows, dataset=dataset, part=part)
            blocks.append(Heading(WORDS[part], 3))
            for k in sorted(distinct(found, "k"), key=lambda k: -1 if k is None else k):
                blocks.append(table(where(found, k=k), part, k, _silos(facts, dataset, k)))
        blocks += drawings(where(rows, dataset=dataset, part="clean"), str(dataset))
    failed = failures(rows)
    if failed is not None:
        blocks += [Heading("Failed cells"), failed]
    return Document("The behaviour detector, measured", blocks)


def drawings(rows: Sequence[Row], dataset: str) -> list[Block]:
    """AP over K of every method, and of silos alone and together; nothing for a single K."""
    ks = sorted(k for k in distinct(rows, "k") if k is not None)
    if not ks:
        return []
    means = {
        name: {k: {m: summary(where(rows, k=k, method=m), name).mean for m in DRAWN} for k in ks}
        for name in ("ap", "silo_mean", "silo_worst")
    }
    found: list[Block] = []
    if len(ks) > 1:
        curves = {
            method: (ks, [_or_nan(means["ap"][k][method]) for k in ks])
            for method in DRAWN
            if any(means["ap"][k][method] is not None for k in ks)
        }
        found.append(Figure(lines(f"AP over the number of silos: {dataset}", curves, "K", "AP", log_x=True)))
    for name, words in (("silo_mean", "mean over silos"), ("silo_worst", "worst silo")):
        groups = {f"K = {k}": means[name][k] for k in ks}
        found.append(Figure(bars(f"AP, {words}: {dataset}", groups, "AP")))
    return found


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _silos(facts: Mapping[str, Any], dataset: str, k: int) -> str:
    counts = sorted({item["silos"] for item in facts["data"] if (item["dataset"], item["k"]) == (dataset, k)})
    splits = sorted({item["split"] for item in facts["data"] if (item["dataset"], item["k"]) == (dataset, k)})
    real = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}" if counts else "?"
    return f"{real} silos ({splits[0] if len(splits) == 1 else 'block model'})"


def table(rows: Sequence[Row], part: str, k: int, silos: str) -> Table:
    """The methods of one part for one K, each with the line that it is compared with minus itself."""
    order = (*PARTS[part], POOLED, *BASELINES)
    methods = sorted(distinct(rows, "method"), key=lambda name: order.index(name) if name in order else -1)
    shown = {name: title for name, title in COLUMNS.items() if _known(rows, name)}
    if part == "noise":
        shown = {"epsilon": "ε", **shown}
    same = twins(rows, "method")
    marked = (
        "better" if part in ("cheats", "noise") else "worse"
    )  # than its line: harm done, or Entente's lag
    body = []
    for method in methods:
        own, main = where(rows, method=method), reference(part, method)
        entries = [Entry(f"{method} = {same[method]}" if method in same else method)]
        entries += [
            Entry(spread(summary(own, name), [figure(r, name) for _, r in own], name)) for name in shown
        ]
        for name in ("ap", "silo_worst"):
            compared = versus(rows, {"method": main}, {"method": method}, name)
            text = "" if method == main or compared.difference is None else _difference(compared)
            entries.append(Entry(text, "bad" if text and compared.verdict == marked else ""))
        body.append(entries)
    first = {"cheats": "nobody cheats", "noise": "no noise"}.get(part, reference(part, methods[0]))
    seeds = len(by_seed(where(rows, method=methods[0]), "ap"))
    return Table(
        ("method", *shown.values(), f"{first} − it, AP", f"{first} − it, worst silo"),
        body,
        caption=f"K = {k}, {silos}, {seeds} seeds",
    )


def _known(rows: Sequence[Row], name: str) -> bool:
    return any(figure(record, name) is not None for _, record in rows)


def spread(found: Summary, values: Sequence[float | None], name: str) -> str:
    """Mean with its interval, in the digits that the figure deserves."""
    if found.mean is None:
        return "–"
    digits = DIGITS.get(name, 3)
    known = [value for value in values if value is not None]
    text = f"{found.mean:.{digits}f}"
    if len(known) > 1 and name in ("ap", "recall_at_10", "silo_mean", "silo_worst", "per_source_window_ap"):
        half = half_width(known)
        text += f" ± {half:.{digits}f}"
    return text


def _difference(compared: Any) -> str:
    text = f"{compared.difference:+.3f}"
    if compared.low is None:
        return text
    return f"{text} [{compared.low:+.3f}, {compared.high:+.3f}]"
