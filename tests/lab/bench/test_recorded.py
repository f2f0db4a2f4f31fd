from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.lab.bench.conftest import recorded

from entente_lab.bench import ablation, paper, results, rules, scale, similarity
from entente_lab.bench.cells import Cell
from entente_lab.bench.datasets import MADE_UP, SMALL, Library
from entente_lab.bench.document import Document, to_markdown
from entente_lab.bench.events import Prepared
from entente_lab.bench.grid import families
from entente_lab.bench.methods import RULES, change
from entente_lab.bench.request import Request
from entente_lab.bench.robustness import plan as robustness
from entente_lab.bench.robustness.measure import measure_attack
from entente_lab.bench.similarity import ATTACKED, ATTACKS, BASELINES, FORMS

SEEDS = 2


@pytest.fixture
def request_(monkeypatch: pytest.MonkeyPatch, small_company: Prepared, out: Path) -> Request:
    """The recorded part, on a company that is made already."""

    def prepare(library: Library, name: str, k: int) -> Prepared:
        events = replace(small_company.events, name=name, rounds=15)
        return replace(small_company, events=events, k=k)

    monkeypatch.setattr(Library, "prepare", prepare)
    return Request(out, seeds=SEEDS, recorded=True)


def keys(cells: list[Cell], **labels: object) -> set[str]:
    return {cell.key for cell in cells if all(cell.labels[name] == value for name, value in labels.items())}


def test_the_recorded_methods_are_euler_twice_for_every_k_and_both_of_jbeil(request_: Request) -> None:
    cells, _ = paper.plan(request_)
    found = {(str(cell.labels["detector"]), cell.labels["k"]) for cell in cells}
    eulers = {(name, k) for name in ("euler", "euler-mlp") for k in (2, 3, 4, 5)}
    assert found == eulers | {("jbeil-transductive", 4), ("jbeil-inductive", 4)}
    assert {cell.labels["dataset"] for cell in cells} == {SMALL}


def test_recorded_tables_share_the_runs_that_both_need(request_: Request) -> None:
    methods, rows, parts = (grid.plan(request_)[0] for grid in (paper, rules, ablation))
    assert keys(rows, rule="entente", k=5) | keys(rows, rule="fedavg-n", k=5) <= keys(methods, k=5)
    assert keys(parts, variant=ablation.DEFAULT) <= keys(methods, k=4)


@pytest.mark.parametrize("grid", [paper, rules, ablation, scale])
def test_every_table_has_the_baselines(grid, request_: Request) -> None:  # type: ignore[no-untyped-def]
    cells, _ = grid.plan(request_)
    names = {cell.experiment.detector.name for cell in cells}
    assert {rule.name for rule in RULES} <= names


def test_the_recorded_attacks_have_a_clean_run_each_and_all_seeds_for_the_papers(request_: Request) -> None:
    cells, _ = robustness.plan(request_)
    clean = [cell for cell in cells if cell.labels["part"] == "clean"]
    assert {cell.labels["rule"] for cell in clean} == {cell.labels["rule"] for cell in cells}
    papers = [cell for cell in cells if cell.labels["part"] == "paper's attack"]
    assert len(clean) == len(papers) == SEEDS * len(robustness.PAPER_RULES)
    once = {
        (cell.labels["attack"], cell.labels["seed"])
        for cell in cells
        if cell.labels["part"] == "every attack"
    }
    assert once == {(name, 0) for name in robustness.THREATS}
    assert len(families(cells, 1)) == SEEDS  # one process each


def test_an_attacked_cell_leaves_the_next_one_of_its_process_alone(
    small_company: Prepared, tmp_path: Path
) -> None:
    lab = robustness.Lab(small_company, robustness.busiest(small_company), seed=0)
    small = {"federation.rounds": 2, "detector.hidden": 8, "detector.embedding": 4}

    def views(cell: Cell, place: str) -> object:
        experiment = change(cell.experiment, small)
        return measure_attack(experiment, cell.options, tmp_path / place)["views"]

    before = views(lab.clean("fedavg"), "before")
    views(lab.matrix(["replay"], ["fedavg"])[0], "attacked")
    views(lab.matrix(["targeted rows"], ["fedavg"])[0], "rows")
    assert views(lab.clean("fedavg"), "after") == before


def test_the_table_about_j_has_every_form_for_all_seeds_and_attacks_for_the_first_five(
    request_: Request,
) -> None:
    cells, _ = similarity.plan(replace(request_, seeds=6, sources={"lanl-replay": request_.out}))
    seeds = {
        name: {c.labels["seed"] for c in cells if c.labels["part"] == part and c.labels["dataset"] == dataset}
        for name, part, dataset in (
            ("clean", "clean", SMALL),
            ("hit", "attack", SMALL),
            ("replay", "clean", "lanl-replay"),
        )
    }
    assert seeds == {"clean": set(range(6)), "hit": set(range(5)), "replay": set(range(5))}
    assert {cell.labels["k"] for cell in cells if cell.labels["dataset"] == "lanl-replay"} == {4}
    assert len(keys(cells, part="clean", dataset=SMALL, k=3)) == 6 * (len(FORMS) + len(BASELINES))
    assert len(keys(cells, part="attack")) == 5 * len(ATTACKED) * (1 + len(ATTACKS))


def test_rules_on_the_replay_are_for_the_k_that_leaves_five_silos(request_: Request) -> None:
    cells, _ = rules.plan(replace(request_, sources={"lanl-replay": request_.out}))
    assert {(c.labels["dataset"], c.labels["k"]) for c in cells} == {(SMALL, 5), ("lanl-replay", 16)}


@pytest.mark.parametrize(("folder", "page"), [("recorded", "results"), ("recorded-lanl", "results-lanl")])
def test_the_recorded_page_says_of_entente_what_its_records_show(folder: str, page: str) -> None:
    root = Path(__file__).parents[3] / "docs"
    tables = {
        grid: recorded(path)
        for grid in ("paper", "rules", "scale")
        if (path := root / "records" / folder / f"{grid}.parquet").exists()
    }
    blocks = [
        *results.standing(tables["paper"]),
        *results.off_zero(tables["paper"], tables["rules"], tables.get("scale", [])),
    ]
    drawn = to_markdown(Document("", blocks)).partition("\n\n")[2]
    assert drawn.strip() in (root / f"{page}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", MADE_UP)
def test_every_made_up_company_has_hosts_enough_for_its_sites(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Configured(Exception):
        pass

    def stop(config: object) -> None:
        raise Configured

    monkeypatch.setattr("entente_lab.simulator.simulate", stop)
    with pytest.raises(Configured):
        Library(tmp_path).events(name)
