from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from entente.config import Experiment
from entente.detectors.jbeil.detector import hidden_hosts
from entente.partition.base import read_silos
from entente.runs.folder import RunFolder
from entente.runtime.assembly import Dataset, initial_model, load_dataset, trained_detector
from entente.runtime.evaluation import evaluate_baseline, evaluate_models
from entente.runtime.local import fit
from entente_lab.bench import ablation
from entente_lab.bench.events import Prepared
from entente_lab.bench.link_prediction import (
    AMONG_ALL,
    AMONG_DESTINATIONS,
    EDGE,
    ask,
    evaluate_links,
    single_events,
)
from entente_lab.bench.measure import last_model, model_digest, seen_by_silos
from entente_lab.bench.measure import measure as measure_in
from entente_lab.bench.methods import METHODS, change
from entente_lab.bench.paper import EULER, INDUCTIVE, TRANSDUCTIVE
from entente_lab.variants.on_weights import offer_rules

SHORT = {"federation.rounds": 2}
TINY = {"detector.memory": 8, "detector.time": 8, "detector.embedding": 8, "federation.rounds": 1}


def measure(experiment: Experiment, options: Mapping[str, Any]) -> dict[str, Any]:
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
            name: replace(silo, test=replace(silo.test, label=rng.permutation(cast(Any, silo.test.label))))
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
    whole = evaluate_baseline(central, "first-seen", experiment.detection).overall()
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
        pairs, edge = asked.candidates, asked.kind == EDGE
        windows = silo.test.window_of_edge().tolist()
        edges = set(zip(windows, silo.test.src.tolist(), silo.test.dst.tolist(), strict=True))
        for kind in (AMONG_DESTINATIONS, AMONG_ALL):
            other = asked.kind == kind
            assert edge.sum() == other.sum() > 0
            for column in (pairs.window, pairs.src, pairs.time):
                assert column is not None
                assert np.array_equal(column[edge], column[other])
            drawn = zip(*(c[other].tolist() for c in (pairs.window, pairs.src, pairs.dst)), strict=True)
            assert not edges.intersection(drawn)


def test_non_edges_are_drawn_among_destinations_as_jbeils_authors_do(small_company: Prepared) -> None:
    dataset = load_dataset(TRANSDUCTIVE.experiment(small_company, 0))
    beyond = 0
    for silo in dataset.silos.values():
        asked = ask(silo, 0, 0.0)
        parts = (silo.train, silo.validation, silo.test)
        targets = set(np.concatenate([part.dst for part in parts]).tolist())
        assert set(asked.candidates.dst[asked.kind == AMONG_DESTINATIONS].tolist()) <= targets
        beyond += len(set(asked.candidates.dst[asked.kind == AMONG_ALL].tolist()) - targets)
    assert beyond > 0  # the easier question is another one


def test_the_easier_non_edges_have_figures_of_their_own(small_company: Prepared) -> None:
    outcome = measure(change(TRANSDUCTIVE.experiment(small_company, 0, 0.5), TINY), TRANSDUCTIVE.options)
    assert {"ap", "auc", "ap_any", "auc_any"} <= set(outcome["values"])
    rule = METHODS["edgebank"].apply(TRANSDUCTIVE.experiment(small_company, 0, 0.5))
    easy = measure(rule, TRANSDUCTIVE.options)["values"]
    assert easy["ap_any"] >= easy["ap"]


def test_the_inductive_test_asks_only_about_hidden_hosts(small_company: Prepared) -> None:
    dataset = load_dataset(INDUCTIVE.experiment(small_company, 0))
    for silo in dataset.silos.values():
        asked, unseen = ask(silo, 0, 0.3), hidden_hosts(silo.test, 0.3)
        pairs, edge = asked.candidates, asked.kind == EDGE
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


def test_an_early_rounds_row_shows_that_rounds_model_and_not_the_best_so_far(
    small_company: Prepared, tmp_path: Path
) -> None:
    experiment = change(short(small_company, "entente"), {"federation.rounds": 3})
    dataset = load_dataset(experiment)
    folder = RunFolder(tmp_path / "run")
    folder.begin(experiment, resume=False)
    fit(experiment, folder, dataset)
    last = last_model(experiment, dataset, folder)
    saved = folder.checkpoints().load()
    assert saved is not None
    layout, _ = initial_model(experiment, dataset.shape)
    assert np.array_equal(layout.flatten(last), saved.coordinator[1]["current"])
    outcome = measure(experiment, {"model": "last"})
    assert outcome["model"] == model_digest({"": last})
    for variant in ("round 3, equal", "round 5, reference graph"):
        assert ablation.OPTIONS[variant]["model"] == "last"


def test_equal_weights_are_the_mean_similarity_and_do_not_double_r(small_company: Prepared) -> None:
    experiment = change(short(small_company, "entente"), {"federation.rounds": 1})
    usual, equal = measure(experiment, {}), measure(experiment, {"equal": True})
    first = [next(r for r in o["rounds"] if r["kind"] == "train")["silos"] for o in (usual, equal)]
    similarity = [silo["j"] for silo in first[0].values()]
    parts = [
        [silo["r"] - 0.2 * silo["s"] * silo["d"] for silo in silos.values()] for silos in first
    ]  # c1 * J
    assert parts[1] == pytest.approx([0.8 * np.mean(similarity)] * len(similarity), rel=1e-3)
    assert np.mean(parts[0]) == pytest.approx(np.mean(parts[1]), rel=1e-3)


def test_theorem_2_is_checked_against_the_gradients_of_the_run(small_company: Prepared) -> None:
    values = measure(change(short(small_company, "entente"), {"federation.epochs": 3}), {})["values"]
    assert values["gradient_norm"] > 0
    assert values["bound_needed"] == pytest.approx(0.01 * 3 * values["gradient_norm"])
    assert values["bound_least"] == 5.0
    assert values["update_norm"] > 0
    assert "bound_needed" not in measure(short(small_company, "fedavg"), {})["values"]


def test_methods_that_end_in_the_same_bits_have_the_same_digest(small_company: Prepared) -> None:
    found = {m: measure(short(small_company, m), {})["model"] for m in ("fedavg", "fedprox", "fedopt")}
    assert found["fedavg"] == found["fedprox"] != found["fedopt"]
    assert measure(short(small_company, "rare-target"), {})["model"] is None


def test_the_update_on_weights_shrinks_the_model() -> None:
    from entente.config import aggregation_options
    from entente.federation.aggregators import build
    from entente.federation.aggregators.base import Contribution, Layout

    offer_rules()
    layout = Layout(("w",), ((50,),), ("ENC",))
    rng = np.random.default_rng(0)
    current = rng.normal(size=50).astype(np.float32)
    sent = [(current + 0.1 * rng.normal(size=50)).astype(np.float32) for _ in range(3)]
    rule = build(aggregation_options({"rule": "entente-on-weights"}), layout)
    rule.begin(current)
    r = [rule.add(Contribution(f"s{n}", vector, 0.05)).r for n, vector in enumerate(sent)]
    expected = sum(weight * vector for weight, vector in zip(r, sent, strict=True)) / 3
    found = rule.finish()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert np.linalg.norm(found) < 0.3 * np.linalg.norm(current)


def test_as_published_nothing_stops_before_its_last_round() -> None:
    for setting in (EULER, TRANSDUCTIVE, INDUCTIVE):
        assert setting.changes["federation.patience"] >= setting.changes["federation.rounds"]


@pytest.mark.parametrize("rule", ["evidence", "evidence-young"])
def test_the_evidence_baselines_have_a_row(small_company: Prepared, rule: str) -> None:
    assert measure(METHODS[rule].apply(EULER.experiment(small_company, 0)), {})["values"]["ap"] is not None
