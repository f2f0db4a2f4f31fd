"""Rounds, metrics and artefacts for TensorBoard and MLflow: by name, from every runtime, on this machine."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

import entente
from entente.config import Data, Experiment, Federation
from entente.errors import UsageError
from entente.federation.records import RoundRecord, RoundScore, SiloRecord
from entente.registry import TRACKERS
from entente.runs.folder import RunFolder
from entente.runtime.local import train
from entente.runtime.trackers.base import Tracker, round_figures, tracking

RECORD = RoundRecord(
    kind="train",
    id=3,
    round=2,
    attempt=0,
    validation=RoundScore(ap=0.5, auc=0.75, silos=2),
    silos={"north": SiloRecord(j=0.5, norm=2.0, seconds=1.0), "south": SiloRecord(refused="not finite")},
    loss=0.25,
)


class Recorder(Tracker):
    name = "recorder"
    summary = "For tests."
    seen: list[object]

    def round(self, record: RoundRecord) -> None:
        self.seen.append(record.round)

    def finish(self, metrics: dict[str, float]) -> None:
        self.seen.append(metrics)

    def close(self) -> None:
        self.seen.append("closed")


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    seen: list[object] = []
    monkeypatch.setattr(Recorder, "seen", seen, raising=False)
    monkeypatch.setitem(TRACKERS._loaded, "recorder", Recorder)
    return seen


def test_a_tracker_is_told_every_round_and_the_test_figures(
    recorder: list[object], tiny: Path, tmp_path: Path
) -> None:
    data = Data(events=tiny / "events", silos=tiny / "silos.csv", train=2.4 * 86400, window=7200.0)
    settings = Experiment(data=data, federation=Federation(rounds=2))
    folder = RunFolder(tmp_path / "run")
    with tracking(["recorder", "recorder"], folder, settings) as watch:
        train(settings, folder, watch=watch, baselines=["rare-target"])
    *rounds, figures, closed = recorder
    assert rounds == [record.round for record in folder.rounds()]
    assert isinstance(figures, dict)
    assert figures["test/ap"] == folder.metrics().overall.ap
    assert "test/baseline/rare-target/auc" in figures
    assert closed == "closed"


def test_a_tracker_is_closed_and_not_finished_after_a_failure(recorder: list[object], tmp_path: Path) -> None:
    def fails() -> None:
        with tracking(["recorder"], RunFolder(tmp_path), Experiment()) as watch:
            watch(RECORD)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert recorder == [2, "closed"]


def test_nothing_is_tracked_unless_asked_and_an_unknown_name_is_refused(tmp_path: Path) -> None:
    with tracking((), RunFolder(tmp_path), Experiment()) as watch:
        watch(RECORD)
    assert list(tmp_path.iterdir()) == []
    with (
        pytest.raises(UsageError, match="no tracker 'tensorbord'"),
        tracking(["tensorbord"], RunFolder(tmp_path), Experiment()),
    ):
        pass


def test_the_figures_of_a_round_have_names_of_their_silos() -> None:
    found = dict(round_figures(RECORD))
    assert found["loss"] == 0.25
    assert found["validation/ap"] == 0.5
    assert found["refused"] == 1.0
    assert found["silo/north/norm"] == 2.0
    assert not any("south" in name for name in found)
    assert "lyon/loss" in dict(round_figures(RECORD.model_copy(update={"silo": "lyon"})))


def test_tensorboard_gets_event_files_below_the_run(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with tracking(["tensorboard"], RunFolder(tmp_path), Experiment()) as watch:
        watch(RECORD)
    read = EventAccumulator(str(tmp_path / "tracking" / "tensorboard"))
    read.Reload()
    assert [(event.step, event.value) for event in read.Scalars("validation/auc")] == [(2, 0.75)]


def test_mlflow_gets_a_database_below_the_run_and_a_resumed_run_goes_on_in_it(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    pytest.importorskip("alembic")
    folder = RunFolder(tmp_path)
    (tmp_path / "experiment.toml").write_text("seed = 0\n")
    for record in (RECORD, RECORD.model_copy(update={"round": 3})):
        with tracking(["mlflow"], folder, Experiment(name="tracked")) as watch:
            watch(record)
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
    with sqlite3.connect(tmp_path / "tracking" / "mlflow" / "mlflow.db") as database:
        rows = database.execute("select step, value from metrics where key = 'loss' order by step").fetchall()
        (runs,) = database.execute("select count(*) from runs").fetchone()
        seed = database.execute("select value from params where key = 'seed'").fetchone()
    assert rows == [(2, 0.25), (3, 0.25)]
    assert runs == 1
    assert seed == ("0",)
    assert list((tmp_path / "tracking" / "mlflow" / "artefacts").rglob("experiment.toml"))
    assert not (Path.cwd() / "mlruns").exists()


def test_the_library_tracks_by_name(recorder: list[object], tiny: Path, tmp_path: Path) -> None:
    settings = {"data": {"train": 2.4 * 86400, "window": 7200.0}, "federation": {"rounds": 1}}
    entente.train(
        settings, tmp_path / "run", events=tiny / "events", silos=tiny / "silos.csv", track=["recorder"]
    )
    assert recorder[0] == 1
