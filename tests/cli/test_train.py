"""`entente train` says what there is too little of, instead of figures that mean nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pytest

from entente.cli import main
from entente.detectors.peers import Peers
from entente.errors import Interrupted
from entente.logs.events import write_events
from entente.logs.schema import MICROSECONDS
from entente.runs.folder import RunFolder

HOUR = 3600
EULER = ("detector.name=euler", "detector.hidden=4", "detector.embedding=4", "federation.rounds=1")
Train = Callable[..., tuple[str, str]]


@pytest.fixture
def train(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Train:
    """Trains on hours of a log of `pairs` edges an hour; what it printed, and its remarks in one line."""

    def run(hours: int, pairs: int, *settings: str, json_too: bool = False) -> tuple[str, str]:
        rows = [(h * HOUR + i, f"h{i}", f"h{i + 1}") for h in range(hours) for i in range(pairs)]
        time, src, dst = zip(*rows, strict=True)
        times = pa.array([second * MICROSECONDS for second in time], pa.int64())
        write_events(pa.table({"time": times, "src": src, "dst": dst}), tmp_path / "events")
        (tmp_path / "experiment.toml").write_text(f'[data]\nevents = "{tmp_path}/events"\nwindow = {HOUR}\n')
        sets = [part for setting in settings for part in ("--set", setting)]
        options = [*sets, "--out", str(tmp_path / "run"), *(["--json"] if json_too else [])]
        with pytest.raises(SystemExit) as end:
            main(["train", str(tmp_path / "experiment.toml"), *options])
        assert end.value.code in (0, None)
        said = capsys.readouterr()
        return said.out, " ".join(said.err.split())

    return run


def test_fewer_logs_than_the_training_span_are_said_and_no_table_of_dashes_is_shown(train: Train) -> None:
    table, said = train(24, 30, "data.train=172800", "detector.name=first-seen")
    assert "the events cover 1.0 days, data.train asks for 2.0 days" in said
    assert "no event is left to test on" in said
    assert "–" not in table
    assert "AP" not in table


def test_a_validation_too_small_to_mean_anything_shows_no_figures(train: Train) -> None:
    table, said = train(30, 2, "data.train=86400", *EULER)
    assert "the validation windows hold 4 edges, too few" in said
    assert "fewer than 999 validation edges cannot promise" in said
    assert "round 1: loss" in said
    assert " ap " not in said
    assert "the events carry no labels" in said
    assert "alerts/day" in table


def test_enough_of_everything_is_not_mentioned(train: Train) -> None:
    _, said = train(60, 90, "data.train=172800", "detection.false_alarms=0.01", *EULER)
    assert "too few" not in said
    assert "cannot promise" not in said
    assert "ap 0." in said or "ap 1." in said


def test_shortages_are_in_the_answer_for_machines(train: Train) -> None:
    answer, _ = train(24, 30, "data.train=172800", "detector.name=first-seen", json_too=True)
    assert set(json.loads(answer)["shortages"]) == {"training", "test", "validation", "threshold"}


@pytest.mark.parametrize("rank", [0, 1])
def test_of_the_processes_that_torchrun_starts_the_first_writes_and_the_others_help(
    rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with the same words; how they meet and train: tests/detectors/test_euler_batches.py."""
    (tmp_path / "experiment.toml").write_text('[data]\nevents = "events"\n')
    trained: list[Path] = []

    def run(settings: object, folder: RunFolder, **_: object) -> None:
        trained.append(folder.path)
        folder.path.mkdir()
        raise Interrupted("far enough")

    monkeypatch.setattr("entente.runtime.local.train", run)
    monkeypatch.setattr("entente.detectors.peers.joined", lambda: nullcontext(Peers(rank, 2)))
    with pytest.raises(SystemExit) as end:
        main(["train", str(tmp_path / "experiment.toml"), "--out", str(tmp_path / "run")])
    assert end.value.code == Interrupted.exit_code
    assert (trained == [tmp_path / "run"]) is (rank == 0)
    assert (tmp_path / "run").exists() is (rank == 0)
    assert trained[0].exists() is (rank == 0)  # a helper's folder is thrown away


def test_resume_does_not_go_with_torchrun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "experiment.toml").write_text('[data]\nevents = "events"\n')
    monkeypatch.setattr("entente.detectors.peers.joined", lambda: nullcontext(Peers(0, 2)))
    with pytest.raises(SystemExit) as end:
        main(["train", str(tmp_path / "experiment.toml"), "--resume"])
    assert end.value.code == 2
    assert "torchrun" in capsys.readouterr().err
