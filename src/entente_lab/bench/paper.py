"""`bench paper`: methods x K x detector x data set, over seeds, beside the paper's own numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from entente.config import Experiment
from entente_lab.bench.cells import Cell, Label, Row
from entente_lab.bench.datasets import MADE_UP, SMALL
from entente_lab.bench.document import Block, Command, Document, Entry, Heading, Paragraph, Table
from entente_lab.bench.drawings import contribution_curves, precision_curves, silo_bars, silo_blocks
from entente_lab.bench.events import Prepared
from entente_lab.bench.methods import (
    AGGREGATION,
    BEYOND,
    LINK_RULES,
    METHODS,
    PAPER,
    RIVALS,
    RULES,
    change,
    title,
)
from entente_lab.bench.published.numbers import published
from entente_lab.bench.request import Finished, Request, execute
from entente_lab.bench.statistics import summarise
from entente_lab.bench.tables import (
    alert_table,
    distinct,
    failures,
    interval,
    marks,
    percent,
    summary,
    twins,
    versus,
    where,
)

GRID = "paper"
QUICK_K = (4,)
QUICK_SHARE, RECORDED_SHARE = 0.1, 0.2
"""Share of the events that the quick and the recorded table give to link prediction at most."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A detector as the paper trains and tests it."""

    name: str
    title: str
    changes: Mapping[str, Any]
    options: Mapping[str, Any]
    as_paper: bool = True
    """With the paper's learning rate for the data set; else with our own rate and rounds."""

    @property
    def links(self) -> bool:
        return bool(self.options["task"] == "link-prediction")

    def experiment(self, prepared: Prepared, seed: int, share: float = 1.0) -> Experiment:
        """The federated experiment; `share` takes only the first part of the events for link prediction."""
        events = prepared.events
        own = {"detector.lr": events.lr} if self.as_paper else {"federation.rounds": events.rounds}
        data = prepared.link_data(share) if self.links else {}
        base = prepared.experiment(detector={"name": self.name.partition("-")[0]}, seed=seed)
        return change(base, {**self.changes, **own, **data})


PAPERS = {"federation.epochs": 1, AGGREGATION + "adaptive": False}
JBEIL = {
    **PAPERS,
    "federation.rounds": 5,
    "federation.patience": 5,
    "detector.name": "lab-jbeil",
    "detector.validation_events": 0.15 / 0.85,
}
PUBLISHED_EULER = {
    **PAPERS,
    "federation.rounds": 30,
    "federation.patience": 30,  # as long as the run: a shorter one returned the untrained model
    "data.validation": 0.05,  # Euler's own: the paper's EPM of 80 and 1513 are 95 % of 84 and 1592 windows
    "detector.name": "lab-euler",
    "detector.decoder": "inner",
    "detector.task": "detection",
    "detector.advance": "windows",
}
EULER = Setting("euler", "Euler as published", PUBLISHED_EULER, {"task": "detection"})
DIRECTED = Setting("euler-mlp", "Euler, our default", {}, {"task": "detection"}, as_paper=False)
TRANSDUCTIVE = Setting("jbeil-transductive", "Jbeil, transductive", JBEIL, {"task": "link-prediction"})
INDUCTIVE = Setting(
    "jbeil-inductive",
    "Jbeil, inductive",
    {**JBEIL, "detector.hidden_hosts": 0.3},
    {"task": "link-prediction", "inductive": True},
)
SETTINGS = {setting.name: setting for setting in (EULER, DIRECTED, TRANSDUCTIVE, INDUCTIVE)}

Plans = Mapping[str, Mapping[str, tuple[int, ...]]]
KS = (2, 3, 4, 5)
JBEILS = ("jbeil-transductive", "jbeil-inductive")
PLANS: Plans = {
    "simulated": dict.fromkeys(SETTINGS, KS),
    "lanl-replay": dict.fromkeys(SETTINGS, KS),
    "lanl": dict.fromkeys(SETTINGS, KS),
    "optc": {"euler": KS},
    "pivoting": dict.fromkeys(JBEILS, (2, 3, 4)),
}
"""Data set -> detector -> the paper's K."""
RECORDED: Plans = {
    SMALL: {"euler": KS, "euler-mlp": KS, **dict.fromkeys(JBEILS, (4,))},
    "lanl-replay": {"euler-mlp": (4,)},
}
"""What the page in docs is made of."""


def run(request: Request) -> Finished:
    """Run the table: on the simulated company, and on every data set that `sources` names."""
    cells, facts = plan(request)
    return execute(request, GRID, cells, facts, draw)


def plan(request: Request) -> tuple[list[Cell], dict[str, Any]]:
    """All cells; seeds are the outermost loop, so that an interrupted table is whole for fewer seeds."""
    plans = RECORDED if request.recorded else PLANS
    names = [name for name in plans if name in request.sources or name in MADE_UP]
    ks = {
        (name, setting): QUICK_K if request.quick else plans[name][setting]
        for name in request.narrowed("dataset", names)
        for setting in plans[name]
    }
    settings = request.narrowed("detector", list(dict.fromkeys(setting for _, setting in ks)))
    wanted = request.narrowed("k", sorted({k for group in ks.values() for k in group}))
    chosen = [
        (name, setting, k) for (name, setting), group in ks.items() if setting in settings for k in group
    ]
    data: dict[tuple[str, int], Prepared] = {
        (name, k): request.library.prepare(name, k)
        for name, k in dict.fromkeys((name, k) for name, _, k in chosen if k in wanted)
    }
    most = QUICK_SHARE if request.quick else RECORDED_SHARE if request.recorded else 1.0
    share = min(request.link_share, most)
    cells = [
        cell
        for seed in range(request.seeds)
        for name, setting, k in chosen
        if (name, k) in data
        for cell in cells_of(SETTINGS[setting], data[name, k], seed, share)
    ]
    facts = {
        "command": request.command,
        "quick": request.quick,
        "seeds": request.seeds,
        "link_share": share,
        "data": [prepared.facts() for prepared in data.values()],
    }
    return cells, facts


def cells_of(setting: Setting, prepared: Prepared, seed: int, share: float) -> list[Cell]:
    found = []
    beyond = () if setting.as_paper else BEYOND
    for method in (*PAPER, *beyond, *(LINK_RULES if setting.links else RULES)):
        if method.kind == "rule" and seed > 0 and not setting.links:
            continue  # nothing about it is random
        experiment = method.apply(setting.experiment(prepared, seed, share))
        labels: dict[str, Label] = {
            "dataset": prepared.events.name,
            "detector": setting.name,
            "k": prepared.k,
            "method": method.name,
            "seed": seed,
        }
        found.append(Cell(experiment, prepared.hash, labels, setting.options))
    return found


# ---- the page ------------------------------------------------------------------------------


def draw(rows: Sequence[Row], facts: Mapping[str, Any]) -> Document:
    blocks: list[Block] = [
        Paragraph(
            f"AP and AUC in percent, mean ± standard deviation over {facts['seeds']} seeds, the same for "
            "every method. Best and second best of the federated methods are marked. Baselines "
            "have no seed."
        ),
        Command(str(facts["command"])),
    ]
    for dataset in distinct(rows, "dataset"):
        for detector in distinct(where(rows, dataset=dataset), "detector"):
            blocks += section(where(rows, dataset=dataset, detector=detector), dataset, detector, facts)
    failed = failures(rows)
    if failed is not None:
        blocks += [Heading("Failed cells"), failed]
    return Document("Methods compared", blocks)


def section(rows: Sequence[Row], dataset: str, detector: str, facts: Mapping[str, Any]) -> list[Block]:
    described = [item for item in facts["data"] if item["dataset"] == dataset]
    blocks: list[Block] = [Heading(f"{dataset}: {SETTINGS[detector].title}")]
    if described:
        silos = "; ".join(f"K = {d['k']}: {d['split']}" for d in described)
        share = facts.get("link_share", 1.0) if SETTINGS[detector].links else 1.0
        partly = f" Only the first {100 * share:g} % of the events." if share < 1.0 else ""
        blocks.append(Paragraph(f"{described[0]['description']}. Silos: {silos}.{partly}"))
        blocks += [
            block for one in described if one["k"] in distinct(rows, "k") for block in silo_blocks(one)
        ]
    blocks.append(results_table(rows, dataset, detector))
    blocks += theorem(rows)
    for k in distinct(rows, "k"):
        part = where(rows, k=k)
        if where(part, method="entente"):
            blocks.append(comparison_table(part, k))
        if not SETTINGS[detector].links:
            blocks.append(alert_table(part, "method", f"What an analyst would meet, K = {k}"))
        blocks += per_silo_table(part, k)
        what = f"{dataset}, {SETTINGS[detector].title}, K = {k}"
        blocks += silo_bars(part, ("entente", "fedavg", "local-only", "non-fl"), what)
        blocks += precision_curves(part, what)
        blocks += contribution_curves(where(part, method="entente"), what)
    return blocks


def results_table(rows: Sequence[Row], dataset: str, detector: str) -> Table:
    ks, methods = distinct(rows, "k"), distinct(rows, "method")
    columns = ["method"]
    body: dict[str, list[Entry]] = {method: [Entry(title(method))] for method in methods}
    for k in ks:
        theirs = {method: published(dataset, detector, method, k) for method in methods}
        same = twins(where(rows, k=k), "method")
        for figure in ("ap", "auc"):
            found = {m: summary(where(rows, k=k, method=m), figure) for m in methods}
            rivals = [m for m in methods if METHODS[m].kind == "federated" and m not in same]
            ranks = marks({m: found[m].mean for m in rivals})
            columns.append(f"K={k} {figure.upper()}")
            for method in methods:
                shown = percent(found[method], ranks.get(method, ""))
                body[method].append(Entry(f"= {title(same[method])}") if method in same else shown)
            if any(theirs.values()):
                columns.append("paper")
                for method in methods:
                    number = theirs[method]
                    body[method].append(Entry("" if number is None else f"{getattr(number, figure):.2f}"))
        if SETTINGS[detector].links:
            columns.append(f"K={k} AP, any host")
            for method in methods:
                body[method].append(percent(summary(where(rows, k=k, method=method), "ap_any")))
    equal = any(entry.text.startswith("= ") for entries in body.values() for entry in entries)
    caption = "= a method: the same model, bit for bit" if equal else ""
    return Table(columns, list(body.values()), caption=caption)


def theorem(rows: Sequence[Row]) -> list[Block]:
    """Theorem 2's condition for the runs of Entente."""
    body = []
    for k in distinct(rows, "k"):
        part = where(rows, k=k, method="entente")
        found = {
            name: summary(part, name).mean
            for name in ("gradient_norm", "bound_needed", "bound_least", "update_norm")
        }
        if None in found.values():
            continue
        holds = (found["bound_least"] or 0.0) >= (found["bound_needed"] or 0.0)
        entries = [Entry("–" if value is None else f"{value:.3g}") for value in found.values()]
        body.append([Entry(f"K = {k}"), *entries, Entry("holds" if holds else "does not hold")])
    if not body:
        return []
    said = (
        "Theorem 2 asks for M ≥ ηEG. G is the largest gradient norm of the run, E the local steps per round. "
        "The theorem is about plain gradient steps; with Adam an update may be longer than ηEG, so the "
        "longest one that was sent stands beside it."
    )
    columns = ("Entente, means over seeds", "G", "ηEG", "smallest M", "longest update", "M ≥ ηEG")
    return [Paragraph(said), Table(columns, body)]


def comparison_table(rows: Sequence[Row], k: int) -> Table:
    """Entente against each rival, seed by seed."""
    body = []
    for rival in (name for name in RIVALS if where(rows, method=name)):
        entries = [Entry(f"Entente − {title(rival)}")]
        for figure in ("ap", "auc"):
            found = versus(rows, {"method": "entente"}, {"method": rival}, figure)
            entries += [Entry(interval(found)), Entry(found.verdict)]
        body.append(entries)
    columns = ("difference, percent points", "AP [95 %]", "Entente is", "AUC [95 %]", "Entente is")
    return Table(columns, body, caption=f"Paired over seeds, K = {k}")


def per_silo_table(rows: Sequence[Row], k: int) -> list[Block]:
    """The global model, the central one and each silo's own, on each silo's edges."""
    methods = [name for name in ("entente", "non-fl", "local-only") if where(rows, method=name)]
    found: dict[str, dict[str, list[float | None]]] = {}
    edges: dict[str, Any] = {}
    for method in methods:
        for _, record in where(rows, method=method):
            for silo, figures in record.outcome.get("per_silo", {}).items():
                if silo != "all":
                    found.setdefault(silo, {}).setdefault(method, []).append(figures["ap"])
                    edges[silo] = figures.get("positives")
    if not found:
        return []
    body = []
    for silo, per_method in sorted(found.items()):
        means = {m: summarise(per_method.get(m, [])) for m in methods}
        ranks = marks({m: means[m].mean for m in methods})
        alone = len(methods) == 1
        shown = [percent(means[m], "best" if ranks[m] == "best" and not alone else "") for m in methods]
        body.append([Entry(silo), Entry(str(edges[silo])), *shown])
    columns = ("silo", "malicious edges", *(f"{title(m)} AP" for m in methods))
    return [Table(columns, body, caption=f"Per silo, K = {k}")]
