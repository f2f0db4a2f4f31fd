"""`bench similarity`: does J matter? Forms of J, of r and of the choice of a round, with Euler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from entente.federation.aggregators.entente import EntenteSettings
from entente_lab.bench.behaviour.methods import MAIN, SIMILARITY
from entente_lab.bench.cells import Cell, Label, Row
from entente_lab.bench.datasets import REAL, SMALL, of_seed, rounds, split_seed
from entente_lab.bench.document import Block, Command, Document, Entry, Heading, Mark, Paragraph, Table
from entente_lab.bench.methods import AGGREGATION, LAB_RULE, change
from entente_lab.bench.paper import DIRECTED
from entente_lab.bench.request import Finished, Request, execute
from entente_lab.bench.tables import distinct, failures, interval, percent, summary, versus, where

GRID = "similarity"
KS, QUICK_K = (3, 5, 10), (3,)
COMPANY = SMALL
MARKS: Mapping[str, Mark] = {"worse": "bad", "better": "best"}
RIVALS = ("fedavg", "fedprox", "fedopt", "fedavg-n")

FORMS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    **{name: (line.changes, {"model": "within"} if line.within else {}) for name, line in SIMILARITY.items()},
    **{name: ({AGGREGATION + "rule": name}, {}) for name in RIVALS},
    "rows of holders": ({AGGREGATION + "rows": "holders"}, {}),
    "rows shrunk half way": (
        {AGGREGATION + "rule": LAB_RULE, AGGREGATION + "rows": "holders", AGGREGATION + "row_shrinkage": 0.5},
        {},
    ),
}
"""Line -> what it changes in the default experiment, and what its cell does otherwise."""


def run(request: Request) -> Finished:
    """Every seed is a company of its own, which no other table has, and the seed of its training."""
    cells, facts = plan(request)
    return execute(request, GRID, cells, facts, draw)


def plan(request: Request) -> tuple[list[Cell], dict[str, Any]]:
    names = request.narrowed("dataset", [COMPANY, *(name for name in REAL if name in request.sources)])
    ks = request.narrowed("k", QUICK_K if request.quick else KS)
    forms = request.narrowed("form", list(FORMS))
    seeds = range(request.first_seed, request.first_seed + request.seeds)
    cells, described = [], []
    for seed in seeds:
        for prepared in (request.library.prepare(of_seed(name, seed), k) for name in names for k in ks):
            name = split_seed(prepared.events.name)[0]
            described.append(prepared.facts() | {"dataset": name})
            base = change(DIRECTED.experiment(prepared, seed), {"federation.rounds": rounds(name)})
            for form in forms:
                changes, options = FORMS[form]
                labels: dict[str, Label] = {"dataset": name, "k": prepared.k, "form": form, "seed": seed}
                cells.append(
                    Cell(change(base, changes), prepared.hash, labels, {**DIRECTED.options, **options})
                )
    return cells, {"command": request.command, "seeds": list(seeds), "data": described}


# ---- the page ------------------------------------------------------------------------------


def draw(rows: Sequence[Row], facts: Mapping[str, Any]) -> Document:
    blocks: list[Block] = [
        Paragraph(
            "Euler with our default settings but fewer rounds, nobody cheats. Every seed is another company, "
            "which no other table uses, and the seed of its training. AP in percent, mean ± standard "
            "deviation; differences are paired over seeds, in percent points with a 95 % interval. c1·J in r "
            "is the mean share of the sketch in a contribution."
        ),
        Command(str(facts["command"])),
    ]
    for dataset in distinct(rows, "dataset"):
        blocks.append(Heading(str(dataset)))
        for k in distinct(where(rows, dataset=dataset), "k"):
            blocks.append(table(where(rows, dataset=dataset, k=k), k))
    failed = failures(rows)
    if failed is not None:
        blocks += [Heading("Failed cells"), failed]
    return Document("Does J matter?", blocks)


def table(rows: Sequence[Row], k: int) -> Table:
    body = []
    for form in distinct(rows, "form"):
        part = where(rows, form=form)
        entries = [Entry(form), percent(summary(part, "ap")), percent(summary(part, "auc")), share(part)]
        for other in (MAIN, "fedavg", "fedavg-n"):
            found = versus(rows, {"form": form}, {"form": other}, "ap")
            mark = MARKS.get(found.verdict, "")
            entries.append(Entry("") if form == other else Entry(interval(found), mark))
        body.append(entries)
    seeds = len(distinct(rows, "seed"))
    columns = ("form", "AP", "AUC", "c1·J in r", "− Entente, AP", "− FedAVG, AP", "− FedAVG-N, AP")
    return Table(columns, body, caption=f"K = {k}, {seeds} seeds")


def share(rows: Sequence[Row]) -> Entry:
    """How much of r comes from J, over all rounds and silos; none for a rule without J or without r."""
    found = [
        EntenteSettings().c1 * credit["j"] / credit["r"]
        for _, record in rows
        if record.experiment["federation"]["aggregation"]["rule"] in ("entente", LAB_RULE)
        for entry in record.outcome.get("rounds", ())
        for credit in entry["silos"].values()
        if credit.get("j") is not None and credit.get("r")
    ]
    return Entry(f"{100 * float(np.mean(found)):.0f} %" if found else "–")
