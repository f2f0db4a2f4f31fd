"""`entente detect`: options first, then alerts, then the state; and nothing new is no failure."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from entente.cli import main
from entente.config import parse_experiment
from entente.logs.events import write_events
from entente.logs.schema import MICROSECONDS
from entente.runs.folder import RunFolder
from entente.runtime.local import train

HOUR = 3600
Call = Callable[..., "Answer"]


def events(first: int, last: int, *extra: tuple[int, str, str]) -> pa.Table:
    habits = [(i, 660 * i) for i in range(6)]
    rows = [(h * HOUR + s, f"h{i}", f"h{(i + 1) % 6}") for h in range(first, last) for i, s in habits]
    time, src, dst = zip(*rows, *extra, strict=True)
    times = pa.array([second * MICROSECONDS for second in time], pa.int64())
    return pa.table({"time": times, "src": src, "dst": dst})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over three days, and a night in which h0 contacts four hosts that it never did."""
    folder = tmp_path_factory.mktemp("detect")
    write_events(events(0, 72), folder / "events")
    attack = [(75 * HOUR + i, "h0", f"h{i}") for i in (2, 3, 4, 5)]
    write_events(events(72, 96, *attack), folder / "night")
    data = {"events": str(folder / "events"), "window": HOUR, "train": 48 * HOUR, "validation": 0.25}
    settings = {"data": data, "detector": {"name": "novelty-burst"}}
    train(parse_experiment(settings), RunFolder(folder / "run"), baselines=())
    return folder


@dataclass(frozen=True)
class Answer:
    exit_code: int
    stdout: str
    output: str


@pytest.fixture
def call(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    def run(*options: str) -> Answer:
        arguments = ["--run", str(folder / "run"), "--events", str(folder / "night"), *options]
        with pytest.raises(SystemExit) as end:
            main(["detect", *arguments])
        said = capsys.readouterr()
        return Answer(int(end.value.code or 0), said.out, said.out + said.err)

    return run


def alerts(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_alerts_are_written_and_the_next_call_finds_nothing_and_succeeds(call: Call, tmp_path: Path) -> None:
    state = ["--state", str(tmp_path / "memory")]
    first = call("--out", str(tmp_path / "a"), *state, "--json")
    assert first.exit_code == 0
    assert json.loads(first.stdout)["alerts"] == alerts(tmp_path / "a") == 4
    second = call("--out", str(tmp_path / "b"), *state)
    assert second.exit_code == 0
    assert "no event after 1970-01-05 00:00:00 UTC" in second.stdout
    assert alerts(tmp_path / "b") == 0


def test_a_log_that_ends_within_a_window_says_what_will_not_be_scored(
    call: Call, folder: Path, tmp_path: Path
) -> None:
    assert "later events" not in call("--out", str(tmp_path / "a")).stdout
    write_events(events(72, 80, (80 * HOUR + 600, "h0", "h1")), tmp_path / "cut")
    said = call("--out", str(tmp_path / "b"), "--events", str(tmp_path / "cut")).stdout
    assert "the log ends at 1970-01-04 08:10:00 UTC, within the window to 1970-01-04 09:00:00 UTC" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--out", "{tmp}/a", "--format", "syslog"], "no alert format 'syslog'"),
        (["--out", "{tmp}"], "is a directory"),
        (["--out", "{tmp}/file/below"], "cannot be written"),
    ],
)
def test_a_wrong_option_leaves_the_state_where_it_was(
    call: Call, tmp_path: Path, options: list[str], said: str
) -> None:
    (tmp_path / "file").write_text("")
    state = ["--state", str(tmp_path / "memory")]
    failed = call(*(option.format(tmp=tmp_path) for option in options), *state)
    assert failed.exit_code not in (0, 1)
    assert said in failed.output
    assert "Traceback" not in failed.output
    again = call("--out", str(tmp_path / "alerts"), *state)
    assert again.exit_code == 0
    assert alerts(tmp_path / "alerts") == 4


def test_alerts_that_cannot_be_written_are_found_again(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = ["--state", str(tmp_path / "memory")]

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    failed = call("--out", str(tmp_path / "alerts"), *state)
    monkeypatch.undo()
    assert failed.exit_code not in (0, 1)
    assert "No space left" in failed.output
    call("--out", str(tmp_path / "alerts"), *state)
    assert alerts(tmp_path / "alerts") == 4
