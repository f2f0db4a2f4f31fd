"""docs/results.md, written from recorded cells and from nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from entente.errors import StorageError, UsageError
from entente_lab.bench import ablation, paper, privacy, rules, scale, similarity
from entente_lab.bench.behaviour.page import draw as draw_behaviour
from entente_lab.bench.behaviour.plan import spread
from entente_lab.bench.cells import Row, Store
from entente_lab.bench.document import (
    Block,
    Command,
    Document,
    Entry,
    Heading,
    Mark,
    Paragraph,
    Table,
    write_markdown,
)
from entente_lab.bench.findings import euler_parts, findings
from entente_lab.bench.methods import METHODS, RIVALS, RULES, title
from entente_lab.bench.request import Draw, Spread
from entente_lab.bench.robustness import plan as robustness
from entente_lab.bench.robustness.page import draw as draw_robustness
from entente_lab.bench.statistics import FEWEST
from entente_lab.bench.tables import distinct, interval, summary, versus, where

PAGES: Mapping[str, tuple[Spread, Draw]] = {
    "paper": (list, paper.draw),
    "rules": (list, rules.draw),
    "ablation": (list, ablation.draw),
    "scale": (list, scale.draw),
    "robustness": (list, draw_robustness),
    "behaviour": (spread, draw_behaviour),
    "privacy": (list, privacy.draw),
    "similarity": (list, similarity.draw),
}
"""Grid -> how its cells become rows, and rows a page."""


def write_results(out: Path, page: Path) -> Document:
    """Write the page about every grid recorded in `out`."""
    store = Store(out)
    if not store.has(paper.GRID):
        raise StorageError(
            "holds no results of `bench paper`",
            where=out,
            remedy=f"Run `entente bench paper --quick --out {out}` first.",
        )
    rows, facts = store.rows(paper.GRID)
    others = {
        grid.GRID: (grid.draw, *store.rows(grid.GRID))
        for grid in (rules, ablation, scale, robustness)
        if store.has(grid.GRID)
    }
    document = compose(rows, facts, others, page)
    write_markdown(page, document)
    return document


def write_page(out: Path, grid: str, page: Path) -> Document:
    """Write the page of one grid from those of its planned cells that are recorded so far."""
    if grid not in PAGES:
        raise UsageError(f"there is no grid {grid!r}", remedy=f"Choose from {', '.join(PAGES)}.")
    rows, facts = Store(out).rows(grid)
    to_rows, draw = PAGES[grid]
    drawn = draw(to_rows(rows), facts)
    document = Document(drawn.title, [provenance([(rows, facts)]), *drawn.blocks])
    write_markdown(page, document)
    return document


def compose(rows: Sequence[Row], facts: Mapping[str, Any], others: Mapping[str, Any], page: Path) -> Document:
    target = page.name if page.is_absolute() else page.as_posix()
    blocks: list[Block] = [
        Paragraph(
            "This page is generated from recorded runs; nobody edits it. Every figure comes from a cell that "
            "holds its configuration, seed, data hash, versions and command. To make it again:"
        ),
        Command(f"{facts['command']}\nentente bench results --out DIR --page {target}"),
        provenance([(rows, facts), *(part[1:] for part in others.values())]),
        Heading("Where Entente stands"),
        *standing(rows),
        *off_zero(rows, *(others.get(grid.GRID, (None, [], {}))[1] for grid in (rules, scale))),
        *findings(rows, others.get(ablation.GRID, (None, [], {}))[1]),
    ]
    for draw, part, about in ((paper.draw, rows, facts), *others.values()):
        drawn = draw(part, about)
        blocks += [Heading(drawn.title), *(_lower(block) for block in drawn.blocks)]
    return Document("Results", blocks)


def provenance(grids: Sequence[tuple[Sequence[Row], Mapping[str, Any]]]) -> Paragraph:
    """Who computed this: versions, what is missing, and whether it was one version of the code."""
    records = list({record.key: record for rows, _ in grids for _, record in rows}.values())
    missing = sum(int(facts["planned"]) - len({record.key for _, record in rows}) for rows, facts in grids)
    failed = sum(record.status == "failed" for record in records)
    codes = Counter(record.versions.get("code", "?") for record in records)
    versions = records[0].versions if records else {}
    hours = sum(record.seconds for record in records) / 3600
    named = ", ".join(f"{name} {versions[name]}" for name in ("torch", "numpy", "python") if name in versions)
    finished = sorted(record.finished for record in records)
    when = f", finished between {finished[0]} and {finished[-1]}" if finished else ""
    text = f"{len(records)} cells ({failed} failed), {hours:.1f} processor hours{when}; {named}."
    if missing:
        text += f" {missing} planned cells have not been run, so that some means are over fewer seeds."
    if len(codes) == 1:
        return Paragraph(f"{text} All by one version of the code, digest {next(iter(codes))}.")
    counted = ", ".join(f"{code} ({count})" for code, count in sorted(codes.items()))
    return Paragraph(f"{text} By several versions of the code; digests and their cells: {counted}.")


def standing(rows: Sequence[Row]) -> list[Block]:
    """The targets, one line per data set and rival: Entente with Euler, K = 4, AP, paired over seeds."""
    body: list[list[Entry]] = []
    better: list[str] = []
    behind: list[str] = []
    unknown: list[str] = []
    for name, part in euler_parts(rows):
        for rival in RIVALS:
            found = versus(part, {"method": "entente"}, {"method": rival}, "ap")
            lists = {"better": better, "worse": behind, "too few seeds": unknown}
            lists.get(found.verdict, []).append(f"{title(rival)} ({name})")
            body.append(
                [
                    Entry(f"{name}: Entente − {title(rival)}"),
                    Entry(interval(found)),
                    Entry(str(found.seeds)),
                    Entry(found.verdict, "bad" if found.verdict == "worse" else ""),
                ]
            )
    columns = ("Euler, K = 4, AP in percent points", "difference [95 %]", "seeds", "Entente is")
    names = "; ".join(name for name, _ in euler_parts(rows))
    said = [
        "Target: at least as good as every federated rival and as local-only within the interval, on every "
        f"data set, and better on one. With Euler, K = 4, by AP ({names}):"
    ]
    said.append(f"better than {', '.join(better)};" if better else "shown to be better than none of them,")
    said.append(f"behind {', '.join(behind)}." if behind else "behind none of them.")
    said.append("Other K, Jbeil, AUC and the other tables: the second table below.")
    if unknown:
        said.append(f"Not compared, for want of seeds: {', '.join(unknown)}.")
    return [Paragraph(" ".join(said)), Table(columns, body), *beside_rules(rows)]


def off_zero(rows: Sequence[Row], by_rule: Sequence[Row], by_k: Sequence[Row]) -> list[Block]:
    """Every difference between Entente and a rival that is shown, in all tables where nobody cheats."""
    rooms: list[tuple[str, str, Sequence[Row]]] = []
    for dataset in distinct(rows, "dataset"):
        for detector in distinct(where(rows, dataset=dataset), "detector"):
            named = f"{dataset}, {paper.SETTINGS[detector].title}"
            whole = where(rows, dataset=dataset, detector=detector)
            rooms += [(f"{named}, K = {k}", "method", where(whole, k=k)) for k in distinct(whole, "k")]
    for dataset in distinct(by_rule, "dataset"):
        whole = where(by_rule, dataset=dataset)
        rooms += [(f"{dataset}, rules, K = {k}", "rule", where(whole, k=k)) for k in distinct(whole, "k")]
    for dataset in distinct(by_k, "dataset"):
        whole = where(by_k, dataset=dataset)
        rooms += [(f"{dataset}, scale, K = {k}", "method", where(whole, k=k)) for k in distinct(whole, "k")]
    body: list[list[Entry]] = []
    seen: set[tuple[str, float | None, float | None]] = set()
    for name, label, part in rooms:
        for rival in distinct(part, label):
            tail = scale.LONGER if rival.endswith(scale.LONGER) else ""
            plain = rival.removesuffix(tail)
            if plain not in RIVALS and plain not in rules.OTHERS:
                continue
            for measured in ("ap", "auc"):
                found = versus(part, {label: f"entente{tail}"}, {label: rival}, measured)
                if found.seeds < FEWEST or (measured, found.difference, found.low) in seen:
                    continue
                seen.add((measured, found.difference, found.low))
                if found.verdict in ("better", "worse"):
                    mark: Mark = "bad" if found.verdict == "worse" else ""
                    told = f"Entente − {title(plain)}{tail}, {measured.upper()}"
                    body.append(
                        [Entry(name), Entry(told), Entry(interval(found)), Entry(found.verdict, mark)]
                    )
    said = (
        f"AP and AUC in all tables where nobody cheats are {len(seen)} comparisons at 95 % (equal models and "
        f"shared runs count once); one in twenty is off zero by chance, {len(body)} are."
    )
    columns = ("where", "difference", "percent points [95 %]", "Entente is")
    return [Paragraph(said), *([Table(columns, body)] if body else [])]


def beside_rules(rows: Sequence[Row]) -> list[Block]:
    """A model that no baseline beats would be news; say where it stands."""
    said = []
    for name, part in euler_parts(rows):
        ours = summary(where(part, method="entente"), "ap").mean
        rules = {rule.name: summary(where(part, method=rule.name), "ap").mean for rule in RULES}
        known = {rule: value for rule, value in rules.items() if value is not None}
        if ours is None or not known:
            continue
        best = max(known, key=lambda rule: known[rule])
        models = {m: summary(where(part, method=m), "ap").mean for m in METHODS if METHODS[m].kind != "rule"}
        top = max((m for m in models if models[m] is not None), key=lambda m: models[m] or 0.0)
        said.append(
            f"On {name} the best baseline ({title(best)}) has AP {100 * known[best]:.2f} %, Entente "
            f"{100 * ours:.2f} %, the best trained method ({title(top)}) {100 * (models[top] or 0):.2f} %."
        )
    return [Paragraph(" ".join(said))] if said else []


def _lower(block: Block) -> Block:
    return Heading(block.text, block.level + 1) if isinstance(block, Heading) else block
