"""What a report takes from a run folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from entente.config import Experiment, Graph, Privacy
from entente.detection.alerts import Alert
from entente.detection.metrics import pr_curve
from entente.detection.scores import read_scores
from entente.detection.table import write_table
from entente.detectors.base import GraphShape
from entente.errors import StorageError, UsageError
from entente.federation.records import BootstrapRecord, PrivacyRecord
from entente.report import build, render
from entente.report.run import method_name, privacy_statement
from entente.report.scored import infer_homes
from entente.runs.folder import RunFolder
from entente.runs.records import ModelCard, TrainingRecord

MakeRun = Callable[..., Path]


def test_a_run_is_read_whole(run_folder: Path) -> None:
    data = build(run_folder)
    assert data.method == "behaviour entente"
    assert data.title == "four sites: behaviour entente"
    assert dict(data.facts)["Seed"] == "3"
    assert dict(data.facts)["Malicious edges"] == "15"
    assert set(data.baselines) == {"first-seen", "pair-frequency", "rare-target", "novelty-burst"}
    assert set(data.per_silo) == {"berlin", "lyon", "osaka", "head-office"}
    assert len(data.rounds) == 12
    assert len(data.attack) == 15
    assert data.versions["torch"] == "2.13.0"
    assert data.curves["behaviour entente"].x[-1] == 1.0
    assert data.homes["berlin-ws04"] == "berlin"


def test_found_agrees_with_the_recall_of_the_metrics(run_folder: Path) -> None:
    data = build(run_folder)
    assert sum(bool(edge.found) for edge in data.attack) / len(data.attack) == data.overall.recall


def test_an_edge_that_two_silos_scored_counts_once_with_the_score_of_its_source_s_owner(
    new_run: MakeRun, columns: dict[str, Any]
) -> None:
    count = len(columns["score"])
    columns["own_source"] = [True] * count
    twice = {name: np.concatenate([np.asarray(values)] * 2) for name, values in columns.items()}
    twice["own_source"][count:] = False
    twice["score"][count:] += 0.3
    once: dict[Any, tuple[float, int]] = {}
    for *key, score, label in zip(
        *(columns[n] for n in ("window", "src", "dst", "score", "label")), strict=True
    ):
        once[tuple(key)] = max(once.get(tuple(key), (score, label)), (score, label))
    expected = pr_curve(*zip(*once.values(), strict=True))
    curve = build(new_run(twice)).curves["behaviour entente"]
    assert (curve.x, curve.y) == (expected.recall, expected.precision)


def test_alerts_are_read_and_none_is_raised(run_folder: Path) -> None:
    alert = Alert(0, 1, "a", "b", 1.0, 0.5, "high", "berlin", ("stored",), users=("frodo",), ports=(445,))
    write_table(run_folder / "alerts.parquet", [alert], {"known-pairs": 7})
    data = build(run_folder)
    assert data.alerts == (alert,)
    page = render(data)
    assert "frodo" in page
    assert "port 445" in page
    assert "7 pairs seen before" in page


def test_a_run_without_stored_alerts_says_how_to_get_them(run_folder: Path) -> None:
    (run_folder / "alerts.parquet").unlink()
    data = build(run_folder)
    assert data.alerts == ()
    assert "train --resume" in data.warnings[-1]


def test_only_the_experiment_and_the_metrics_must_be_there(run_folder: Path) -> None:
    for name in ("rounds.jsonl", "scores.parquet", "alerts.parquet"):
        (run_folder / name).unlink()
    data = build(run_folder)
    assert (data.rounds, data.alerts, data.attack) == ((), (), ())


@pytest.mark.parametrize("name", ["experiment.toml", "metrics.json"])
def test_an_unfinished_run_is_refused_with_a_remedy(run_folder: Path, name: str) -> None:
    (run_folder / name).unlink()
    with pytest.raises(UsageError, match=f"{name} is missing\n.*entente train"):
        build(run_folder)


def test_damaged_files_are_named(run_folder: Path) -> None:
    (run_folder / "scores.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(StorageError, match=r"scores\.parquet.*not readable Parquet"):
        build(run_folder)
    (run_folder / "metrics.json").write_text("{}")
    with pytest.raises(StorageError, match=r"metrics\.json: has no version, this version of entente reads 1"):
        build(run_folder)


def test_without_labels_the_largest_incident_is_drawn(run_folder: Path) -> None:
    path = run_folder / "scores.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["label"]), path)
    data = build(run_folder)
    assert data.attack
    assert all(edge.found is None for edge in data.attack)
    assert data.curves == {}


def test_rounds_of_silos_that_train_alone_are_lines_of_their_own(run_folder: Path) -> None:
    path = run_folder / "rounds.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    lines = [json.dumps({**record, "silo": silo}) for silo in ("lyon", "osaka") for record in records]
    path.write_text("\n".join(lines) + "\n")
    data = build(run_folder)
    assert data.rounds == ()
    assert [len(rounds) for rounds in data.other_rounds.values()] == [12, 12]


def test_few_positives_and_a_better_rule_are_warned_of(run_folder: Path) -> None:
    metrics = RunFolder(run_folder).metrics()
    better = replace(metrics.baselines["rare-target"], ap=0.999)
    baselines = metrics.baselines | {"rare-target": better}
    RunFolder(run_folder).write_metrics(metrics.model_copy(update={"baselines": baselines}))
    warnings = " ".join(build(run_folder).warnings)
    assert "Only 15 malicious edges" in warnings
    assert "The baseline rare-target does as well as the model or better." in warnings


def test_a_host_belongs_to_the_silo_that_sees_it_as_its_own(tmp_path: Path) -> None:
    columns = {
        "window": [0] * 4,
        "src": ["a", "a", "b", "b"],
        "dst": ["b", "x", "a", "y"],
        "score": np.zeros(4, dtype=np.float32),
        "threshold": np.ones(4, dtype=np.float32),
        "alert": [False] * 4,
        "silo": ["north", "north", "north", "south"],
        "own_source": [True, True, False, True],
    }
    pq.write_table(pa.table(columns), tmp_path / "scores.parquet")
    homes = infer_homes(read_scores(tmp_path / "scores.parquet", 1800))
    assert homes == {"a": "north", "b": "south", "x": "north", "y": "south"}


def test_the_privacy_statement_fits_the_run() -> None:
    note = "two silos: each can work out the other's host count from the total"
    masked = BootstrapRecord(hosts=7, masked=True, similarity={}, share={}, notes=(note,))
    plain = " ".join(privacy_statement(Experiment(), None, masked))
    assert "no guarantee" in plain
    assert "shared index" in plain
    assert "only the total" in plain
    assert "Bootstrap: two silos" in plain
    hashed = Experiment(graph=Graph(identity="keyed-hash"), privacy=Privacy(mechanism="central"))
    noise = PrivacyRecord(mechanism="central", guarantee="epsilon 3 at delta 1e-05")
    training = {"": TrainingRecord(stopped=None, privacy=noise)}
    card = ModelCard(detector="euler", shape=GraphShape(8), training=training)
    said = " ".join(privacy_statement(hashed, card, None))
    assert "names did not leave a silo" in said
    assert "epsilon 3 at delta 1e-05" in said
    assert "only the total" not in said
    assert "one place" in privacy_statement(Experiment(mode="non-fl"), None, None)[0]
    assert "alone" in privacy_statement(Experiment(mode="local-only"), None, None)[0]


def test_a_method_is_called_by_what_it_does() -> None:
    assert method_name(Experiment(mode="local-only")) == "behaviour local-only"
    assert method_name(Experiment.model_validate({"detection": {"ensemble": "rare-target"}})) == (
        "behaviour entente with rare-target"
    )
    midas = {"detector": {"name": "midas"}}
    assert method_name(Experiment.model_validate(midas)) == "midas"
    suspecting = midas | {"detection": {"ensemble": "suspicion"}}
    assert method_name(Experiment.model_validate(suspecting)) == "midas with suspicion"
