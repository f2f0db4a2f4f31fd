"""`bench ablation`: what each part of Entente, and each of its numbers, is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from entente.config import Experiment
from entente.federation.aggregators.entente import EntenteOptions
from entente_lab.bench.cells import Cell, Label, Row
from entente_lab.bench.datasets import REAL, SMALL
from entente_lab.bench.document import Block, Command, Document, Entry, Heading, Paragraph, Table
from entente_lab.bench.drawings import contribution_curves
from entente_lab.bench.methods import AGGREGATION, LAB_RULE, METHODS, RULES, change, title
from entente_lab.bench.paper import DIRECTED
from entente_lab.bench.published.numbers import AUGMENTATION, REFERENCE_GRAPH, Published
from entente_lab.bench.request import Finished, Request, execute
from entente_lab.bench.tables import distinct, failures, interval, percent, summary, twins, versus, where
from entente_lab.variants.on_weights import offer_rules

GRID = "ablation"
K, KS = 4, {"optc": 3}
"""Silos: four, or what the paper's table has for a data set."""
DEFAULT = "default"
BASELINES = "baselines, which have no seed"

VARIANTS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "parts": {
        DEFAULT: {},
        "ACS off": {AGGREGATION + "acs": False},
        "augmentation off": {"graph.augmentation": False},
        "norm bound off": {AGGREGATION + "rule": "entente-ub"},
        "equal weights (mean J)": {},
    },
    "reference graph, early rounds": {
        "round 3, reference graph": {"federation.rounds": 3},
        "round 3, equal": {"federation.rounds": 3},
        "round 5, reference graph": {"federation.rounds": 5},
        "round 5, equal": {"federation.rounds": 5},
    },
    "m": {f"m = {m}": {AGGREGATION + "m": m} for m in (2, 4, 10, 100)},
    "first labels": {"raw degrees": {AGGREGATION + "labels": "degree"}},
    "c1, c2": {
        f"c1 = {c1:g}, c2 = {c2:g}": {AGGREGATION + "c1": c1, AGGREGATION + "c2": c2}
        for c1, c2 in ((1.0, 0.0), (0.5, 0.5), (0.2, 0.8), (0.0, 1.0))
    },
    "omega": {f"ω = {omega:g}": {AGGREGATION + "omega": omega} for omega in (0.5, 1.0, 2.0, 10.0)},
    "M": {
        **{
            f"M = {bound:g}": {AGGREGATION + "adaptive": False, AGGREGATION + "bound": bound}
            for bound in (1.0, 5.0, 25.0)
        },
        **{
            f"M = {factor:g} typical norms": {AGGREGATION + "adaptive_factor": factor}
            for factor in (0.5, 2.0)
        },
    },
    # r = c1 * J + c2 with J = 1 and c2 = 0: every silo counts the same, FedAVG with another step length.
    "step size": {
        **{
            f"r = {r:g} for everybody": {
                AGGREGATION + "acs": False,
                AGGREGATION + "sketch": False,
                AGGREGATION + "c1": r,
                AGGREGATION + "c2": 0.0,
            }
            for r in (0.1, 0.25, 0.5, 1.0)
        },
        "Entente, r four times as large": {AGGREGATION + "c1": 3.2, AGGREGATION + "c2": 0.8},
    },
    "readings of the paper": {
        "update on weights, w = (1/K) Σ r·w": {AGGREGATION + "rule": "entente-on-weights"},
        "sum instead of mean": {AGGREGATION + "reduction": "sum"},
        "bound per component": {AGGREGATION + "scope": "component"},
        "identity rows over holders": {AGGREGATION + "rows": "holders"},
    },
}
"""Group -> variant -> what it changes in the default Entente."""

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "equal weights (mean J)": {"equal": True},
    **{f"round {n}, reference graph": {"model": "last"} for n in (3, 5)},
    **{f"round {n}, equal": {"model": "last", "equal": True} for n in (3, 5)},
}
"""What the runner does otherwise: an early round's own model, not the best one so far; the mean J for all."""

QUICK = ("parts", "reference graph, early rounds", "first labels", "step size")
RECORDED = (*QUICK, "c1, c2", "readings of the paper")
PAIRS = (
    ("round 3, reference graph", "round 3, equal"),
    ("round 5, reference graph", "round 5, equal"),
)
"""Variants that are compared with each other instead of with the default."""


def run(request: Request) -> Finished:
    """Run the variants on the simulated company, and on the data sets that `sources` names."""
    cells, facts = plan(request)
    return execute(request, GRID, cells, facts, draw)


def plan(request: Request) -> tuple[list[Cell], dict[str, Any]]:
    offer_rules()
    company = SMALL if request.recorded else "simulated"
    names = request.narrowed("dataset", [company, *(name for name in REAL if name in request.sources)])
    groups = QUICK if request.quick else RECORDED if request.recorded else tuple(VARIANTS)
    data = {name: request.library.prepare(name, KS.get(name, K)) for name in names}
    cells = []
    for seed in range(request.seeds):
        for name, prepared in data.items():
            base = METHODS["entente"].apply(DIRECTED.experiment(prepared, seed))
            for group in groups:
                for variant, changes in VARIANTS[group].items():
                    labels: dict[str, Label] = {
                        "dataset": name,
                        "group": group,
                        "variant": variant,
                        "k": prepared.k,
                        "seed": seed,
                    }
                    options = {**DIRECTED.options, **OPTIONS.get(variant, {})}
                    cells.append(Cell(variant_of(base, changes), prepared.hash, labels, options))
    for name, prepared in data.items():
        for method in RULES:
            labels = {"dataset": name, "group": BASELINES, "variant": method.name, "k": prepared.k, "seed": 0}
            experiment = method.apply(DIRECTED.experiment(prepared, 0))
            cells.append(Cell(experiment, prepared.hash, labels, DIRECTED.options))
    facts = {
        "command": request.command,
        "seeds": request.seeds,
        "data": [prepared.facts() for prepared in data.values()],
    }
    return cells, facts


def variant_of(base: Experiment, changes: Mapping[str, Any]) -> Experiment:
    """The default with some changes; a switch of the aggregation rule's is one of the lab's Entente."""
    options = (path.removeprefix(AGGREGATION) for path in changes if path.startswith(AGGREGATION))
    lab = set(options) - set(EntenteOptions.model_fields)
    return change(base, {AGGREGATION + "rule": LAB_RULE, **changes} if lab else changes)


# ---- the page ------------------------------------------------------------------------------


def draw(rows: Sequence[Row], facts: Mapping[str, Any]) -> Document:
    blocks: list[Block] = [
        Paragraph(
            f"Entente with Euler, K = {K} (OpTC: {KS['optc']}), one thing changed at a time, "
            f"{facts['seeds']} seeds. Differences are to the default, seed by seed, in percent points with a "
            "95 % interval."
        ),
        Command(str(facts["command"])),
    ]
    for dataset in distinct(rows, "dataset"):
        part = where(rows, dataset=dataset)
        blocks.append(Heading(dataset))
        for group in distinct(part, "group"):
            blocks.append(group_table(part, dataset, group))
        blocks += contribution_curves(where(part, variant=DEFAULT), dataset)
    failed = failures(rows)
    if failed is not None:
        blocks += [Heading("Failed cells"), failed]
    return Document("Ablation", blocks)


def group_table(rows: Sequence[Row], dataset: str, group: str) -> Table:
    body = []
    variants = distinct(where(rows, group=group), "variant")
    rivals = dict(PAIRS)
    ours = {theirs: own for own, theirs in PAIRS}
    same = twins(rows, "variant")
    for variant in variants:
        found = [percent(summary(where(rows, variant=variant), figure)) for figure in ("ap", "auc")]
        entries = [
            Entry(f"{variant} (the same model as {same[variant]})" if variant in same else title(variant)),
            *found,
        ]
        other = rivals.get(variant, DEFAULT if variant not in ours else None)
        if other is None or variant == DEFAULT or group == BASELINES:
            entries += [Entry(""), Entry("")]
        else:
            compared = versus(rows, {"variant": variant}, {"variant": other}, "ap")
            entries += [Entry(interval(compared)), Entry(compared.verdict)]
        number = papers_number(dataset, variant)
        entries.append(Entry("" if number is None else f"{number.ap:.2f} / {number.auc:.2f}"))
        body.append(entries)
    columns = ["variant", "AP", "AUC", "AP difference [95 %]", "is", "paper AP / AUC"]
    if not any(row[-1].text for row in body):
        columns, body = columns[:-1], [row[:-1] for row in body]
    return Table(columns, body, caption=group)


def papers_number(dataset: str, variant: str) -> Published | None:
    if variant in ("augmentation off", DEFAULT):
        return AUGMENTATION.get((dataset, variant == DEFAULT))
    for number in (3, 5):
        if variant.startswith(f"round {number},"):
            return REFERENCE_GRAPH.get((dataset, variant.endswith("reference graph"), number))
    return None
