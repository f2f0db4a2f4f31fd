"""A run in one machine: what it leaves, and that nothing is lost whatever happens to it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file as read_arrays

from entente.config import DetectorOptions, Experiment, to_toml
from entente.errors import ConfigError, Interrupted, LogError, UsageError
from entente.federation.messages import Task
from entente.federation.records import RoundRecord
from entente.runs.folder import RunFolder
from entente.runs.steps import Checkpoints
from entente.runtime.assembly import Dataset, load_dataset
from entente.runtime.local import train
from entente.runtime.transport import Answers, SerialTransport
from entente_lab.attacks import Attack, attackers


def with_settings(experiment: Experiment, **federation: Any) -> Experiment:
    return experiment.model_copy(update={"federation": experiment.federation.model_copy(update=federation)})


def weights_of(path: Path) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in read_arrays(path / "model.safetensors").items()}


@pytest.fixture(scope="module")
def dataset(experiment: Experiment) -> Dataset:
    return load_dataset(experiment)


@pytest.fixture(scope="module")
def undisturbed(experiment: Experiment, dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "a"
    train(experiment, RunFolder(folder), dataset=dataset, baselines=("first-seen",))
    return folder


def test_a_run_leaves_the_promised_files(undisturbed: Path, experiment: Experiment) -> None:
    assert RunFolder(undisturbed).experiment() == experiment
    metrics = json.loads((undisturbed / "metrics.json").read_text())
    assert set(metrics) == {"overall", "per_silo", "baselines", "short_history", "version", "sha256"}
    assert set(metrics["baselines"]) == {"first-seen"}
    assert {"ap", "auc", "fpr", "fdr", "recall_at", "alerts_per_day"} <= set(metrics["overall"])
    rounds = [json.loads(line) for line in (undisturbed / "rounds.jsonl").read_text().splitlines()]
    trained = [r for r in rounds if r["kind"] == "train"]
    assert [r["round"] for r in trained] == [1, 2, 3, 4]
    for record in trained:
        for silo in record["silos"].values():
            assert {
                "j",
                "s",
                "d",
                "r",
                "norm",
                "shared",
                "clipped",
                "refused",
                "bytes_up",
                "bytes_down",
                "seconds",
            } <= set(silo)
    scores = pq.read_table(undisturbed / "scores.parquet")
    assert {"window", "src", "dst", "score", "label", "silo"} <= set(scores.column_names)
    assert (undisturbed / "model.safetensors").exists()
    assert list((undisturbed / "checkpoints").iterdir())


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(
    undisturbed: Path, experiment: Experiment, dataset: Dataset, tmp_path: Path
) -> None:
    train(experiment, RunFolder(tmp_path / "b"), dataset=dataset, baselines=())
    assert weights_of(tmp_path / "b") == weights_of(undisturbed)
    other = experiment.model_copy(update={"seed": 1})
    train(other, RunFolder(tmp_path / "c"), dataset=dataset, baselines=())
    assert weights_of(tmp_path / "c") != weights_of(undisturbed)


def test_worker_processes_give_the_same_bits_as_one_loop(
    undisturbed: Path, experiment: Experiment, dataset: Dataset, tmp_path: Path
) -> None:
    parallel = experiment.model_copy(update={"workers": 2})
    train(parallel, RunFolder(tmp_path / "p"), dataset=dataset, baselines=())
    assert weights_of(tmp_path / "p") == weights_of(undisturbed)


class Cut(Exception):
    """Stands for kill -9: nothing runs after it."""


@pytest.mark.parametrize("phase", ["answering", "saving", "recorded"])
@pytest.mark.parametrize("step", [1, 3, 5, 7])
def test_resuming_after_a_cut_at_any_phase_ends_with_the_same_bits(
    undisturbed: Path,
    experiment: Experiment,
    dataset: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    phase: str,
    step: int,
) -> None:
    calls = 0

    def cut_at_step(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == step:
            raise Cut

    folder = RunFolder(tmp_path / "r")
    with monkeypatch.context() as patch:
        if phase == "answering":
            ask = SerialTransport.ask

            def cut_ask(self: SerialTransport, task: Task, deadline: float) -> Answers:
                answer = ask(self, task, deadline)
                cut_at_step()
                return answer

            patch.setattr(SerialTransport, "ask", cut_ask)
        elif phase == "saving":
            save = Checkpoints.save

            def cut_save(self: Checkpoints, *saved: Any) -> None:
                cut_at_step()
                save(self, *saved)

            patch.setattr(Checkpoints, "save", cut_save)
        else:
            append = RunFolder.append_round

            def cut_append(self: RunFolder, record: RoundRecord) -> None:
                append(self, record)
                cut_at_step()

            patch.setattr(RunFolder, "append_round", cut_append)
        try:
            train(experiment, folder, dataset=dataset, baselines=())
        except Cut:
            assert calls == step
    train(experiment, folder, resume=True, dataset=dataset, baselines=())
    assert weights_of(folder.path) == weights_of(undisturbed)
    ours, theirs = folder.rounds(), RunFolder(undisturbed).rounds()
    assert [(r.round, r.kind) for r in ours] == [(r.round, r.kind) for r in theirs]


@pytest.mark.slow
def test_a_killed_process_resumes_to_the_same_bits(
    undisturbed: Path, experiment: Experiment, tmp_path: Path
) -> None:
    file = tmp_path / "x.toml"
    file.write_text(to_toml(experiment))
    run = tmp_path / "r"
    command = [sys.executable, "-m", "entente", "train", str(file), "--out", str(run), "-q"]
    process = subprocess.Popen(command)
    limit = time.monotonic() + 120
    while time.monotonic() < limit and process.poll() is None:
        if (run / "rounds.jsonl").exists() and (run / "rounds.jsonl").read_text().count("\n") >= 2:
            break
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    subprocess.run([*command, "--resume"], check=True, timeout=200)
    assert weights_of(run) == weights_of(undisturbed)


def test_ctrl_c_is_a_clean_stop_that_says_how_to_go_on(
    experiment: Experiment, dataset: Dataset, undisturbed: Path, tmp_path: Path
) -> None:
    def interrupt(record: RoundRecord) -> None:
        if record.round == 2:
            raise KeyboardInterrupt

    folder = RunFolder(tmp_path / "i")
    with pytest.raises(Interrupted, match="--resume"):
        train(experiment, folder, dataset=dataset, watch=interrupt)
    train(experiment, folder, resume=True, dataset=dataset, baselines=())
    assert weights_of(folder.path) == weights_of(undisturbed)


def test_a_folder_is_not_overwritten_by_another_run(
    undisturbed: Path, experiment: Experiment, dataset: Dataset
) -> None:
    with pytest.raises(UsageError, match="--resume"):
        train(experiment, RunFolder(undisturbed), dataset=dataset)
    with pytest.raises(UsageError, match="another experiment"):
        train(with_settings(experiment, rounds=9), RunFolder(undisturbed), dataset=dataset, resume=True)


def test_a_mistake_in_the_data_does_not_claim_the_folder(experiment: Experiment, tmp_path: Path) -> None:
    wrong = experiment.data.model_copy(update={"events": tmp_path / "nothing"})
    with pytest.raises(LogError, match="does not exist"):
        train(experiment.model_copy(update={"data": wrong}), RunFolder(tmp_path / "run"))
    assert not RunFolder(tmp_path / "run").started
    train(experiment, RunFolder(tmp_path / "run"), baselines=())


def test_resuming_a_finished_run_changes_nothing(
    undisturbed: Path, experiment: Experiment, dataset: Dataset
) -> None:
    before = (weights_of(undisturbed), (undisturbed / "rounds.jsonl").read_bytes())
    train(experiment, RunFolder(undisturbed), dataset=dataset, resume=True, baselines=("first-seen",))
    assert (weights_of(undisturbed), (undisturbed / "rounds.jsonl").read_bytes()) == before


def test_local_only_trains_one_model_per_silo_and_non_fl_one_on_everything(
    experiment: Experiment, dataset: Dataset, tmp_path: Path
) -> None:
    alone = experiment.model_copy(update={"mode": "local-only"})
    run = train(alone, RunFolder(tmp_path / "local"), dataset=dataset, baselines=())
    assert sorted(run.models) == sorted(dataset.silos)
    models, _ = run.folder.read_model()
    assert {n: sorted(m) for n, m in models.items()} == {n: sorted(m) for n, m in run.models.items()}
    pooled = experiment.model_copy(update={"mode": "non-fl"})
    run = train(pooled, RunFolder(tmp_path / "pooled"), baselines=())
    assert list(run.evaluation.scored) == ["all"]


def test_a_rule_runs_like_a_model_without_weights(experiment: Experiment, tmp_path: Path) -> None:
    rule = experiment.model_copy(update={"detector": DetectorOptions(name="rare-target")})
    run = train(rule, RunFolder(tmp_path / "rule"), baselines=("rare-target",))
    assert run.metrics.overall.ap == run.metrics.baselines["rare-target"].ap


def test_an_attack_by_a_silo_that_does_not_exist_is_named(
    experiment: Experiment, dataset: Dataset, tmp_path: Path
) -> None:
    cheats = attackers(Attack(name="replay", silos=("mars",)))
    with pytest.raises(ConfigError, match="'mars'"):
        train(experiment, RunFolder(tmp_path / "x"), dataset=dataset, participants=cheats)


def test_test_labels_change_nothing_that_was_trained(
    experiment: Experiment, dataset: Dataset, undisturbed: Path, tmp_path: Path
) -> None:
    from dataclasses import replace

    rng = np.random.default_rng(0)
    silos = {
        name: replace(silo, test=replace(silo.test, label=rng.permutation(silo.test.label)))
        for name, silo in dataset.silos.items()
        if silo.test.label is not None
    }
    run = train(experiment, RunFolder(tmp_path / "x"), dataset=replace(dataset, silos=silos), baselines=())
    assert weights_of(tmp_path / "x") == weights_of(undisturbed)
    assert run.evaluation.thresholds == RunFolder(undisturbed).card().thresholds
