"""The page of `bench robustness`: targets, the paper's attack beside the paper's numbers, every attack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from entente_lab.bench.cells import Row
from entente_lab.bench.document import Block, Command, Document, Entry, Figure, Heading, Paragraph, Table
from entente_lab.bench.plots import heat_map
from entente_lab.bench.published.attacks import TABLES
from entente_lab.bench.robustness.figures import Aftermath, aftermath, mean
from entente_lab.bench.robustness.measure import LOOSE
from entente_lab.bench.tables import distinct, failures, percent, summary, where

TAKEN = 0.10
"""A target's margin: SR at most this much above the clean miss rate, AP within this share of clean."""


def draw(rows: Sequence[Row], facts: Mapping[str, Any]) -> Document:
    blocks: list[Block] = [
        Paragraph(
            "Every attacked run stands beside the clean run of the same rule and seed. SR is the share of "
            "malicious test edges that raise no alert in an honest silo (the attacker's own view is left "
            "out, in the clean run too); thresholds are learnt per silo on validation windows. SR is given "
            f"at the default threshold (0.1 % false alarms) and at a looser one ({LOOSE:.0%}), because a "
            "clean model that misses most edges at 0.1 % leaves an attacker nothing to hide. EPM is the "
            "number of injected edges per malicious pair. Baselines are counted at home, so that no other "
            "silo can move them: their figures are those of the clean tables."
        ),
        Command(str(facts["command"])),
    ]
    for dataset in distinct(rows, "dataset"):
        part = where(rows, dataset=dataset)
        cheats = facts["cheats"].get(dataset, "")
        blocks += [Heading(str(dataset)), *targets(part, cheats, facts["rules"])]
        blocks += papers_attack(part, facts["rules"])
        blocks += every_attack(part, facts["rules"])
        blocks += who_cheats(part, facts["rules"])
        blocks += guarantees(part, facts["rules"])
        blocks += warnings(part)
    blocks += [Heading("What the paper measured"), *(published(title) for title in TABLES)]
    failed = failures(rows)
    if failed is not None:
        blocks += [Heading("Failed cells"), failed]
    return Document("Robustness", blocks)


# ---- where the targets stand ---------------------------------------------------------------


def targets(rows: Sequence[Row], cheats: str, titles: Mapping[str, str]) -> list[Block]:
    """Replay with gamma = 100 and p = 1, one silo, per rule: what was asked for, and what came out."""
    body = []
    for rule, title in titles.items():
        part = where(rows, rule=rule, attack="replay", p=1.0, gamma=100.0, silos=cheats)
        found = aftermath(rows, part)
        if not found:
            continue
        clean = mean(a.clean.get("ap") for a in found)
        attacked = mean(a.hit.get("ap") for a in found)
        loss = None if not clean or attacked is None else attacked / clean - 1.0
        rise = {name: mean(a.rise(name) for a in found) for name in ("sr", "sr_loose")}
        broken = sum(a.broken for a in found)
        body.append(
            [
                Entry(title),
                _share(clean),
                _share(attacked),
                Entry(_signed(loss), "bad" if loss is None or loss < -TAKEN else ""),
                _share(mean(a.clean.get("auc") for a in found)),
                _share(mean(a.hit.get("auc") for a in found)),
                *(
                    Entry(_signed(value), "bad" if value is None or value > TAKEN else "")
                    for value in rise.values()
                ),
                _share(mean(a.hit.get("sr_local") for a in found)),
                Entry(f"{broken} of {len(found)}", "bad" if broken else ""),
            ]
        )
    if not body:
        return []
    columns = ["replay, p 1, γ 100", "clean AP", "AP", "change", "clean AUC", "AUC"]
    columns += ["SR − miss", f"at {LOOSE:.0%}", "SR with a local rule", "broke down"]
    distinct_runs = {record.key: record for _, record in rows}.values()
    ours = [r for r in distinct_runs if r.experiment["federation"]["aggregation"]["rule"] == "entente"]
    ended = sum(record.values.get("finite") == 1.0 for record in ours)
    said = (
        f"{cheats} cheats. Targets for Entente: the model is finite at the end of every run ({ended} of "
        f"{len(ours)} are), SR at most 10 points above the clean miss rate, AP at most 10 % below clean; "
        "Entente-UB visibly worse. What misses a target is marked. The local rule (rarest target first) runs "
        "beside the model in every silo; it is not federated and cannot be poisoned."
    )
    return [Paragraph(said), Table(columns, body)]


# ---- the paper's attack --------------------------------------------------------------------


def papers_attack(rows: Sequence[Row], titles: Mapping[str, str]) -> list[Block]:
    body = []
    chosen = where(rows, part="paper's attack")
    for rule in distinct(chosen, "rule"):
        clean = where(rows, rule=rule, attack="none")
        body.append(_line(titles[rule], "–", "–", clean, aftermath(rows, clean)))
        steps = {(labels["p"], labels["gamma"]) for labels, _ in where(chosen, rule=rule)}
        for p, gamma in sorted(steps):
            part = where(chosen, rule=rule, p=p, gamma=gamma)
            body.append(_line("", f"{p:.0%}", f"{gamma:g}", part, aftermath(rows, part)))
    if not body:
        return []
    columns = (
        "rule",
        "p",
        "γ",
        "AP",
        "AUC",
        "SR",
        f"SR at {LOOSE:.0%}",
        "SR − miss",
        "SR, Euler's threshold",
    )
    said = (
        "The last SR is counted as the paper counts it: over all silos, the attacker's included, at Euler's "
        "own threshold (weighted TPR and FPR, λ = 0.6). EPM counts the edges that were added, where both "
        "hosts are active in the window; the paper's counts every malicious pair in every poisoned window."
    )
    table = Table((*columns, "EPM", "EPM as the paper counts", "broke down"), body)
    return [Heading("The paper's attack, harder and harder", 3), Paragraph(said), table]


def _line(rule: str, p: str, gamma: str, rows: Sequence[Row], found: Sequence[Aftermath]) -> list[Entry]:
    epm, counted = summary(rows, "epm").mean, summary(rows, "epm_paper").mean
    broken = sum(a.broken for a in found)
    return [
        *(Entry(text) for text in (rule, p, gamma)),
        percent(summary(rows, "ap")),
        percent(summary(rows, "auc")),
        _share(mean(a.hit.get("sr") for a in found)),
        _share(mean(a.hit.get("sr_loose") for a in found)),
        Entry(_signed(mean(a.rise("sr") for a in found))),
        _share(summary(rows, "sr_euler").mean),
        *(Entry("–" if not value else f"{value:.1f}") for value in (epm, counted)),
        Entry(str(broken) if broken else "", "bad" if broken else ""),
    ]


# ---- every attack against every rule -------------------------------------------------------

Pick = Callable[[Aftermath], float | None]
MAPS: tuple[tuple[str, Pick, tuple[float, float], str], ...] = (
    ("AUC, honest silos", lambda a: a.hit.get("auc"), (0.5, 1.0), "high"),
    ("AUC lost against the clean run", lambda a: a.fall("auc"), (-0.3, 0.3), "low"),
    (f"SR − clean miss rate at {LOOSE:.0%}", lambda a: a.rise("sr_loose"), (-0.5, 0.5), "low"),
    (f"SR at {LOOSE:.0%} with a local rule beside", lambda a: a.hit.get("sr_local_loose"), (0.0, 1.0), "low"),
    ("AP as a share of clean AP", lambda a: a.share("ap"), (0.0, 2.0), "high"),
)


def every_attack(rows: Sequence[Row], titles: Mapping[str, str]) -> list[Block]:
    chosen = where(rows, part="every attack")
    if not chosen:
        return []
    attacks, rules = distinct(chosen, "attack"), distinct(chosen, "rule")
    count = len(distinct(chosen, "seed"))
    seeds = f"{count} seeds" if count > 1 else "one seed, so that no single figure shows a difference"
    found = {
        (attack, rule): aftermath(rows, where(chosen, attack=attack, rule=rule))
        for attack in attacks
        for rule in rules
    }
    blocks: list[Block] = [
        Heading("Every attack against every rule", 3),
        Paragraph(
            f"Each attack at its strongest, {seeds}. Figures over honest silos; – is a run that broke down "
            "or was not asked for. The maps are for eyes, the tables hold the same numbers."
        ),
        worst(found, attacks, rules, titles),
    ]
    names = [titles[rule] for rule in rules]
    for title, pick, limits, good in MAPS:
        values = [[mean(pick(a) for a in found[attack, rule]) for rule in rules] for attack in attacks]
        blocks.append(Figure(heat_map(title, attacks, names, values, limits=limits, good=good), title))
        body = [
            [Entry(attack), *(Entry("–" if v is None else f"{v:.3f}") for v in line)]
            for attack, line in zip(attacks, values, strict=True)
        ]
        blocks.append(Table(("attack", *names), body, caption=title))
    return blocks


def worst(
    found: Mapping[tuple[str, str], Sequence[Aftermath]],
    attacks: Sequence[str],
    rules: Sequence[str],
    titles: Mapping[str, str],
) -> Table:
    """Which attack hurts each rule most: in ranking (AUC) and in hiding (SR)."""
    body = []
    for rule in rules:
        entries = [Entry(titles[rule])]
        for pick in (MAPS[1][1], MAPS[2][1]):
            damage = {attack: mean(pick(a) for a in found[attack, rule]) for attack in attacks}
            known = {attack: value for attack, value in damage.items() if value is not None}
            name = max(known, key=lambda attack: known[attack]) if known else ""
            entries += [Entry(name or "–"), Entry(_signed(known.get(name)))]
        broken = [attack for attack in attacks if any(a.broken for a in found[attack, rule])]
        entries.append(Entry(", ".join(broken) or "none", "bad" if broken else ""))
        body.append(entries)
    columns = ("rule", "worst for AUC", "AUC lost", f"hides best at {LOOSE:.0%}", "SR − miss", "broken by")
    return Table(columns, body, caption="The worst attack against each rule")


# ---- who cheats, and who notices -----------------------------------------------------------


def who_cheats(rows: Sequence[Row], titles: Mapping[str, str]) -> list[Block]:
    chosen = where(rows, part="who cheats")
    body = []
    for rule in distinct(chosen, "rule"):
        for silos in distinct(where(chosen, rule=rule), "silos"):
            part = where(chosen, rule=rule, silos=silos)
            found = aftermath(rows, part)
            body.append(
                [
                    Entry(f"{titles[rule]}: {silos.replace('+', ' and ')}"),
                    _share(mean(a.clean.get("ap") for a in found)),
                    _share(mean(a.hit.get("ap") for a in found)),
                    _share(mean(a.clean.get("auc") for a in found)),
                    _share(mean(a.hit.get("auc") for a in found)),
                    Entry(_signed(mean(a.rise("sr") for a in found))),
                    Entry(_signed(mean(a.rise("sr_loose") for a in found))),
                ]
            )
    if not body:
        return []
    columns = ("replay, p 1, γ 100", "clean AP", "AP", "clean AUC", "AUC", "SR − miss", f"at {LOOSE:.0%}")
    return [Heading("Who cheats", 3), Table(columns, body)]


def guarantees(rows: Sequence[Row], titles: Mapping[str, str]) -> list[Block]:
    """Epsilon of the runs with noise: by the accountant, and by the paper's formula."""
    body = []
    for rule in distinct(rows, "rule"):
        clean = where(rows, rule=rule, attack="none")
        ours, theirs = (summary(clean, name).mean for name in ("epsilon", "epsilon_paper"))
        if theirs is not None:
            own = "no guarantee" if ours is None else f"{ours:.3g}"
            body.append([Entry(titles[rule]), Entry(own), Entry(f"{theirs:.3g}")])
    if not body:
        return []
    said = (
        "Ours is an accountant's ε for replacing one silo, over all models that were released. The paper's "
        "is K·M_qs·√(R ln(1/δ))/σ with the same noise and δ: it grows with the sensitivity that the noise is "
        "scaled by, and gives a figure for weak DP too, which guarantees nothing."
    )
    columns = ("clean run", "ε, accountant", "ε, the paper's formula")
    return [Heading("What the noise guarantees", 3), Paragraph(said), Table(columns, body)]


def warnings(rows: Sequence[Row]) -> list[Block]:
    """How often the coordinator names who cheats, and how often it names somebody else."""
    clean = list({r.key: r for labels, r in rows if labels["attack"] == "none"}.values())
    attacks = [name for name in distinct(rows, "attack") if name != "none"]
    body = []
    for name in attacks:
        part = list({record.key: (labels, record) for labels, record in where(rows, attack=name)}.values())
        first = mean(record.values.get("warned_round") for _, record in part)
        body.append(
            [
                Entry(name),
                _share(summary(part, "warned").mean),
                Entry("–" if first is None else f"{first:.1f}"),
                _share(summary(part, "accused").mean),
                Entry(str(len(part))),
            ]
        )
    accused = mean(record.values.get("accused") for record in clean)
    alarms = sum((record.values.get("accused") or 0.0) > 0 for record in clean)
    said = f"Clean runs with a warning: {alarms} of {len(clean)}"
    said += "." if accused is None else f"; an honest silo is named in {accused:.1%} of its clean runs."
    columns = ("attack", "runs in which the cheat is named", "first in round", "honest silos named", "runs")
    return [Heading("The coordinator's warnings", 3), Paragraph(said), Table(columns, body)]


def published(title: str) -> Table:
    rows = [
        [
            Entry(f"{row.rule}, {row.setting}"),
            *(Entry("NaN" if value is None else f"{value:.2f}") for value in (row.ap, row.auc)),
            Entry("–" if row.sr is None else f"{row.sr:.2f}"),
            Entry("–" if row.epm is None else str(row.epm)),
        ]
        for row in TABLES[title]
    ]
    return Table(("percent", "AP", "AUC", "SR", "EPM"), rows, caption=title)


def _share(value: float | None) -> Entry:
    return Entry("–" if value is None else f"{100 * value:.2f}")


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:+.1f}"
