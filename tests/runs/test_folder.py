"""The records of a run folder: they come back as they were, and what was not written so is refused."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entente.config import Data, Experiment
from entente.detection.metrics import Metrics, evaluate
from entente.detectors.base import GraphShape
from entente.errors import StorageError, UsageError
from entente.federation.records import (
    BootstrapRecord,
    PrivacyRecord,
    RoundRecord,
    RoundScore,
    SiloRecord,
    Surplus,
)
from entente.graphs.identity import Collisions
from entente.runs.folder import RunFolder
from entente.runs.records import ModelCard, RunMetrics, TrainingRecord

CREDIT: dict[str, Any] = {"j": 0.5, "s": 1.0, "d": 0.1, "r": 0.6, "norm": 1.5, "shared": 0.2, "clipped": True}
TRAFFIC: dict[str, Any] = {"ap": 0.9, "auc": 0.8, "edges": 3, "bytes_up": 4, "bytes_down": 5, "seconds": 0.5}


def train_record(number: int = 1, **more: Any) -> RoundRecord:
    said: dict[str, Any] = {"loss": 0.5, "bound": 5.0, "aggregated": True, "warnings": ("b: refused",)}
    return RoundRecord(
        kind="train",
        id=number + 3,
        round=number,
        attempt=1,
        validation=RoundScore(ap=0.9, auc=0.8, silos=2),
        silos={"a": SiloRecord(**CREDIT, **TRAFFIC), "b": SiloRecord(refused="not finite")},
        surplus=(Surplus(silo="x", reason="unknown silo"),),
        **(said | more),
    )


def metrics() -> RunMetrics:
    figures = evaluate([0.1, 0.9, 0.4], [0, 1, 0], [0, 0, 1], 0.5, 60.0)
    return RunMetrics(overall=figures, per_silo={"a": figures}, baselines={"first-seen": figures})


def card() -> ModelCard:
    noise = PrivacyRecord(mechanism="none", guarantee="no guarantee")
    training = TrainingRecord(stopped="all 2 rounds are done", best_round=2, rounds=2, privacy=noise)
    return ModelCard(
        detector="euler",
        shape=GraphShape(64, 2),
        training={"": training},
        thresholds={"a": 0.5},
        collisions={"a": Collisions(10, 64, 0, 0.1, 2, 1.9)},
    )


def test_the_keys_of_rounds_jsonl_are_the_promised_ones(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    told = BootstrapRecord(hosts=7, masked=True, similarity={"a": 0.5}, share={}, notes=("two silos",))
    folder.append_round(train_record(1, bootstrap=told))
    last = train_record(2).model_copy(update={"kind": "validate", "silos": {"a": SiloRecord()}})
    folder.append_round(last)
    first, second = (json.loads(line) for line in (tmp_path / "rounds.jsonl").read_text().splitlines())
    shared = {"kind", "id", "round", "attempt", "validation", "silos", "surplus"}
    assert set(first) == shared | {"loss", "bound", "aggregated", "warnings", "privacy", "bootstrap"}
    assert set(first["silos"]["a"]) == {"refused", *CREDIT, *TRAFFIC}
    assert first["silos"]["b"] == {"refused": "not finite"}
    assert second["silos"] == {"a": {"refused": None}}
    assert shared <= set(second)


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    records = [train_record(1), train_record(2, silo="b", aggregated=False, loss=None)]
    folder.keep_rounds(records)
    assert folder.rounds() == records
    folder.write_metrics(metrics())
    assert folder.metrics() == metrics()
    weights = {"": {"w": np.arange(3, dtype=np.float32)}}
    folder.write_model(weights, card())
    models, found = folder.read_model()
    assert np.array_equal(models[""]["w"], weights[""]["w"])
    assert (found.thresholds, found.training, found.shape) == (
        card().thresholds,
        card().training,
        card().shape,
    )
    assert found.collisions == card().collisions
    assert found.best_round == 2


def test_a_round_cut_short_by_a_kill_is_left_out_but_damage_within_is_named(tmp_path: Path) -> None:
    folder, path = RunFolder(tmp_path), tmp_path / "rounds.jsonl"
    folder.keep_rounds([train_record(1)])
    whole = path.read_text()
    path.write_text(whole + '{"rou')
    assert folder.rounds() == [train_record(1)]
    path.write_text('{"rou\n' + whole)
    with pytest.raises(StorageError, match=r"rounds\.jsonl:1: is not JSON"):
        folder.rounds()
    path.write_text(whole + '{"round": 2}\n')
    with pytest.raises(StorageError, match=r"rounds\.jsonl:2: is not a record .*kind: Field required"):
        folder.rounds()


@pytest.mark.parametrize("name", ["metrics.json", "model.json"])
def test_a_file_of_another_version_is_refused_with_what_to_do(tmp_path: Path, name: str) -> None:
    folder, path = RunFolder(tmp_path), tmp_path / name
    read = folder.metrics if name == "metrics.json" else folder.card
    folder.write_metrics(metrics())
    folder.write_model({"": {}}, card())
    table = json.loads(path.read_text())
    for version, said in ((2, "version 2"), (None, "no version")):
        other = {key: value for key, value in table.items() if key != "version"}
        path.write_text(json.dumps(other if version is None else other | {"version": version}))
        with pytest.raises(StorageError, match=f"has {said}, this version of entente reads 1\n.*again"):
            read()


def test_a_changed_threshold_or_weight_is_noticed(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_model({"": {"w": np.ones(3, dtype=np.float32)}}, card())
    path = tmp_path / "model.json"
    whole = path.read_text()
    path.write_text(whole.replace('"a": 0.5', '"a": 0.6'))
    with pytest.raises(StorageError, match=r"model\.json: was changed or damaged"):
        folder.read_model()
    path.write_text(whole)
    weights = tmp_path / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(StorageError, match=r"model\.safetensors: was changed or damaged"):
        folder.read_model()


def test_every_field_of_the_metrics_is_stored(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_metrics(metrics())
    table = json.loads((tmp_path / "metrics.json").read_text())
    assert set(table["overall"]) == {field.name for field in fields(Metrics)}


def test_a_folder_is_held_by_one_process(tmp_path: Path) -> None:
    first, second = RunFolder(tmp_path).locked(), RunFolder(tmp_path).locked()
    with first, pytest.raises(UsageError, match="another process"), second:
        pass
    with RunFolder(tmp_path).locked():
        assert (tmp_path / ".lock").exists()


def test_a_run_does_not_go_on_with_other_events(tmp_path: Path) -> None:
    events, table = tmp_path / "events", tmp_path / "silos.csv"
    (events / "day=1970-01-01").mkdir(parents=True)
    part = events / "day=1970-01-01" / "part-0000.parquet"
    part.write_bytes(b"one")
    table.write_text("host,silo\n")
    experiment = Experiment(data=Data(events=events, silos=table))
    folder = RunFolder(tmp_path / "run")
    folder.begin(experiment, resume=False)
    folder.begin(experiment, resume=True)
    for path, other in ((part, b"two"), (table, b"host,silo\na,b\n")):
        before = path.read_bytes()
        path.write_bytes(other)
        with pytest.raises(UsageError, match="not those that the run began with"):
            folder.begin(experiment, resume=True)
        path.write_bytes(before)
    (events / "day=1970-01-02").mkdir()
    (events / "day=1970-01-02" / "part-0000.parquet").write_bytes(b"more")
    with pytest.raises(UsageError, match="not those that the run began with"):
        folder.begin(experiment, resume=True)


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity"])
def test_a_number_without_end_is_an_error_in_words(tmp_path: Path, number: str) -> None:
    folder = RunFolder(tmp_path)
    folder.write_metrics(metrics())
    stored = tmp_path / "metrics.json"
    stored.write_text(re.sub(r'"ap": [0-9.]+', f'"ap": {number}', stored.read_text()))
    with pytest.raises(StorageError, match=r"metrics\.json: is not readable JSON"):
        folder.metrics()
    folder.append_round(train_record(1))
    folder.append_round(train_record(2))
    rounds = tmp_path / "rounds.jsonl"
    rounds.write_text(rounds.read_text().replace('"loss": 0.5', f'"loss": {number}', 1))
    with pytest.raises(StorageError, match=r"rounds\.jsonl:1: is not JSON"):
        folder.rounds()
