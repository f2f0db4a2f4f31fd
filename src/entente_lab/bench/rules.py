"""`bench rules`: every aggregation rule and every option of Entente's, for several K, without an attacker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from entente.config import Experiment
from entente_lab.bench.cells import Cell, Label, Row
from entente_lab.bench.datasets import REAL, SMALL, rounds
from entente_lab.bench.document import Block, Command, Document, Entry, Heading, Paragraph, Table
from entente_lab.bench.events import Prepared
from entente_lab.bench.methods import AGGREGATION, LAB_RULE, RULES, change, title
from entente_lab.bench.paper import DIRECTED
from entente_lab.bench.request import Finished, Request, execute
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

GRID = "rules"
KS = (3, 5, 10)
QUICK_K = (5,)
RECORDED_K: Mapping[str, int] = {"lanl-replay": 16}
"""K of the recorded table where it is not five: the block model leaves five silos of the replay at 16."""
COMPANY = SMALL

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "fedavg": {AGGREGATION + "rule": "fedavg"},
    "fedavg-n": {AGGREGATION + "rule": "fedavg-n"},
    "fedprox": {AGGREGATION + "rule": "fedprox"},
    "fedopt": {AGGREGATION + "rule": "fedopt"},
    "entente": {},
    "entente-ub": {AGGREGATION + "rule": "entente-ub"},
    "entente, rows of holders": {AGGREGATION + "rows": "holders"},
    "entente, M = 5": {AGGREGATION + "adaptive": False},
    "entente, M twice the norms": {AGGREGATION + "rule": LAB_RULE, AGGREGATION + "adaptive_factor": 2.0},
    "entente, M per component": {AGGREGATION + "rule": LAB_RULE, AGGREGATION + "scope": "component"},
    "entente, M per table": {AGGREGATION + "rule": LAB_RULE, AGGREGATION + "scope": "tables"},
    "entente, row cap 2": {AGGREGATION + "row_cap": 2.0},
    "entente, J = 1": {AGGREGATION + "rule": LAB_RULE, AGGREGATION + "sketch": False},
    "median": {AGGREGATION + "rule": "median"},
    "trimmed mean": {AGGREGATION + "rule": "trimmed-mean"},
    "krum": {AGGREGATION + "rule": "krum"},
    "multi-krum": {AGGREGATION + "rule": "multi-krum"},
    "geometric median": {AGGREGATION + "rule": "geometric-median"},
    "centred clipping": {AGGREGATION + "rule": "centred-clipping"},
    "local-only": {"mode": "local-only"},
    "non-fl": {"mode": "non-fl"},
}
"""Row of the table -> what it changes in the default experiment."""

MAIN = "entente"
OTHERS = tuple(name for name, changes in VARIANTS.items() if MAIN not in name and "mode" not in changes)
"""Rules that are no form of Entente's."""


def run(request: Request) -> Finished:
    """Run the rules on a simulated company, and on the data sets that `sources` names."""
    cells, facts = plan(request)
    return execute(request, GRID, cells, facts, draw)


def plan(request: Request) -> tuple[list[Cell], dict[str, Any]]:
    """Seeds are the outermost loop, so that an interrupted table is whole for fewer seeds."""
    names = request.narrowed("dataset", [COMPANY, *(name for name in REAL if name in request.sources)])
    ks = {
        name: QUICK_K if request.quick else (RECORDED_K.get(name, 5),) if request.recorded else KS
        for name in names
    }
    wanted = request.narrowed("k", sorted({k for group in ks.values() for k in group}))
    data = [request.library.prepare(name, k) for name in names for k in ks[name] if k in wanted]
    cells = [
        Cell(
            change(base(prepared, seed), changes),
            prepared.hash,
            labels_of(prepared, variant, seed),
            DIRECTED.options,
        )
        for seed in range(request.seeds)
        for prepared in data
        for variant, changes in VARIANTS.items()
    ]
    cells += [
        Cell(
            method.apply(base(prepared, 0)),
            prepared.hash,
            labels_of(prepared, method.name, 0),
            DIRECTED.options,
        )
        for prepared in data
        for method in RULES
    ]
    facts = {
        "command": request.command,
        "seeds": request.seeds,
        "data": [prepared.facts() for prepared in data],
    }
    return cells, facts


def base(prepared: Prepared, seed: int) -> Experiment:
    """The default experiment, as long as a grid of hundreds of cells can have it."""
    return change(DIRECTED.experiment(prepared, seed), {"federation.rounds": rounds(prepared.events.name)})


def labels_of(prepared: Prepared, variant: str, seed: int) -> dict[str, Label]:
    return {"dataset": prepared.events.name, "k": prepared.k, "rule": variant, "seed": seed}


FEW = (
    "Two silos are left: median and trimmed mean are their mean, which is FedAVG, and Multi-Krum is Krum. "
    "What robust rules cost among many silos does not show here."
)

# ---- the page ------------------------------------------------------------------------------


def draw(rows: Sequence[Row], facts: Mapping[str, Any]) -> Document:
    blocks: list[Block] = [
        Paragraph(
            "Euler with our default settings but fewer rounds, nobody cheats; AP and AUC in percent, mean ± "
            f"standard deviation over {facts['seeds']} seeds. Differences are Entente's AP minus the row's, "
            "seed by seed, in percent points with a 95 % interval. Baselines have no seed."
        ),
        Command(str(facts["command"])),
    ]
    for dataset in distinct(rows, "dataset"):
        described = [item for item in facts["data"] if item["dataset"] == dataset]
        silos = "; ".join(f"K = {item['k']}: {item['split']}" for item in described)
        blocks += [
            Heading(dataset),
            Paragraph(f"{described[0]['description']}. {rounds(str(dataset))} rounds. Silos: {silos}."),
            *(Paragraph(FEW) for item in described if len(item.get("silos", ())) == 2),
        ]
        for k in distinct(where(rows, dataset=dataset), "k"):
            part = where(rows, dataset=dataset, k=k)
            blocks += [table(part, k), alert_table(part, "rule", f"What an analyst would meet, K = {k}")]
    failed = failures(rows)
    if failed is not None:
        blocks += [Heading("Failed cells"), failed]
    return Document("Aggregation rules without an attacker", blocks)


def table(rows: Sequence[Row], k: int) -> Table:
    """All rules for one K; those that federate compete for the marks."""
    variants = distinct(rows, "rule")
    found = {figure: {v: summary(where(rows, rule=v), figure) for v in variants} for figure in ("ap", "auc")}
    same = twins(rows, "rule")
    federated = [v for v in variants if v in VARIANTS and "mode" not in VARIANTS[v] and v not in same]
    ranks = {figure: marks({v: values[v].mean for v in federated}) for figure, values in found.items()}
    body = []
    for variant in variants:
        entries = [Entry(title(variant) if variant not in VARIANTS else variant)]
        if variant in same:
            body.append([*entries, Entry(f"= {same[variant]}"), *(Entry("") for _ in range(3))])
            continue
        entries += [percent(values[variant], ranks[f].get(variant, "")) for f, values in found.items()]
        compared = versus(rows, {"rule": MAIN}, {"rule": variant}, "ap")
        own = variant == MAIN or MAIN not in variants or variant not in VARIANTS
        entries += [Entry("" if own else interval(compared)), Entry("" if own else compared.verdict)]
        body.append(entries)
    columns = ("rule", "AP", "AUC", "Entente − it, AP [95 %]", "Entente is")
    return Table(
        columns, body, caption=f"K = {k}" + ("; = a rule: the same model, bit for bit" if same else "")
    )
