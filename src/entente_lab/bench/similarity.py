"""`bench similarity`: does J matter? Forms of J, of r and of the choice of a round, with Euler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from entente.config import Experiment
from entente.federation.aggregators.entente import EntenteSettings
from entente_lab.bench.behaviour.methods import MAIN, SIMILARITY
from entente_lab.bench.cells import ATTACK, Cell, Label, Row
from entente_lab.bench.datasets import REAL, SMALL, of_seed, rounds, split_seed
from entente_lab.bench.document import Block, Command, Document, Entry, Heading, Mark, Paragraph, Table
from entente_lab.bench.events import Prepared
from entente_lab.bench.methods import AGGREGATION, LAB_RULE, METHODS, change, title
from entente_lab.bench.paper import DIRECTED
from entente_lab.bench.request import Finished, Request, execute
from entente_lab.bench.robustness.plan import THREATS, attack_settings, busiest
from entente_lab.bench.statistics import Comparison, compare, summarise
from entente_lab.bench.tables import (
    distinct,
    failures,
    interval,
    percent,
    summary,
    versus,
    where,
)

GRID = "similarity"
KS, REAL_K, QUICK_K = (3, 5, 10), (4,), (3,)
COMPANY = SMALL
FEW = 5
"""Seeds of a replay and of an attack: the first ones."""
BASELINES = ("rare-target", "evidence-young")
ATTACK_K = 5
ATTACKS = ("replay", "sign flip")
ATTACKED = (MAIN, "fedavg", "fedavg-n", "J = 1", "J relative, r of mean 1")
"""Lines that are attacked by the silo that sees most malicious pairs: all of them, γ = 100."""
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
    ks = {name: QUICK_K if request.quick else REAL_K if name in REAL else KS for name in names}
    wanted = request.narrowed("k", sorted({k for group in ks.values() for k in group}))
    seeds = range(request.first_seed, request.first_seed + request.seeds)
    cells, described = [], []
    for seed in seeds:
        few = seed < request.first_seed + FEW
        for name in (name for name in names if few or name not in REAL):
            for k in (k for k in ks[name] if k in wanted):
                prepared = request.library.prepare(of_seed(name, seed), k)
                described.append(prepared.facts() | {"dataset": name})
                cells += cells_of(prepared, seed)
                if few and k == ATTACK_K:
                    cells += attacked(prepared, seed)
    return cells, {"command": request.command, "seeds": list(seeds), "data": described}


def cells_of(prepared: Prepared, seed: int) -> list[Cell]:
    """Every form and the baselines, nobody cheats."""
    plain = base(prepared, seed)
    cells = []
    for form, (changes, options) in FORMS.items():
        labels = labels_of(prepared, "clean", form, seed)
        cells.append(Cell(change(plain, changes), prepared.hash, labels, {**DIRECTED.options, **options}))
    for rule in BASELINES:
        labels = labels_of(prepared, "clean", rule, seed)
        cells.append(Cell(METHODS[rule].apply(plain), prepared.hash, labels, DIRECTED.options))
    return cells


def attacked(prepared: Prepared, seed: int) -> list[Cell]:
    """Some forms under attack by the silo that sees most of it, and clean in the same room."""
    cheat = busiest(prepared)[:1]
    cells = []
    for form in ATTACKED:
        experiment = change(base(prepared, seed), FORMS[form][0])
        for name in ("none", *ATTACKS):
            threat = THREATS.get(name)
            options = {"attack": attack_settings(threat, threat.strongest, cheat)} if threat else {}
            labels = labels_of(prepared, "attack", form, seed) | {"attack": name, "silos": cheat[0]}
            cells.append(Cell(experiment, prepared.hash, labels, options, ATTACK))
    return cells


def base(prepared: Prepared, seed: int) -> Experiment:
    name = split_seed(prepared.events.name)[0]
    return change(DIRECTED.experiment(prepared, seed), {"federation.rounds": rounds(name)})


def labels_of(prepared: Prepared, part: str, form: str, seed: int) -> dict[str, Label]:
    name = split_seed(prepared.events.name)[0]
    return {"dataset": name, "k": prepared.k, "part": part, "form": form, "seed": seed}


# ---- the page ------------------------------------------------------------------------------


def draw(rows: Sequence[Row], facts: Mapping[str, Any]) -> Document:
    clean = where(rows, part="clean")
    blocks: list[Block] = [
        Paragraph(
            "Euler with our default settings but fewer rounds. Every seed is another company, which no other "
            "table uses, or another replay, and the seed of its training. AP in percent, mean ± standard "
            "deviation; differences are paired over seeds, in percent points with a 95 % interval, and "
            "marked where it is off zero and every seed is there. c1·J in r is the mean share of the sketch "
            "in a contribution."
        ),
        Command(str(facts["command"])),
        *conclusion(rows),
    ]
    for dataset in distinct(rows, "dataset"):
        blocks.append(Heading(str(dataset)))
        for k in distinct(where(rows, dataset=dataset), "k"):
            blocks.append(table(where(clean, dataset=dataset, k=k), k))
            hit = where(rows, dataset=dataset, k=k, part="attack")
            blocks += [attack_table(hit, k)] if hit else []
    failed = failures(rows)
    if failed is not None:
        blocks += [Heading("Failed cells"), failed]
    return Document("Does J matter?", blocks)


def conclusion(rows: Sequence[Row]) -> list[Block]:
    """What the intervals show, who meets the bar, and what was not built."""
    clean = where(rows, part="clean")
    found: list[Difference] = []
    for dataset in distinct(clean, "dataset"):
        for k in distinct(where(clean, dataset=dataset), "k"):
            part = where(clean, dataset=dataset, k=k)
            for form in (form for form in distinct(part, "form") if form not in (*RIVALS, *BASELINES)):
                for other in (MAIN, *RIVALS):
                    verdict = shown(part, form, other) if form != other else "too few seeds"
                    if verdict != "too few seeds":
                        text = f"{title(other)} ({dataset}, K = {k}: "
                        text += f"{interval(difference(part, form, other))})"
                        found.append(Difference(form, other, dataset, verdict, text))
    forms = list(dict.fromkeys(one.form for one in found))
    body = [
        [Entry(form), *(Entry(listed(found, form, verdict)) for verdict in ("better", "worse"))]
        for form in dict.fromkeys(one.form for one in found if one.verdict in MARKS)
    ]
    met = [form for form in forms if meets_the_bar([one for one in found if one.form == form])]
    said = (
        f"{sum(one.verdict in MARKS for one in found)} of {len(found)} comparisons of a form with Entente or "
        "one of four rules are off zero (95 %, five seeds or more); one in twenty is by chance. The bar for "
        "another default is to be better than FedAVG, FedProx and FedOpt on two data sets and behind none of "
        "the four rules for any K. "
    )
    said += f"It is met by {', '.join(met)}." if met else "No form meets it, so the default stays."
    sketches = (
        "Other sketches (MinHash of neighbourhoods, sampled ego graphs) were not built: a sketch changes "
        "nothing but J, J = 1 for every silo is the most that one could give, and J relative spreads what "
        "the present one sees up to 1. The lines of both say what there is to gain."
    )
    caption = "Differences in AP whose interval is off zero"
    return [
        Heading("What is shown"),
        Paragraph(said),
        *([Table(("form", "better than", "worse than"), body, caption=caption)] if body else []),
        Paragraph(sketches),
    ]


@dataclass(frozen=True, slots=True)
class Difference:
    """A form beside another in one table, and what is shown of it."""

    form: str
    other: str
    dataset: str
    verdict: str
    text: str


def listed(found: Sequence[Difference], form: str, verdict: str) -> str:
    return "; ".join(one.text for one in found if (one.form, one.verdict) == (form, verdict)) or "–"


def meets_the_bar(found: Sequence[Difference]) -> bool:
    """Better than three rules on two data sets, for every K there, and nowhere behind any of the four."""
    rivals = [one for one in found if one.other in RIVALS]
    beaten = {
        dataset: {one.other for one in rivals if one.dataset == dataset}
        - {one.other for one in rivals if one.dataset == dataset and one.verdict != "better"}
        for dataset in {one.dataset for one in rivals}
    }
    won = [dataset for dataset, names in beaten.items() if names >= {"fedavg", "fedprox", "fedopt"}]
    return len(won) > 1 and all(one.verdict != "worse" for one in rivals)


def difference(rows: Sequence[Row], form: str, other: str) -> Comparison:
    return versus(rows, {"form": form}, {"form": other}, "ap")


def shown(rows: Sequence[Row], form: str, other: str) -> str:
    """The verdict where all seeds of the table are there for both; else nothing is shown."""
    found = difference(rows, form, other)
    return found.verdict if found.seeds == len(distinct(rows, "seed")) else "too few seeds"


def table(rows: Sequence[Row], k: int) -> Table:
    seeds = len(distinct(rows, "seed"))
    body = []
    for form in distinct(rows, "form"):
        part = where(rows, form=form)
        count = len(distinct(part, "seed"))
        name = title(form) if form in BASELINES else form
        name += "" if count == seeds else f" ({count} of {seeds} seeds)"
        entries = [Entry(name), percent(summary(part, "ap")), percent(summary(part, "auc")), share(part)]
        for other in (MAIN, "fedavg", "fedavg-n"):
            text = interval(difference(rows, form, other))
            mark = MARKS.get(shown(rows, form, other), "")
            entries.append(Entry("") if form == other else Entry(text, mark))
        body.append(entries)
    columns = ("form", "AP", "AUC", "c1·J in r", "− Entente, AP", "− FedAVG, AP", "− FedAVG-N, AP")
    return Table(columns, body, caption=f"K = {k}, {seeds} seeds, nobody cheats")


def attack_table(rows: Sequence[Row], k: int) -> Table:
    """AP over the honest silos, beside the same silos' in a clean run."""
    seeds = len(distinct(rows, "seed"))
    body = []
    for form in distinct(rows, "form"):
        clean = honest(where(rows, form=form, attack="none"))
        entries = [Entry(form), percent(summarise(list(clean.values())))]
        for attack in ATTACKS:
            hit = honest(where(rows, form=form, attack=attack))
            against = honest(where(rows, form=MAIN, attack=attack))
            entries.append(percent(summarise(list(hit.values()))))
            for found in (compare(hit, clean), compare(hit, against)):
                mark = MARKS.get(found.verdict if found.seeds == seeds else "", "")
                entries.append(Entry(interval(found), mark))
            entries[-1] = Entry("") if form == MAIN else entries[-1]
        body.append(entries)
    columns = ["AP over honest silos", "clean"]
    for attack in ATTACKS:
        columns += [attack, f"{attack} − clean", f"{attack}: − Entente"]
    caption = f"K = {k}, {seeds} seeds; one silo cheats, γ = 100, all the malicious pairs it sees"
    return Table(columns, body, caption=caption)


def honest(rows: Sequence[Row]) -> dict[int, float | None]:
    """AP over the silos that do not cheat, by seed; none of a run that broke down."""
    return {r.seed: r.outcome.get("views", {}).get(labels["silos"], {}).get("ap") for labels, r in rows}


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
