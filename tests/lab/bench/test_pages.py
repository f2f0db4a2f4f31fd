from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from entente.config import Experiment
from entente.detectors.euler.options import EulerOptions
from entente.errors import StorageError, UsageError
from entente.federation.aggregators import available as aggregators
from entente_lab.bench import ablation, paper, results, rules, scale, similarity
from entente_lab.bench.cells import Cell, Label, Record, Row, Store
from entente_lab.bench.document import (
    Document,
    Entry,
    Figure,
    Heading,
    Paragraph,
    Table,
    to_html,
    to_markdown,
)
from entente_lab.bench.methods import BEYOND, METHODS, PAPER, RULES, change
from entente_lab.bench.paper import DIRECTED
from entente_lab.bench.plots import block_matrix, heat_map, lines
from entente_lab.bench.published.numbers import EFFECTIVENESS, published
from entente_lab.bench.request import Request, parse_filters, parse_sources, select
from entente_lab.bench.results import write_results
from entente_lab.bench.robustness.page import every_attack
from entente_lab.bench.tables import tidy, twins, write_outputs
from entente_lab.variants.on_weights import offer_rules

FACTS = {"command": "entente bench paper", "seeds": 5, "data": []}


def row(
    labels: Mapping[str, Label],
    ap: float | None,
    auc: float = 0.9,
    *,
    error: str | None = None,
    outcome: Mapping[str, Any] | None = None,
) -> Row:
    """A cell with these figures; without an AP it has failed."""
    seed = int(labels.get("seed") or 0)
    values = {"ap": ap, "auc": auc, "best_round": 2.0, "rounds": 3, "train_seconds": 4.0}
    credit = {"j": 0.1, "s": 1.0, "d": 1.5, "r": 0.4, "norm": 1.5, "clipped": False, "bytes_up": 1000}
    credit |= {"bytes_down": 1000, "seconds": 0.5}
    rounds = [
        {
            "round": number,
            "kind": "train",
            "loss": 0.7,
            "validation": {"ap": 0.8, "auc": 0.8},
            "silos": {"north": credit, "south": credit},
        }
        for number in (1, 2, 3)
    ]
    full: dict[str, Any] = {
        "values": values,
        "per_silo": {name: {"ap": ap, "positives": 5, "recall_at": {}} for name in ("north", "south")},
        "curve": {"recall": [0.5, 1.0], "precision": [1.0, 0.5]},
        "rounds": rounds,
        **(outcome or {}),
    }
    record = Record(
        key=f"{abs(hash(tuple(labels.items()))):x}",
        status="failed" if ap is None else "done",
        experiment=Experiment(seed=seed).model_dump(mode="json"),
        seed=seed,
        data="d",
        options={},
        runner="r",
        command="c",
        versions={"code": "x", "torch": "2"},
        outcome={} if ap is None else full,
        seconds=1.0,
        peak_memory_mb=10.0,
        finished="2026-01-01T00:00:00+00:00",
        error=error,
    )
    return dict(labels), record


def paper_rows(dataset: str = "simulated") -> list[Row]:
    rows = []
    for seed in range(5):
        for place, method in enumerate((*PAPER, *(RULES if seed == 0 else ()))):
            labels: dict[str, Label] = {
                "dataset": dataset,
                "detector": "euler",
                "k": 4,
                "method": method.name,
                "seed": seed,
            }
            rows.append(row(labels, 0.1 + 0.01 * place + 0.001 * seed))
    return rows


# ---- documents and plots -------------------------------------------------------------------


def test_a_page_marks_best_second_and_failures_in_both_forms() -> None:
    table = Table(("m", "AP"), [[Entry("a|b"), Entry("1", "best")], [Entry("<c>"), Entry("0", "second")]])
    page = Document("T", [Heading("H"), Paragraph("p"), table, Figure("<svg></svg>", "cap")])
    text, html = to_markdown(page), to_html(page)
    assert "**1**" in text
    assert "_0_" in text
    assert r"a\|b" in text
    assert '<td class="best">1</td>' in html
    assert "&lt;c&gt;" in html
    assert "<svg>" in html


def test_a_page_asks_nothing_of_the_network() -> None:
    html = to_html(paper.draw(paper_rows(), FACTS))
    assert "<script" not in html
    assert "http://" not in html.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in html


@pytest.mark.parametrize(
    "svg",
    [
        lines("a & b", {"x": ([0, 1], [0.5, float("nan")]), "y": ([1], [2.0])}, "x", "y"),
        lines("nothing", {}, "x", "y"),
        lines("log", {"x": ([5, 50], [1, 2])}, "K", "s", log_x=True),
        lines("flat", {"x": ([1, 2], [3.0, 3.0])}, "x", "y"),
        heat_map("h", ["r"], ["c", "d"], [[0.5, None]], good="low"),
        heat_map("same", ["r"], ["c"], [[0.5]]),
        block_matrix("b", {"north & co": 0.5, "south": 0.5}, [[1.0, 0.0], [0.2, 0.6]]),
    ],
)
def test_every_drawing_is_well_formed(svg: str) -> None:
    assert ET.fromstring(svg).tag.endswith("svg")


# ---- the paper's table ---------------------------------------------------------------------


def test_the_paper_s_numbers_are_complete_and_percentages() -> None:
    methods = {method for _, _, method, _ in EFFECTIVENESS}
    assert len(methods) == 7
    for dataset, detector in {key[:2] for key in EFFECTIVENESS}:
        ks = (2, 3, 4) if dataset == "pivoting" else (2, 3, 4, 5)
        given = {key[2:] for key in EFFECTIVENESS if key[:2] == (dataset, detector)}
        assert given == {(method, k) for method in methods for k in ks}
    assert all(0 < number.ap <= 100 and 0 < number.auc <= 100 for number in EFFECTIVENESS.values())
    assert published("lanl", "euler", "entente", 4) == (0.72, 97.00)
    assert published("lanl-replay", "euler", "entente", 4) is None


def test_best_and_second_are_marked_among_federated_methods_only() -> None:
    table = paper.results_table(paper_rows(), "simulated", "euler")
    marked = {line[0].text: line[1].mark for line in table.rows}
    assert marked["Entente"] == "best"
    assert marked["Entente-UB"] == "second"
    assert not any(marked[title] for title in ("Non-FL", "local-only", "rule: novelty burst"))


def test_the_paper_s_numbers_stand_beside_ours_only_on_its_own_data() -> None:
    assert "paper" not in paper.results_table(paper_rows(), "simulated", "euler").columns
    table = paper.results_table(paper_rows("lanl"), "lanl", "euler")
    assert table.columns.count("paper") == 2
    assert any(line[2].text == "0.72" for line in table.rows)


def test_no_table_says_better_without_an_interval_that_shows_it() -> None:
    rows = paper_rows()
    one_seed = [pair for pair in rows if pair[1].seed == 0]
    assert "better" not in to_markdown(paper.draw(one_seed, FACTS))
    assert "better" in to_markdown(paper.draw(rows, FACTS))


def test_a_failed_cell_is_shown_with_its_reason() -> None:
    labels: dict[str, Label] = {
        "dataset": "simulated",
        "detector": "euler",
        "k": 4,
        "method": "entente",
        "seed": 3,
    }
    text = to_markdown(paper.draw([*paper_rows(), row(labels, None, error="diverged\nmore")], FACTS))
    assert "(1 failed)" in text
    assert "diverged" in text


def test_all_methods_of_one_seed_differ_only_by_what_the_method_changes() -> None:
    base = Experiment(seed=3, detector=EulerOptions())
    changed = {method.name: method.apply(base) for method in PAPER}
    assert {e.seed for e in changed.values()} == {3}
    assert changed["fedopt"].federation.epochs == 5
    assert {e.federation.epochs for n, e in changed.items() if n != "fedopt"} == {"auto"}
    assert changed["non-fl"].mode == "non-fl"
    assert len({Cell(e, "d").key for e in changed.values()}) == len(PAPER)
    usual = {"detection.ensemble": "none", "detector.identities": "trained"}
    for method in BEYOND:
        alone = changed[method.name.removesuffix("-ensemble").removesuffix("-fixed")]
        assert Cell(method.apply(base), "d").key != Cell(alone, "d").key
        assert change(method.apply(base), usual) == alone


def test_two_methods_with_the_same_bits_are_one_number_with_two_names() -> None:
    digests = {"fedavg": "aa", "fedprox": "aa", "entente-ub": "bb", "entente": "bb"}
    rows = []
    for labels, record in paper_rows():
        method = str(labels["method"])
        rows.append(row(labels, record.values["ap"], outcome={"model": digests.get(method, method)}))
    text = to_markdown(paper.draw(rows, FACTS))
    assert "| FedProx | = FedAVG | = FedAVG |" in text
    assert "| Entente | = Entente-UB | = Entente-UB |" in text
    assert "the same model, bit for bit" in text
    rows[-6][1].outcome["model"] = "other"  # one seed that differs is enough
    assert "= FedAVG" not in to_markdown(paper.draw(rows, FACTS))
    assert "bit for bit" not in to_markdown(paper.draw(paper_rows(), FACTS))
    variants = [
        row({"dataset": "d", "k": 5, "rule": rule, "seed": 0}, 0.2, outcome={"model": digest})
        for rule, digest in (("fedavg", "aa"), ("fedprox", "aa"), ("entente", "cc"))
    ]
    assert "| fedprox | = fedavg |" in to_markdown(Document("", [rules.table(variants, 5)]))


def test_an_ensemble_with_the_bits_of_its_model_keeps_figures_of_its_own() -> None:
    labels = [{"method": name, "seed": 0} for name in ("entente", "entente-ensemble")]
    rows = [row(one, ap, outcome={"model": "aa"}) for one, ap in zip(labels, (0.2, 0.3), strict=True)]
    rows[1][1].experiment["detection"] = {"ensemble": "rare-target"}
    assert twins(rows, "method") == {}


def test_the_page_says_whether_theorem_2_applies_to_the_run() -> None:
    rows = []
    for labels, record in paper_rows():
        figures = {"gradient_norm": 12.0, "bound_needed": 0.12, "bound_least": 5.0, "update_norm": 6.0}
        rows.append(row(labels, record.values["ap"], outcome={"values": {**record.values, **figures}}))
    text = to_markdown(paper.draw(rows, FACTS))
    assert "| K = 4 | 12 | 0.12 | 5 | 6 | holds |" in text


# ---- ablation and scale --------------------------------------------------------------------


def test_every_variant_is_a_valid_experiment_and_another_one(small_company) -> None:  # type: ignore[no-untyped-def]
    offer_rules()
    base = METHODS["entente"].apply(DIRECTED.experiment(small_company, 0))
    keys: dict[str, str] = {}
    for group, variants in ablation.VARIANTS.items():
        for name, changes in variants.items():
            cell = Cell(ablation.variant_of(base, changes), "d", options=ablation.OPTIONS.get(name, {}))
            keys.setdefault(cell.key, f"{group}: {name}")
    assert len(keys) == sum(len(v) for v in ablation.VARIANTS.values())


def test_the_ablation_page_compares_with_the_default_seed_by_seed() -> None:
    rows = []
    for seed in range(5):
        for group in ("parts", "reference graph, early rounds", "step size"):
            for place, variant in enumerate(ablation.VARIANTS[group]):
                labels = {"dataset": "lanl", "group": group, "variant": variant, "k": 4, "seed": seed}
                rows.append(row(labels, 0.2 - 0.01 * place - 0.0001 * seed * place))
    text = to_markdown(ablation.draw(rows, FACTS))
    assert "| augmentation off | 17.96" in text
    assert "worse" in text
    assert "0.11 / 96.23" in text  # the paper's own
    assert "| round 3, reference graph |" in text


def test_the_scale_page_has_bytes_latency_and_the_paper_s_row() -> None:
    found = scale.traffic(row({"seed": 0}, 0.5)[1].outcome["rounds"])
    assert found["silo_bytes_up"] == 3000
    assert found["round_latency"] == pytest.approx(0.5 + 1000 / 1e6 + 1000 / 1e7)
    rows = [
        row({"dataset": "lanl", "k": k, "silos": k, "method": m, "seed": 0}, 0.1, outcome={})
        for k in (5, 50)
        for m in ("entente", "fedavg")
    ]
    facts = {**FACTS, "data": [{"dataset": "lanl", "description": "LANL"}]}
    text = to_markdown(scale.draw(rows, facts))
    assert "LANL. Euler as published, 3 rounds." in text
    assert "5111 s" in text
    assert "| 50 (50), FedAVG |" in text


# ---- outputs and filters -------------------------------------------------------------------


def test_outputs_are_tidy_parquet_markdown_and_html(tmp_path: Path) -> None:
    rows = [*paper_rows(), row({"dataset": "x", "seed": 9}, None, error="why")]
    files = write_outputs(tmp_path, "paper", rows, paper.draw(paper_rows(), FACTS))
    drawings = [file for file in files if file.suffix == ".svg"]
    assert drawings
    assert all(f"figures/{file.name}" in (tmp_path / "paper.md").read_text() for file in drawings)
    assert {file.name for file in files} - {file.name for file in drawings} == {
        "paper.parquet",
        "paper.silos.parquet",
        "paper.md",
        "paper.html",
    }
    table = pq.read_table(tmp_path / "paper.parquet")
    assert table.num_rows == len(rows)
    assert {"method", "seed", "ap", "auc", "status", "error", "seconds", "data_hash"} <= set(
        table.column_names
    )
    assert table["error"].to_pylist()[-1] == "why"
    assert tidy(rows).equals(table)


def test_filters_choose_cells_and_name_mistakes() -> None:
    cells = [
        Cell(Experiment(seed=s), "d", {"method": m, "k": 4, "seed": s})
        for s in (0, 1)
        for m in ("a", "b", "a, twice")
    ]
    assert [dict(c.labels) for c in select(cells, ["method=a", "seed=1"])] == [
        {"method": "a", "k": 4, "seed": 1}
    ]
    assert len(select(cells, ["method=a,b", "k=4"])) == 4
    assert len(select(cells, ["method=a, twice"])) == 2
    assert len(select(cells, ["method=a, twice", "method=a,b"])) == 6
    assert parse_filters(["k=4", "k=5"], {"k": ("4", "5")}) == {"k": {"4", "5"}}
    for wrong in ("method=c", "nothing=1", "method", "method="):
        with pytest.raises(UsageError):
            select(cells, [wrong])


def test_data_folders_are_checked(tmp_path: Path) -> None:
    assert parse_sources([f"lanl={tmp_path}"]) == {"lanl": tmp_path}
    for wrong in (str(tmp_path), f"lanl={tmp_path / 'none'}"):
        with pytest.raises(UsageError):
            parse_sources([wrong])


def test_the_results_page_comes_from_recorded_cells_alone(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="bench paper"):
        write_results(tmp_path, tmp_path / "results.md")
    store = Store(tmp_path)
    for _, record in paper_rows():
        store.write(record)
    plan = [{"key": record.key, "labels": labels} for labels, record in paper_rows()]
    from entente.artifacts import write_json

    write_json(tmp_path / "paper.plan.json", {"cells": plan, "facts": FACTS})
    write_results(tmp_path, tmp_path / "results.md")
    text = (tmp_path / "results.md").read_text()
    assert "entente bench paper" in text
    assert "With Euler, K = 4, by AP (simulated, euler): better than FedAVG (simulated, euler)" in text
    assert "entente bench results --out DIR --page results.md" in text
    assert "one version of the code" in text
    assert "not been run" not in text
    plan.append({"key": "of a cell that nobody has run", "labels": {}})
    write_json(tmp_path / "paper.plan.json", {"cells": plan, "facts": FACTS})
    write_results(tmp_path, tmp_path / "results.md")
    assert "1 planned cells have not been run" in (tmp_path / "results.md").read_text()
    assert "behind none of them" in text
    assert "the best baseline" in text
    assert "r 0.40" in text


def test_a_request_plans_every_method_for_every_seed(monkeypatch, small_company, out: Path) -> None:  # type: ignore[no-untyped-def]
    from entente_lab.bench.datasets import Library

    monkeypatch.setattr(Library, "prepare", lambda self, name, k: small_company)
    cells, facts = paper.plan(Request(out, seeds=2, quick=True))
    euler, ours = ([c for c in cells if c.labels["detector"] == name] for name in ("euler", "euler-mlp"))
    assert len(euler) == 2 * len(PAPER) + len(RULES)
    assert len(ours) == 2 * len((*PAPER, *BEYOND)) + len(RULES)
    assert facts["seeds"] == 2
    assert {c.labels["seed"] for c in cells} == {0, 1}


# ---- rules ---------------------------------------------------------------------------------


def test_the_rules_page_marks_the_best_and_compares_with_entente_seed_by_seed() -> None:
    rows = []
    for seed in range(5):
        for place, variant in enumerate(rules.VARIANTS):
            labels: dict[str, Label] = {"dataset": "d", "k": 5, "rule": variant, "seed": seed}
            rows.append(row(labels, 0.5 - 0.01 * place + 0.001 * seed + 1e-4 * (seed * place % 2)))
    facts = {"command": "c", "seeds": 5, "data": [{"dataset": "d", "k": 5, "split": "s", "description": "x"}]}
    page = to_markdown(rules.draw(rows, facts))
    assert "| fedavg | **50.20 ± 0.16** |" in page
    assert "**" not in page.split("| local-only |")[1]
    assert page.count("better") == len(rules.VARIANTS) - 1 - list(rules.VARIANTS).index("entente")


def test_every_rule_of_the_registry_is_in_the_rules_table() -> None:
    named = {changes.get("federation.aggregation.rule", "entente") for changes in rules.VARIANTS.values()}
    assert named == set(aggregators())


def test_the_papers_page_shows_silos_curves_contributions_and_what_an_analyst_would_meet() -> None:
    picture = {"groups": {"north": 0.4, "south": 0.6}, "cells": [[1.0, 0.0], [0.2, 0.6]]}
    described = {"dataset": "simulated", "k": 4, "split": "one silo per site", "description": "x"}
    page = paper.draw(paper_rows(), {**FACTS, "data": [{**described, "picture": picture}]})
    drawn = [block.svg for block in page.blocks if isinstance(block, Figure)]
    for words in ("Silos of simulated", "AP per silo", "Precision over recall", "Contribution r per round"):
        assert sum(words in svg for svg in drawn) == 1
    assert "false a day there, (source, day)" in to_markdown(page)


def test_the_results_page_names_every_place_where_entente_is_worse() -> None:
    rows, by_k = [], []
    for seed in range(5):
        for k, ours in ((2, 0.2), (4, 0.6)):
            for method, ap in (("entente", ours), ("fedavg", 0.5), ("local-only", 0.5)):
                place: dict[str, Label] = {"dataset": "d", "detector": "euler", "k": k}
                labels = {**place, "method": method, "seed": seed}
                rows.append(row(labels, ap + 0.01 * seed * (method == "entente"), auc=0.8 + 0.01 * seed))
        for method in ("entente", "fedavg"):
            labels = {"dataset": "d", "k": 50, "method": method, "seed": seed}
            by_k.append(row(labels, 0.1, auc=0.5 if method == "entente" else 0.8 + 0.01 * seed))
    text = to_markdown(Document("", [*results.standing(rows), *results.off_zero(rows, [], by_k)]))
    assert "behind none of them" in text
    assert "| d, Euler as published, K = 2 | Entente − FedAVG, AP | -28.00" in text
    assert text.count("worse ▼") == 2  # local-only has FedAVG's figures: one comparison
    assert "| d, scale, K = 50 | Entente − FedAVG, AUC | -32.00" in text


def forms(aps: Mapping[str, float], seeds: int = 5, **more: Label) -> list[Row]:
    labels: dict[str, Label] = {"dataset": "x", "k": 3, "part": "clean", **more}
    return [
        row({**labels, "form": form, "seed": seed}, ap + 0.001 * seed * place)
        for seed in range(seeds)
        for place, (form, ap) in enumerate(aps.items())
    ]


FORMS = {"entente": 0.5, "fedavg": 0.6, "fedavg-n": 0.7, "J relative": 0.8}


def test_the_page_about_j_compares_every_form_with_entente_and_two_rivals() -> None:
    text = to_markdown(similarity.draw(forms(FORMS), FACTS))
    line = next(line for line in text.splitlines() if line.startswith("| J relative | 80"))
    assert "**+30" in line  # better than Entente, and the interval says so
    assert next(line for line in text.splitlines() if line.startswith("| entente | 50")).count("▼") == 2
    assert "FedAVG-N (x, K = 3: +10.20" in text
    assert "No form meets it, so the default stays." in text


def test_a_form_with_fewer_seeds_than_its_table_is_said_to_have_them_and_shows_nothing() -> None:
    rows = [r for r in forms(FORMS, seeds=6) if r[0] != {**r[0], "form": "J relative", "seed": 5}]
    text = to_markdown(similarity.draw(rows, FACTS))
    assert "*K = 3, 6 seeds, nobody cheats*" in text
    line = next(line for line in text.splitlines() if line.startswith("| J relative (5 of 6 seeds) | 80"))
    assert "**" not in line
    assert "▼" not in to_markdown(similarity.draw(forms(FORMS, seeds=4), FACTS))


def test_a_form_that_wins_on_two_data_sets_and_loses_nowhere_meets_the_bar() -> None:
    aps = {"entente": 0.5, "fedavg": 0.5, "fedprox": 0.5, "fedopt": 0.5, "fedavg-n": 0.8, "J = 1": 0.8}
    both = [r for name in ("x", "y") for r in forms(aps, dataset=name)]
    assert "It is met by J = 1." in to_markdown(similarity.draw(both, FACTS))
    assert "No form meets it" in to_markdown(similarity.draw(forms(aps), FACTS))
    assert "No form meets it" in to_markdown(similarity.draw(both + forms(aps | {"fedopt": 0.9}, k=5), FACTS))


def test_forms_under_attack_stand_beside_their_own_clean_runs_and_entente() -> None:
    rows = forms(FORMS)
    for seed in range(5):
        for form in similarity.ATTACKED:
            for attack, ap in (("none", 0.6), ("replay", 0.4), ("sign flip", 0.6)):
                labels: dict[str, Label] = {"dataset": "x", "k": 3, "part": "attack"}
                labels |= {"form": form, "attack": attack}
                hit = ap - 0.1 * (form == "fedavg" and attack == "replay") + 0.001 * seed
                views = {"views": {"north": {"ap": hit}}}
                rows.append(row({**labels, "silos": "north", "seed": seed}, 0.1, outcome=views))
    text = to_markdown(similarity.draw(rows, FACTS))
    assert "| fedavg | 60.20 ± 0.16 | 30.20 ± 0.16 | -30.00 [-30.00, -30.00] ▼ | -10.00" in text
    assert "5 seeds; one silo cheats" in text


def test_two_silos_and_a_single_seed_are_said() -> None:
    described = {"dataset": "d", "k": 5, "split": "s", "description": "x", "silos": {"a": 1, "b": 2}}
    labels: dict[str, Label] = {"dataset": "d", "k": 5, "rule": "entente", "seed": 0}
    facts = {"command": "c", "seeds": 1, "data": [described]}
    assert "Multi-Krum is Krum" in to_markdown(rules.draw([row(labels, 0.5)], facts))
    described["silos"] = {"a": 1, "b": 2, "c": 3}
    assert "Multi-Krum is Krum" not in to_markdown(rules.draw([row(labels, 0.5)], facts))
    for seeds, said in ((1, "one seed"), (2, "2 seeds")):
        hit = [
            row({"dataset": "d", "part": "every attack", "rule": "r", "attack": "a", "seed": s}, 0.5)
            for s in range(seeds)
        ]
        page = Document("", every_attack(hit, {"r": "R"}))
        assert f"at its strongest, {said}" in to_markdown(page)


def test_the_scale_page_says_whether_ten_rounds_are_too_few() -> None:
    rows = [
        row({"dataset": "d", "k": 50, "silos": 50, "method": method, "seed": seed}, ap + 0.001 * seed)
        for seed in range(5)
        for method, ap in (
            ("entente", 0.1),
            ("fedavg", 0.2),
            ("entente, 30 rounds", 0.3),
            ("fedavg, 30 rounds", 0.2),
        )
    ]
    facts = {**FACTS, "data": [{"dataset": "d", "description": "x"}]}
    text = to_markdown(scale.draw(rows, facts))
    assert "AP -10.00 [-10.00, -10.00] and" in text
    assert "AP +10.00 [+10.00, +10.00] and AUC +0.00 [+0.00, +0.00] with 30 rounds (seeds: 5)" in text
    assert "| 50 (50), Entente, 30 rounds |" in text
