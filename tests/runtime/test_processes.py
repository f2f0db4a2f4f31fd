"""Worker processes: who plays a silo there, and what their death or silence does to a run."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file as read_arrays

from entente.config import Experiment, to_toml
from entente.errors import ConfigError
from entente.federation.messages import TrainTask
from entente.runs.folder import RunFolder
from entente.runtime.assembly import Dataset, initial_model, load_dataset
from entente.runtime.local import train
from entente.runtime.participants import Participants
from entente.runtime.processes import ProcessTransport
from entente_lab.attacks import Attack, attackers

LONG = 240.0


@pytest.fixture(scope="module")
def dataset(experiment: Experiment) -> Dataset:
    return load_dataset(experiment)


@pytest.fixture
def transport(experiment: Experiment, dataset: Dataset, tmp_path: Path) -> Iterator[ProcessTransport]:
    file = tmp_path / "x.toml"
    file.write_text(to_toml(experiment))
    made = ProcessTransport(file, dict.fromkeys(dataset.silos, 1), len(dataset.silos))
    yield made
    made.close()


def task(experiment: Experiment, dataset: Dataset, round_: int) -> TrainTask:
    return TrainTask(round_, round=round_, weights=initial_model(experiment, dataset.shape)[1])


@pytest.mark.slow
def test_a_worker_that_dies_is_a_missing_silo_and_takes_part_again(
    experiment: Experiment, dataset: Dataset, transport: ProcessTransport
) -> None:
    names = sorted(dataset.silos)
    assert [reply.silo for reply in transport.ask(task(experiment, dataset, 1), LONG)[0]] == names
    before = transport.states()
    worker = transport._workers[0]
    os.kill(worker.process.pid, signal.SIGKILL)
    replies, missing = transport.ask(task(experiment, dataset, 2), LONG)
    assert sorted(missing) == list(worker.silos)
    assert "its process ended" in missing[worker.silos[0]]
    assert [reply.silo for reply in replies] == [name for name in names if name not in worker.silos]
    after = transport.states()
    assert sorted(after) == names  # a checkpoint without one silo could not be gone on from
    assert after[worker.silos[0]].facts == before[worker.silos[0]].facts
    assert transport.ready()
    replies, missing = transport.ask(task(experiment, dataset, 3), LONG)
    assert ([reply.silo for reply in replies], missing) == (names, {})


@pytest.mark.slow
def test_a_worker_that_hangs_is_a_missing_silo_at_the_deadline(
    experiment: Experiment, dataset: Dataset, transport: ProcessTransport
) -> None:
    transport.ask(task(experiment, dataset, 1), LONG)
    worker = transport._workers[0]
    os.kill(worker.process.pid, signal.SIGSTOP)
    replies, missing = transport.ask(task(experiment, dataset, 2), 30.0)
    assert missing[worker.silos[0]] == "no answer before the deadline"
    assert {reply.silo for reply in replies} == set(dataset.silos) - set(missing)
    assert not worker.alive
    assert transport.ready()
    assert worker.alive


@pytest.mark.slow
def test_a_worker_killed_between_two_rounds_changes_no_bit(
    experiment: Experiment, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[ProcessTransport] = []
    original = ProcessTransport.__init__

    def remember(self: ProcessTransport, *arguments: Any) -> None:
        original(self, *arguments)
        made.append(self)

    def kill(record: Any) -> None:
        if record.round == 2:
            worker = made[0]._workers[0].process
            worker.kill()
            worker.wait()

    monkeypatch.setattr(ProcessTransport, "__init__", remember)
    two = experiment.model_copy(update={"workers": 2})
    train(experiment, RunFolder(tmp_path / "serial"), dataset=dataset, baselines=())
    train(two, RunFolder(tmp_path / "killed"), dataset=dataset, baselines=(), watch=kill)
    assert made[0]._workers[0].starts == 2
    ours, theirs = (read_arrays(tmp_path / name / "model.safetensors") for name in ("killed", "serial"))
    assert all(ours[name].tobytes() == theirs[name].tobytes() for name in theirs)


@pytest.mark.slow
def test_a_participant_that_is_not_honest_plays_its_part_in_a_worker_too(
    experiment: Experiment, dataset: Dataset, tmp_path: Path
) -> None:
    cheat = attackers(Attack(name="sign-flip", silos=(min(dataset.silos),)))
    models = {}
    for workers, players in ((1, cheat), (2, cheat), (1, Participants())):
        folder = RunFolder(tmp_path / f"{workers}-{bool(players.make)}")
        short = experiment.federation.model_copy(update={"rounds": 2})
        settings = experiment.model_copy(update={"workers": workers, "federation": short})
        train(settings, folder, dataset=dataset, baselines=(), participants=players)
        arrays = read_arrays(folder.path / "model.safetensors")
        models[folder.path.name] = b"".join(arrays[name].tobytes() for name in sorted(arrays))
    assert models["1-True"] == models["2-True"] != models["1-False"]


def test_participants_that_cannot_be_made_are_a_configuration_error(
    experiment: Experiment, dataset: Dataset
) -> None:
    name = min(dataset.silos)
    for path in ("no.such.module:thing", "entente.runtime.local:nothing", ""):
        with pytest.raises(ConfigError, match="no participants"):
            Participants(path, (name,)).build(experiment, dataset, name)
