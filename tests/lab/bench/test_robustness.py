"""The attack lab: what is planned, what a cell measures, what the page says about it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entente.federation.aggregators import available as aggregators
from entente.federation.records import RoundRecord
from entente.runtime.assembly import load_dataset
from entente_lab.attacks import Attack, attackers, available
from entente_lab.bench.cells import Cell, Record, Row
from entente_lab.bench.document import Table, to_html, to_markdown
from entente_lab.bench.events import Prepared
from entente_lab.bench.methods import change
from entente_lab.bench.robustness.cutoff import meeting_point
from entente_lab.bench.robustness.figures import aftermath
from entente_lab.bench.robustness.measure import cost, measure_attack, watched
from entente_lab.bench.robustness.page import draw
from entente_lab.bench.robustness.plan import (
    GAMMAS,
    KS,
    PAPER_STEPS,
    PUBLISHED,
    RULES,
    SHARES,
    THREATS,
    K,
    Lab,
    busiest,
)


@pytest.fixture(scope="module")
def lab(small_company: Prepared) -> Lab:
    return Lab(small_company, busiest(small_company), seed=0)


def labels_of(cells: list[Cell], name: str) -> set[Any]:
    return {cell.labels[name] for cell in cells}


def short(cell: Cell) -> Any:
    """The cell's experiment, small enough for a test."""
    return change(
        cell.experiment,
        {"federation.rounds": 2, "detector.hidden": 8, "detector.embedding": 4},
    )


def test_every_attack_and_every_rule_has_its_place(lab: Lab) -> None:
    assert {threat.attack for threat in THREATS.values()} == set(available())
    for name in RULES:
        assert lab.clean(name).experiment.federation.aggregation.rule in aggregators()


def test_the_story_holds_the_papers_steps_every_attack_and_a_clean_run_for_each_rule(lab: Lab) -> None:
    cells = lab.story(whole=True)
    steps = {(c.labels["p"], c.labels["gamma"]) for c in cells if c.labels["part"] == "paper's attack"}
    assert steps == set(PAPER_STEPS)
    assert labels_of(cells, "attack") == {"none", *THREATS}
    clean = {c.labels["rule"] for c in cells if c.labels["attack"] == "none"}
    assert clean == labels_of(cells, "rule") == set(RULES)
    alone = [c for c in cells if c.labels["part"] == "who cheats" and "+" not in str(c.labels["silos"])]
    assert {c.labels["silos"] for c in alone} == set(lab.prepared.sizes)


def test_the_full_grid_is_the_whole_product_without_doubles(lab: Lab) -> None:
    cells = lab.everything()
    assert len({cell.key for cell in cells}) == len(cells)
    replayed = [c for c in cells if c.labels["attack"] == "replay" and c.labels["rule"] == "entente"]
    groups = len(lab.groups())
    assert len(replayed) == len(GAMMAS) * len(SHARES) * groups
    free = [c for c in cells if c.labels["attack"] == "free rider"]
    assert len(free) == len(RULES) * groups  # gamma and p mean nothing to it


def test_the_quick_grid_is_small_and_part_of_nothing_else(lab: Lab) -> None:
    cells = Lab(lab.prepared, lab.order, 0, short=True).quick()
    assert len(cells) <= 40
    assert not {c.key for c in cells} & {c.key for c in lab.story(whole=True)}


def test_the_silo_that_sees_most_malicious_pairs_comes_first(lab: Lab) -> None:
    from entente.runtime.assembly import load_dataset

    dataset = load_dataset(lab.clean("entente").experiment)
    seen = {}
    for name, silo in dataset.silos.items():
        assert silo.test.label is not None
        bad = silo.test.label > 0
        seen[name] = len(set(zip(silo.test.src[bad].tolist(), silo.test.dst[bad].tolist(), strict=True)))
    assert seen[lab.order[0]] == max(seen.values())


@pytest.fixture(scope="module")
def measured(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    rows = []
    for cell in (
        lab.clean("entente"),
        lab.attacked("every attack", "entente", "replay", {"p": 1.0, "gamma": 100.0}),
        lab.attacked("paper's attack", "entente", "replay", {"p": 0.5, "gamma": 10.0}),
        lab.attacked("who cheats", "entente", "replay", {"p": 1.0, "gamma": 100.0}, lab.order[1:]),
    ):
        outcome = measure_attack(short(cell), cell.options, tmp_path_factory.mktemp("work"))
        rows.append((dict(cell.labels), record_of(cell, outcome)))
    return rows


def record_of(cell: Cell, outcome: dict[str, Any], status: Any = "done") -> Record:
    return Record(
        key=cell.key,
        status=status,
        experiment=cell.experiment.model_dump(mode="json"),
        seed=0,
        data=cell.data,
        options={},
        runner=cell.runner,
        command="entente bench robustness",
        versions={},
        outcome=outcome,
        seconds=1.0,
        peak_memory_mb=None,
        finished="",
        error=None if status == "done" else "broken",
    )


def test_a_cell_has_the_attackers_gain_and_the_clean_view_beside_it(measured: list[Row], lab: Lab) -> None:
    clean, attacked = measured[0][1], measured[1][1]
    assert {"", *lab.order} <= set(clean.outcome["views"])
    assert clean.values["epm"] == clean.values["epm_paper"] == 0.0
    assert (attacked.values["epm"] or 0) > 0
    for record in (clean, attacked):
        assert record.values["finite"] == 1.0
        for name in ("sr", "sr_loose", "sr_euler", "honest_sr", "auc", "honest_auc", "recall_at_10"):
            assert 0.0 <= (record.values[name] or 0.0) <= 1.0
        # A looser threshold never hides more.
        assert (record.values["sr_loose"] or 0) <= (record.values["sr"] or 0)
    beside = aftermath(measured, [measured[1]])[0]
    assert beside.clean == clean.outcome["views"][lab.order[0]]
    assert beside.rise("sr") == pytest.approx(beside.hit["sr"] - beside.clean["sr"])  # type: ignore[operator]


def test_a_run_that_breaks_down_is_a_result(lab: Lab, tmp_path: Path) -> None:
    cell = lab.attacked("every attack", "fedavg", "NaN / inf", {}, lab.order)
    outcome = measure_attack(change(short(cell), {"federation.retries": 0}), cell.options, tmp_path / "work")
    assert outcome["values"]["finite"] == 0.0
    assert "broken" in outcome["training"]
    assert outcome["values"].get("ap") is None


def test_the_page_tells_targets_worst_attacks_and_the_papers_numbers(measured: list[Row], lab: Lab) -> None:
    broken = lab.attacked("every attack", "entente", "Gaussian", {"gamma": 100.0})
    failed = record_of(broken, {}, "failed")
    gone = lab.attacked("every attack", "entente", "sign flip", {"gamma": 100.0})
    outcome = {"values": {"finite": 0.0}, "views": {}, "rounds": [], "training": {"broken": "why"}}
    rows = [*measured, (dict(broken.labels), failed), (dict(gone.labels), record_of(gone, outcome))]
    facts = {
        "command": "entente bench robustness",
        "seeds": 1,
        "cheats": {"simulated": lab.order[0]},
        "rules": {name: title for name, (title, _) in RULES.items()},
    }
    page = draw(rows, facts)
    text = to_markdown(page)
    for words in (
        "The worst attack against each rule",
        "Paper: replay on LANL",
        "9.30",
        "Who cheats",
        "sign flip",
    ):
        assert words in text
    assert "<svg" in to_html(page)
    tables = [block for block in page.blocks if isinstance(block, Table)]
    assert all(len(row) == len(table.columns) for table in tables for row in table.rows)


def test_a_run_that_stands_in_two_parts_counts_once(measured: list[Row]) -> None:
    labels, record = measured[1]
    twice = [measured[1], ({**labels, "part": "who cheats"}, record)]
    assert len(aftermath([*measured, *twice], twice)) == 1


def test_warnings_are_counted_for_and_against() -> None:
    def record(round_: int, *warnings: str) -> RoundRecord:
        return RoundRecord(
            kind="train", id=round_, round=round_, attempt=1, validation=None, silos={}, warnings=warnings
        )

    rounds = [record(1), record(2, "a: loud since round 1"), record(3, "a: loud since round 1", "c: idle")]
    assert watched(rounds, ("a",), 4) == {"warned": 1.0, "warned_round": 2.0, "accused": pytest.approx(1 / 3)}
    assert watched(rounds, (), 4)["accused"] == 0.5


def test_the_papers_tables_are_its_settings_every_step_each_silo_and_each_pair(lab: Lab) -> None:
    cells = lab.papers_tables()
    lanl = {(0.25, 5.0), (0.5, 5.0), (0.5, 25.0), (0.75, 25.0), (1.0, 100.0)}
    optc = {(0.1, 2.0), (0.25, 5.0), (0.5, 10.0), (1.0, 100.0), (0.5, 5.0), (1.0, 25.0)}
    for rule in PUBLISHED:
        steps = {(c.labels["p"], c.labels["gamma"]) for c in cells if c.labels["rule"] == rule}
        assert lanl | optc <= steps
    who = {c.labels["silos"] for c in cells if c.labels["part"] == "who cheats"}
    assert who == {"+".join(group) for group in lab.groups()}
    for cell in cells:
        assert cell.experiment.detector.name == "lab-euler"
        assert cell.experiment.federation.epochs == 1
        assert cell.experiment.federation.rounds == 30
        assert getattr(cell.experiment.federation.aggregation, "step_limit", 0.0) == 0.0
    assert (KS.get("lanl", K), KS.get("optc", K)) == (4, 3)


def test_epm_as_the_paper_counts_is_the_number_of_poisoned_windows(lab: Lab) -> None:
    for p in (1.0, 0.5):
        cell = lab.attacked("paper's attack", "entente-paper", "replay", {"p": p, "gamma": 5.0})
        dataset = load_dataset(cell.experiment)
        attack = Attack.model_validate(cell.options["attack"])
        found = cost(cell.experiment, dataset, attackers(attack))
        windows = next(iter(dataset.silos.values())).train.num_windows
        assert found["epm_paper"] == windows if p == 1.0 else 0 < found["epm_paper"] < windows
        assert found["epm"] <= found["epm_paper"]


scores = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=30)


@given(scores, scores)
def test_eulers_threshold_is_where_weighted_rates_meet(edges: list[float], others: list[float]) -> None:
    def gap(threshold: float) -> float:
        tpr = sum(score <= threshold for score in edges) / len(edges)
        fpr = sum(score <= threshold for score in others) / len(others)
        return abs(0.4 * tpr - 0.6 * (1 - fpr))

    found = meeting_point(np.array(edges, dtype=np.float32), np.array(others, dtype=np.float32))
    assert found is not None
    assert gap(found) == pytest.approx(min(gap(score) for score in {*edges, *others}))


def test_eulers_threshold_lies_between_known_edges_and_pairs_that_are_not() -> None:
    rng = np.random.default_rng(0)
    found = meeting_point(
        rng.normal(0, 1, 5000).astype(np.float32), rng.normal(4, 1, 5000).astype(np.float32)
    )
    assert found is not None
    assert 0.0 < found < 4.0
    assert meeting_point(np.empty(0, dtype=np.float32), np.ones(3, dtype=np.float32)) is None


def test_epsilon_by_the_papers_formula_stands_beside_the_accountants(lab: Lab, tmp_path: Path) -> None:
    for rule, certain in (("entente-cdp", True), ("entente-weak-dp", False)):
        cell = lab.clean(rule)
        values = measure_attack(short(cell), {}, tmp_path / rule)["values"]
        privacy, silos = cell.experiment.privacy, len(lab.prepared.sizes)
        sensitivity = 2 * (0.8 + 0.2 * 5.0) * 5.0 / silos if certain else 0.001
        expected = silos * sensitivity * math.sqrt(2 * math.log(1 / privacy.delta)) / privacy.sigma
        assert values["epsilon_paper"] == pytest.approx(expected)
        assert (values["epsilon"] is not None) == certain
