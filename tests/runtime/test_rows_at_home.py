"""`detector.identities = "local"`: identity rows are trained by each silo and never leave it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file as read_arrays

from entente.config import Experiment, parse_experiment
from entente.detectors.euler.options import EulerOptions
from entente.errors import ConfigError, DetectorError
from entente.library.scoring import training_edges
from entente.logs.events import load_events, write_events
from entente.logs.schema import COLUMNS, MICROSECONDS
from entente.runs.folder import RunFolder
from entente.runs.steps import Checkpoints
from entente.runtime.assembly import Dataset, initial_model, load_dataset, make_detector, trained_detector
from entente.runtime.detecting import detect
from entente.runtime.local import train
from entente_lab.attacks import Attack, attackers

TABLE = "encoder.first.map.weight"


@pytest.fixture(scope="module")
def at_home(experiment: Experiment) -> Experiment:
    """The tiny company, of which the last day is left for detection."""
    data = experiment.data.model_copy(update={"end": 3 * 86400.0})
    detector = EulerOptions(hidden=8, embedding=4, identities="local")
    return experiment.model_copy(update={"data": data, "detector": detector})


@pytest.fixture(scope="module")
def dataset(at_home: Experiment) -> Dataset:
    return load_dataset(at_home)


@pytest.fixture(scope="module")
def undisturbed(at_home: Experiment, dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = RunFolder(tmp_path_factory.mktemp("run") / "a")
    train(at_home, folder, dataset=dataset, baselines=())
    return folder


def bits(folder: RunFolder) -> dict[str, bytes]:
    arrays = read_arrays(folder.path / "model.safetensors")
    return {name: array.tobytes() for name, array in arrays.items()}


def scores(folder: RunFolder) -> bytes:
    found: Any = pq.read_table(folder.path / "scores.parquet")["score"].to_numpy()
    return bytes(found.tobytes())


def test_the_common_model_has_no_rows_and_every_silo_has_its_own(
    undisturbed: RunFolder, dataset: Dataset, at_home: Experiment
) -> None:
    models, card = undisturbed.read_model()
    assert set(models) == {"", *dataset.silos}
    assert TABLE not in models[""]
    assert set(initial_model(at_home, dataset.shape)[1]) == set(models[""])
    tables = {name: models[name][TABLE] for name in dataset.silos}
    assert len({table.tobytes() for table in tables.values()}) == len(tables)
    assert list(card.training) == [""]
    fresh = make_detector(at_home, dataset.shape).own_weights()[TABLE]
    for name, table in tables.items():
        moved = np.flatnonzero((table != fresh).any(axis=1))
        assert len(moved)
        assert set(moved) <= set(dataset.silos[name].train.rows.reshape(-1))


def test_a_checkpoint_has_the_rows_in_the_silos_parts_alone(undisturbed: RunFolder, dataset: Dataset) -> None:
    saved = Checkpoints(undisturbed.path / "checkpoints").load()
    assert saved is not None
    shared = sum(array.size for array in undisturbed.read_model()[0][""].values())
    assert saved.coordinator.arrays["best"].size == saved.coordinator.arrays["current"].size == shared
    assert not any("encoder" in name for name in saved.coordinator.arrays)
    for name in dataset.silos:
        assert any(key.startswith("own/") and key.endswith(TABLE) for key in saved.silos[name].arrays)


def test_an_update_is_as_short_as_the_common_model(undisturbed: RunFolder) -> None:
    shared = sum(array.nbytes for array in undisturbed.read_model()[0][""].values())
    for record in undisturbed.rounds():
        if record.trained:
            assert {silo.bytes_up for silo in record.silos.values()} == {shared}


def test_worker_processes_give_the_same_bits(
    undisturbed: RunFolder, at_home: Experiment, dataset: Dataset, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "p")
    train(at_home.model_copy(update={"workers": 2}), folder, dataset=dataset, baselines=())
    assert bits(folder) == bits(undisturbed)
    assert scores(folder) == scores(undisturbed)


class Cut(Exception):
    """Stands for kill -9: nothing runs after it."""


@pytest.mark.parametrize("step", [3, 4, 6, 7])
@pytest.mark.parametrize("workers", [1, 2])
def test_cut_anywhere_and_resumed_it_ends_with_the_same_bits(
    undisturbed: RunFolder,
    at_home: Experiment,
    dataset: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: int,
    workers: int,
) -> None:
    if workers > 1 and step != 6:
        pytest.skip("once is enough")
    folder, calls, save = RunFolder(tmp_path / "r"), 0, Checkpoints.save

    def cut(self: Checkpoints, *saved: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == step:
            raise Cut
        save(self, *saved)

    parallel = at_home.model_copy(update={"workers": workers})
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", cut)
        with pytest.raises(Cut):
            train(parallel, folder, dataset=dataset, baselines=())
    train(parallel, folder, resume=True, dataset=dataset, baselines=())
    assert bits(folder) == bits(undisturbed)
    train(parallel, folder, resume=True, dataset=dataset, baselines=())  # a finished one, once more
    assert bits(folder) == bits(undisturbed)
    assert scores(folder) == scores(undisturbed)


def test_a_run_scores_again_as_it_did(undisturbed: RunFolder) -> None:
    parts = list(training_edges(undisturbed))  # training, validation and test windows of each silo
    again = np.concatenate([part.score for part in parts[2::3]])
    assert np.sort(again).tobytes() == np.sort(np.frombuffer(scores(undisturbed), again.dtype)).tobytes()


def later(at_home: Experiment, folder: Path) -> Path:
    events = load_events(at_home.data.events, list(COLUMNS), None, None)
    write_events(events.filter(pc.greater_equal(events["time"], 3 * 86400 * MICROSECONDS)), folder)
    return folder


def test_a_night_is_scored_with_each_silos_own_rows(
    undisturbed: RunFolder, at_home: Experiment, dataset: Dataset, tmp_path: Path
) -> None:
    night = detect(undisturbed, later(at_home, tmp_path / "night"))
    assert {finding.silo for finding in night.findings if finding.edges} == set(dataset.silos)
    models, card = undisturbed.read_model()
    one, other = sorted(dataset.silos)[:2]
    swapped = RunFolder(tmp_path / "swapped")
    for path in undisturbed.path.rglob("*"):
        target = swapped.path / path.relative_to(undisturbed.path)
        if path.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    swapped.write_model(models | {one: models[other], other: models[one]}, card)
    strange = detect(swapped, tmp_path / "night")
    assert night_scores(night) != night_scores(strange)


def night_scores(night: Any) -> list[tuple[str, str, float]]:
    return [(alert.src, alert.dst, alert.score) for alert in night.alerts]


def test_a_model_without_a_silos_rows_says_where_they_are(
    undisturbed: RunFolder, at_home: Experiment, dataset: Dataset
) -> None:
    models, _ = undisturbed.read_model()
    with pytest.raises(DetectorError, match="no identity rows of silo 'elsewhere'") as refused:
        trained_detector(at_home, dataset.shape, models, "elsewhere")
    assert "own run folder" in (refused.value.remedy or "")


def test_alone_a_silo_has_its_rows_in_its_model(
    at_home: Experiment, dataset: Dataset, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "alone")
    short = at_home.federation.model_copy(update={"rounds": 2})
    run = train(
        at_home.model_copy(update={"mode": "local-only", "federation": short}),
        folder,
        dataset=dataset,
        baselines=(),
    )
    assert set(run.models) == set(dataset.silos)
    assert all(TABLE in model and "projection.weight" in model for model in run.models.values())


def test_a_cheat_has_no_row_to_send(at_home: Experiment, dataset: Dataset, tmp_path: Path) -> None:
    attack = Attack(name="whisper", silos=(sorted(dataset.silos)[0],), p=0.5)
    run = train(
        at_home, RunFolder(tmp_path / "w"), dataset=dataset, baselines=(), participants=attackers(attack)
    )
    assert set(run.models) == {"", *dataset.silos}
    assert TABLE not in run.models[""]


def test_a_detector_without_identity_rows_has_no_such_setting() -> None:
    with pytest.raises(ConfigError, match="identities"):
        parse_experiment({"detector": {"name": "jbeil", "identities": "local"}})
    with pytest.raises(ConfigError, match="identities"):
        parse_experiment({"detector": {"name": "euler", "identities": "hashed"}})
