from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entente.config import Experiment
from entente.detectors.jbeil.detector import hidden_hosts
from entente.partition.base import read_silos
from entente.runs.folder import RunFolder
from entente.runtime.assembly import Dataset, load_dataset, trained_detector
from entente.runtime.evaluation import evaluate_models, evaluate_rule
from entente.runtime.local import fit
from entente_lab.bench.events import Prepared
from entente_lab.bench.link_prediction import ask, evaluate_links, single_events
from entente_lab.bench.measure import measure as measure_in
from entente_lab.bench.measure import seen_by_silos
from entente_lab.bench.methods import METHODS, change
from entente_lab.bench.paper import EULER, INDUCTIVE, TRANSDUCTIVE

SHORT = {"federation.rounds": 2}
TINY = {"detector.memory": 8, "detector.time": 8, "detector.embedding": 8, "federation.rounds": 1}


def measure(experiment: Experiment, options: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as work:
        return measure_in(experiment, options, Path(work))


def short(prepared: Prepared, method: str, seed: int = 0) -> Experiment:
    return change(METHODS[method].apply(EULER.experiment(prepared, seed)), SHORT)


def test_an_outcome_is_json_with_figures_silos_curve_and_rounds(small_company: Prepared) -> None:
    outcome = measure(short(small_company, "entente"), {"task": "detection"})
    json.dumps(outcome, allow_nan=False)
    assert 0 <= outcome["values"]["ap"] <= 1
    assert outcome["values"]["bytes_up"] > 0
    assert set(outcome["per_silo"]) == set(small_company.sizes)
    assert len(outcome["curve"]["recall"]) == len(outcome["curve"]["precision"])
    assert {"j", "s", "d", "r", "norm"} <= set(outcome["rounds"][0]["silos"][next(iter(small_company.sizes))])


def test_the_same_cell_gives_the_same_figures(small_company: Prepared) -> None:
    experiment = short(small_company, "fedavg")
    first, second = (measure(experiment, {})["values"] for _ in range(2))
    timeless = [{k: v for k, v in values.items() if "seconds" not in k} for values in (first, second)]
    assert timeless[0] == timeless[1]


def test_a_cell_that_was_stopped_goes_on_to_the_same_figures(
    small_company: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from entente.runs.steps import Checkpoints

    experiment = change(short(small_company, "entente"), {"federation.rounds": 4})
    whole = measure(experiment, {})
    save, steps = Checkpoints.save, 0

    def stopped(self: Checkpoints, *step: Any) -> None:
        nonlocal steps
        steps += 1
        if steps == 6:
            raise OSError("pulled the plug")
        save(self, *step)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", stopped)
        with pytest.raises(OSError, match="plug"):
            measure_in(experiment, {}, tmp_path)
    left = [record.round for record in RunFolder(tmp_path / "run").rounds()]
    assert 0 < len(left) < 5
    again = measure_in(experiment, {}, tmp_path)
    assert [r["round"] for r in again["rounds"]] == [r["round"] for r in whole["rounds"]]
    for name in ("ap", "auc", "best_round", "bytes_up"):
        assert again["values"][name] == whole["values"][name]


@pytest.mark.parametrize("method", ["non-fl", "local-only", "fedopt", "fedprox", "novelty-burst"])
def test_every_kind_of_method_has_figures_per_silo(small_company: Prepared, method: str) -> None:
    outcome = measure(short(small_company, method), {"task": "detection"})
    assert set(outcome["per_silo"]) == set(small_company.sizes)
    assert outcome["values"]["ap"] is not None


@pytest.mark.parametrize("method", ["entente", "non-fl", "local-only"])
def test_permuting_test_labels_changes_nothing_that_was_trained(
    small_company: Prepared, method: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    experiment = short(small_company, method)
    dataset = load_dataset(experiment)
    rng = np.random.default_rng(0)
    mixed = Dataset(
        {
            name: replace(silo, test=replace(silo.test, label=rng.permutation(silo.test.label)))
            for name, silo in dataset.silos.items()
        },
        dataset.shape,
    )
    found = []
    for data in (dataset, mixed):
        folder = RunFolder(tmp_path_factory.mktemp("run") / "run")
        folder.begin(experiment, resume=False)
        models, facts = fit(experiment, folder, data)
        detectors = {name: trained_detector(experiment, data.shape, models, name) for name in data.silos}
        found.append((models, facts, evaluate_models(data, detectors, experiment.detection)))
    (one, facts, scored), (two, other_facts, other_scored) = found
    assert facts == other_facts
    assert scored.thresholds == other_scored.thresholds
    for owner, weights in one.items():
        assert all(np.array_equal(weights[name], two[owner][name]) for name in weights)
    for name, part in scored.scored.items():
        assert np.array_equal(part.score, other_scored.scored[name].score)
    assert scored.metrics().overall.ap != other_scored.metrics().overall.ap


def test_a_silo_s_share_of_the_central_scores_is_what_it_would_see(small_company: Prepared) -> None:
    experiment = short(small_company, "first-seen")
    central = load_dataset(change(experiment, {"mode": "non-fl"}))
    whole = evaluate_rule(central, "first-seen", experiment.detection).overall()
    owners = read_silos(small_company.silos).as_dict()
    parts = seen_by_silos(whole, owners, augmentation=True)
    own = load_dataset(experiment)
    assert {name: len(part.score) for name, part in parts.items()} == {
        name: silo.test.num_edges for name, silo in own.silos.items()
    }


# ---- link prediction -----------------------------------------------------------------------


def test_every_method_is_asked_about_the_same_pairs(small_company: Prepared) -> None:
    asked = []
    for method in ("entente", "non-fl", "edgebank"):
        experiment = METHODS[method].apply(TRANSDUCTIVE.experiment(small_company, 1))
        dataset = single_events(experiment, load_dataset(experiment))
        asked.append({name: ask(silo, 1, 0.0) for name, silo in dataset.silos.items()})
    for other in asked[1:]:
        assert set(other) == set(asked[0])
        for name, question in asked[0].items():
            for column in ("window", "src", "dst", "time"):
                ours, theirs = (getattr(q.candidates, column) for q in (question, other[name]))
                assert np.array_equal(ours, theirs)


def test_a_non_edge_keeps_source_and_moment_and_is_none_of_the_window_s_edges(
    small_company: Prepared,
) -> None:
    dataset = load_dataset(TRANSDUCTIVE.experiment(small_company, 0))
    for silo in dataset.silos.values():
        asked = ask(silo, 0, 0.0)
        pairs, edge, other = asked.candidates, asked.label == 0, asked.label == 1
        assert edge.sum() == other.sum() > 0
        for column in (pairs.window, pairs.src, pairs.time):
            assert column is not None
            assert np.array_equal(column[edge], column[other])
        windows = silo.test.window_of_edge().tolist()
        edges = set(zip(windows, silo.test.src.tolist(), silo.test.dst.tolist(), strict=True))
        drawn = zip(*(c[other].tolist() for c in (pairs.window, pairs.src, pairs.dst)), strict=True)
        assert not edges.intersection(drawn)


def test_the_inductive_test_asks_only_about_hidden_hosts(small_company: Prepared) -> None:
    dataset = load_dataset(INDUCTIVE.experiment(small_company, 0))
    for silo in dataset.silos.values():
        asked, unseen = ask(silo, 0, 0.3), hidden_hosts(silo.test, 0.3)
        pairs, edge = asked.candidates, asked.label == 0
        assert (unseen[pairs.src[edge]] | unseen[pairs.dst[edge]]).all()


@pytest.mark.parametrize("setting", [TRANSDUCTIVE, INDUCTIVE])
@pytest.mark.parametrize("method", ["entente", "non-fl"])
def test_jbeil_is_measured_by_link_prediction(small_company: Prepared, setting, method: str) -> None:  # type: ignore[no-untyped-def]
    experiment = change(METHODS[method].apply(setting.experiment(small_company, 0, 0.3)), TINY)
    outcome = measure(experiment, setting.options)
    json.dumps(outcome, allow_nan=False)
    assert 0 < outcome["values"]["ap"] <= 1
    assert set(outcome["per_silo"]) == set(small_company.sizes)


def test_edgebank_knows_recurring_pairs_from_drawn_ones(small_company: Prepared) -> None:
    experiment = METHODS["edgebank"].apply(TRANSDUCTIVE.experiment(small_company, 0))
    dataset = load_dataset(experiment)
    detectors = {name: trained_detector(experiment, dataset.shape, {"": {}}, name) for name in dataset.silos}
    values = evaluate_links(experiment, dataset, detectors, inductive=False)["values"]
    assert values["auc"] > 0.7


def test_memory_per_silo_is_measured_with_relative_folders_too(
    small_company: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from entente.config import parse_experiment
    from entente_lab.bench.scale import silo_memory

    folder = small_company.events.path.parent
    monkeypatch.chdir(folder.parent)
    table = short(small_company, "entente").model_dump(mode="json")
    near = {"events": f"{folder.name}/events", "silos": f"{folder.name}/{small_company.silos.name}"}
    found, errors = silo_memory(parse_experiment({**table, "data": {**table["data"], **near}}))
    assert not errors
    assert set(found) == set(small_company.sizes)
    assert all(figures["peak_mb"] > 0 for figures in found.values())
    gone = {**table["data"], "events": str(tmp_path / "nowhere")}
    found, errors = silo_memory(parse_experiment({**table, "data": gone}))
    assert not found
    assert all("nowhere" in reason for reason in errors.values())
