from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from entente.config import Experiment
from entente.detectors.behaviour.base_model import base_weights
from entente.detectors.behaviour.features import COLUMN
from entente.errors import UsageError
from entente.runs.folder import RunFolder
from entente.runtime.assembly import load_dataset, trained_detector
from entente.runtime.evaluation import evaluate_models
from entente.runtime.local import train
from entente_lab.attacks import Attack, attackers
from entente_lab.bench.behaviour import plan
from entente_lab.bench.behaviour.figures import figures
from entente_lab.bench.behaviour.injection import recipe_of
from entente_lab.bench.behaviour.methods import FAMILIES, INJECTION, PARTS, reference
from entente_lab.bench.behaviour.page import draw
from entente_lab.bench.behaviour.shared import content, shared_work, without_features
from entente_lab.bench.behaviour.suite import chosen_cheats, fit_silently, measure_pool, measure_suite
from entente_lab.bench.cells import Record, Store
from entente_lab.bench.datasets import Library
from entente_lab.bench.document import Document, Figure, write_markdown
from entente_lab.bench.events import Prepared
from entente_lab.bench.measure import model_digest
from entente_lab.bench.methods import change
from entente_lab.bench.plots import bars
from entente_lab.bench.request import Request
from entente_lab.bench.results import write_page


@pytest.fixture(scope="module")
def experiment(small_company: Prepared) -> Experiment:
    detector = {"name": "behaviour", "replicas": 2}
    return small_company.experiment(seed=3, federation={"rounds": 2}, detector=detector)


@pytest.fixture(scope="module")
def outcome(experiment: Experiment, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    methods = ["entente", "fedavg", "fedprox", "local-only", "evidence-young", "rare-target"]
    found = measure_suite(experiment, {"part": "clean", "methods": methods}, tmp_path_factory.mktemp("work"))
    methods_found: dict[str, Any] = found["methods"]
    return methods_found


@pytest.mark.parametrize("method", ["entente", "fedprox", "local-only"])
def test_a_cell_has_the_bits_of_entente_train(
    method: str, experiment: Experiment, outcome: dict[str, Any], tmp_path: Path
) -> None:
    run = train(change(experiment, PARTS["clean"][method].changes), RunFolder(tmp_path / "run"))
    values, overall = outcome[method]["values"], run.metrics.overall
    assert outcome[method]["model"] == model_digest(run.models)
    assert (values["ap"], values["recall_at_10"]) == (overall.ap, overall.recall_at["10"])
    assert values["per_source_window_ap"] == cast(Any, overall.per_source_window).ap
    assert values["silo_worst"] == min(one.ap for one in run.metrics.per_silo.values() if one.ap is not None)
    for rule in ("evidence-young", "rare-target"):
        assert outcome[rule]["values"]["ap"] == run.metrics.baselines[rule].ap


def test_the_base_model_alone_is_the_detector_before_its_first_round(
    experiment: Experiment, tmp_path: Path
) -> None:
    found = measure_suite(experiment, {"part": "clean", "methods": ["base model alone"]}, tmp_path)
    dataset = load_dataset(experiment)
    model = {"": base_weights()}
    detectors = {name: trained_detector(experiment, dataset.shape, model, name) for name in dataset.silos}
    outcome = found["methods"]["base model alone"]
    assert (
        outcome["values"]["ap"]
        == figures(evaluate_models(dataset, detectors, experiment.detection))["values"]["ap"]
    )
    assert (outcome["values"]["rounds"], outcome["values"]["bytes_up"]) == (0, 0)


def test_cheats_are_those_of_entente_train(experiment: Experiment, tmp_path: Path) -> None:
    dataset = load_dataset(experiment)
    cheats = chosen_cheats(dataset, 1)
    attack = attackers(Attack(name="label-flip", silos=cheats))
    with shared_work():
        models, _, _ = fit_silently(experiment, dataset, attack)
        honest, _, _ = fit_silently(experiment, dataset)
    run = train(experiment, RunFolder(tmp_path / "run"), participants=attack)
    assert model_digest(models) == model_digest(run.models) != model_digest(honest)


def test_examples_are_drawn_once_for_all_methods(experiment: Experiment) -> None:
    dataset = load_dataset(experiment)
    with shared_work() as told:
        fit_silently(experiment, dataset)
        made = told.made
        fit_silently(change(experiment, {"federation.aggregation.rule": "fedavg"}), dataset)
    assert made == told.made == 2 * len(dataset.silos)  # training and validation of each silo
    assert told.reused == made  # and each silo asked once, not in every round


@pytest.mark.parametrize(
    "dimension", ["targets: uniform", "pace of quick ones: within two hours", "sessions: none"]
)
def test_a_dimension_that_is_taken_away_is_not_served_the_examples_of_all_campaigns(
    dimension: str, experiment: Experiment
) -> None:
    dataset = load_dataset(experiment)
    with shared_work() as told:
        whole, _, _ = fit_silently(experiment, dataset)
        made = told.made
        with recipe_of(INJECTION[dimension]):
            narrowed, _, _ = fit_silently(experiment, dataset)
    assert told.made == 2 * made
    assert model_digest(narrowed) != model_digest(whole)


def test_the_key_of_shared_work_is_its_content() -> None:
    one, other = np.arange(5), np.arange(5)
    assert content((one, "a", None)) == content((other, "a", None))
    assert content(one) != content(one.astype(np.int32)) != content(one[:4])
    assert content(np.random.default_rng(1)) != content(np.random.default_rng(2))


def test_a_family_that_is_taken_away_says_nothing() -> None:
    from entente.detectors import behaviour

    detector: Any = behaviour.detector

    raw = np.ones((3, len(COLUMN)), dtype=np.float32)
    with without_features([COLUMN["new"], COLUMN["odd"]]):
        seen = detector.scaled(raw)
    assert not seen[:, [COLUMN["new"], COLUMN["odd"]]].any()
    assert seen[:, COLUMN["reverse"]].all()
    assert detector.scaled(raw)[:, COLUMN["new"]].all()


def test_pooled_figures_are_given_for_every_k(experiment: Experiment, tmp_path: Path) -> None:
    found = measure_pool(change(experiment, {"mode": "non-fl"}), {"ks": [2]}, tmp_path)["methods"]["pooled"][
        "2"
    ]
    assert len(found["per_silo"]) == 2
    assert found["values"]["silo_worst"] <= found["values"]["silo_mean"]


def test_an_attack_is_compared_with_the_same_rule_and_silos_where_nobody_cheats(
    experiment: Experiment, tmp_path: Path
) -> None:
    for part, lines in PARTS.items():
        for name in lines:
            assert reference(part, name) in lines, name
    for name, line in PARTS["cheats"].items():
        own = PARTS["cheats"][reference("cheats", name)]
        assert (own.changes, own.cheats, own.attack) == (line.changes, line.cheats, {})
    assert reference("noise", "no base model, sigma 3") == "no base model, no noise"
    methods = ["entente, nobody x 1"]
    found = measure_suite(experiment, {"part": "cheats", "methods": methods}, tmp_path)["methods"][methods[0]]
    whole = measure_suite(experiment, {"part": "clean", "methods": ["entente"]}, tmp_path / "clean")[
        "methods"
    ]
    assert found["model"] == whole["entente"]["model"]
    assert set(found["per_silo"]) == set(whole["entente"]["per_silo"]) - set(found["cheats"])


def test_a_stopped_cell_goes_on_after_its_last_method(experiment: Experiment, tmp_path: Path) -> None:
    options = {"part": "clean", "methods": ["first-seen", "rare-target"]}
    first = measure_suite(experiment, options, tmp_path)
    (tmp_path / "methods" / "001.json").unlink()
    (tmp_path / "methods" / "000.json").write_text('{"values": {"ap": 0.5}}')
    again = measure_suite(experiment, options, tmp_path)["methods"]
    assert again["first-seen"]["values"] == {"ap": 0.5}
    assert again["rare-target"]["values"]["ap"] == first["methods"]["rare-target"]["values"]["ap"]


def test_cells_of_many_methods_become_rows_and_a_page(out: Path, outcome: dict[str, Any]) -> None:
    rows: list[Any] = []
    for seed in (1, 2):
        record = Record(
            *("key", "done", {}, seed, "data", {}, "runner", "command", {}),
            outcome={"values": {}, "methods": outcome},
            seconds=1.0,
            peak_memory_mb=1.0,
            finished="now",
        )
        labels = {"dataset": "simulated", "k": 4, "part": "clean", "seed": seed}
        rows.append((labels, record))
    spread = plan.spread(rows)
    assert {labels["method"] for labels, _ in spread} == set(outcome)
    about = [{"dataset": "simulated", "k": 4, "silos": 2, "split": "by site"}]
    page = draw(spread, {"command": "entente bench behaviour", "rounds": 2, "data": about})
    tables = [block for block in page.blocks if hasattr(block, "rows")]
    assert [row[0].text.split(" = ")[0] for row in tables[0].rows][:2] == ["entente", "fedavg"]


def test_a_page_is_written_from_what_is_recorded_so_far(
    out: Path, outcome: dict[str, Any], tmp_path: Path
) -> None:
    cells, facts = plan.plan(Request(out, seeds=1, first_seed=7, only=("k=4", "part=clean,features")))
    store = Store(out)
    store.write_plan("behaviour", cells, facts)
    done = cells[1]
    store.write(
        Record(
            *(done.key, "done", {}, 7, done.data, {}, done.runner, "command", {"code": "other"}),
            outcome={"values": {}, "methods": outcome},
            seconds=1.0,
            peak_memory_mb=1.0,
            finished="now",
        )
    )
    write_page(out, "behaviour", tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "1 cells (0 failed)" in text
    assert "| fedavg |" in text
    assert "Without a family" not in text
    with pytest.raises(UsageError, match="no grid 'nothing'"):
        write_page(out, "nothing", tmp_path / "page.md")


def test_the_plan_obeys_its_filters_and_names_every_family(out: Path) -> None:
    request = Request(out, seeds=1, first_seed=7, only=("k=4", "part=features,clean"))
    cells, facts = plan.plan(request)
    assert [(cell.labels["part"], cell.labels["k"]) for cell in cells] == [
        *(("clean", None), ("clean", 4), ("features", 4))
    ]
    assert facts["seeds"] == [7]
    assert len(cells[-1].options["methods"]) == 1 + len(FAMILIES)
    assert all(cell.experiment.seed == 7 for cell in cells)


def test_a_plan_may_be_of_single_methods(out: Path) -> None:
    request = Request(out, seeds=1, only=("k=4", "part=clean,noise", "method=base model alone,fedavg"))
    cells, _ = plan.plan(request)
    assert [(cell.labels["part"], cell.options["methods"]) for cell in cells] == [
        ("clean", ["fedavg", "base model alone"])
    ]


def test_a_replay_without_a_folder_for_its_seed_is_an_error(tmp_path: Path) -> None:
    library = Library(tmp_path / "data", {"lanl-replay": tmp_path})
    with pytest.raises(UsageError, match="is no folder"):
        library.events("lanl-replay@41")


def test_drawings_lie_beside_a_markdown_page_and_old_ones_go(tmp_path: Path) -> None:
    groups: dict[str, dict[str, float | None]] = {
        "K = 3": {"entente": 0.5, "local-only": None},
        "K = 5": {"entente": 0.6, "local-only": 0.4},
    }
    page = tmp_path / "page.md"
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "page-9.svg").write_text("of a former page")
    two = Document(
        "Page", [Figure(bars("AP, mean", groups, "AP"), "Three seeds."), Figure(bars("none", {}, "AP"))]
    )
    written = write_markdown(page, two)
    assert [file.name for file in written] == ["page.md", "page-1.svg", "page-2.svg"]
    assert not (tmp_path / "figures" / "page-9.svg").exists()
    assert "![AP, mean](figures/page-1.svg)\n\nThree seeds." in page.read_text()
    assert written[1].read_text().count("<rect") == 3
