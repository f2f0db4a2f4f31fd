"""`entente detect`: options first, then alerts, then the state; and nothing new is no failure."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from entente.cli import main
from entente.config import parse_experiment
from entente.logs.events import load_events, write_events
from entente.logs.schema import MICROSECONDS
from entente.runs.folder import RunFolder
from entente.runtime.local import train
from entente_lab.simulator import SimulationConfig, simulate

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
    assert "no window is complete after 1970-01-04 23:00:00 UTC" in second.stdout
    assert "6 events from 1970-01-04 23:00:00 UTC on, waiting" in second.stdout
    assert alerts(tmp_path / "b") == 0


def some(table: pa.Table, *chosen: bool) -> pa.Table:
    return table.filter(pa.array(chosen))


def in_turn(call: Call, folder: Path, *logs: pa.Table) -> tuple[list[str], list[dict[str, Any]]]:
    """The alerts' ids and what was said, of logs that are read one after the other."""
    ids, said = [], []
    for number, log in enumerate(logs):
        write_events(log, folder / f"log{number}")
        out = folder / f"alerts{number}"
        options = ["--out", str(out), "--state", str(folder / "memory"), "--json"]
        said.append(json.loads(call("--events", str(folder / f"log{number}"), *options).stdout))
        ids += [json.loads(line)["id"] for line in out.read_text().splitlines()]
    return ids, said


def test_a_log_that_is_cut_within_a_window_loses_no_event_and_no_alert(
    call: Call, folder: Path, tmp_path: Path
) -> None:
    night = load_events(folder / "night")
    late = events(96, 97).cast(night.select(["time", "src", "dst"]).schema)
    cut = [time < 75 * HOUR * MICROSECONDS + 2 * MICROSECONDS + 1 for time in night["time"].to_pylist()]
    (tmp_path / "once").mkdir()
    all_of_it = pa.concat_tables([night.select(late.column_names), late])
    whole, (once,) = in_turn(call, tmp_path / "once", all_of_it)
    parts, (first, second) = in_turn(
        call,
        tmp_path,
        some(night, *cut),
        pa.concat_tables([some(night, *(not early for early in cut)).select(late.column_names), late]),
    )
    assert first["open_since"] == 74 * HOUR * MICROSECONDS  # five minutes after its end are not over yet
    assert first["waiting"] == 6 + 1 + 1  # an hour's habits, one more, and the first contact of the attack
    assert sorted(parts) == sorted(whole)
    edges = [sum(one["edges"] for one in said["silos"].values()) for said in (once, first, second)]
    assert edges[0] == edges[1] + edges[2]


def test_logs_that_overlap_count_an_event_once(call: Call, folder: Path, tmp_path: Path) -> None:
    night, twice = load_events(folder / "night"), load_events(folder / "night")
    _, (first, second) = in_turn(call, tmp_path, night, twice)
    assert first["waiting"] == second["waiting"] == 6


def test_an_event_that_is_written_late_is_merged_within_the_lateness_and_counted_beyond(
    call: Call, tmp_path: Path
) -> None:
    within = events(74, 76, (74 * HOUR - 60, "h0", "h3"))
    beyond = events(76, 77, (73 * HOUR - 60, "h0", "h4"))
    ids, (first, second, third) = in_turn(call, tmp_path, events(72, 74), within, beyond)
    assert first["late"] == second["late"] == 0
    assert third["late"] == 1
    assert len(ids) == 1  # h0 -> h3


def test_one_wrong_clock_does_not_lock_detection_out(call: Call, tmp_path: Path) -> None:
    """Of 100 rows or more, one in the future is not believed; what is ahead of our clock is set aside."""
    century = (100 * 365 * 24 * HOUR, "h0", "h3")
    wrong = events(72, 96, (96 * HOUR + 48 * HOUR, "h1", "h4"), century)
    later = events(96, 120, (97 * HOUR, "h0", "h2"))
    ids, (first, second) = in_turn(call, tmp_path, wrong, later)
    assert first["ahead"] == 1
    assert first["open_since"] == 95 * HOUR * MICROSECONDS
    assert second["late"] == 0
    assert len(ids) == 1


def test_without_a_state_the_last_window_is_scored_as_it_is(call: Call, tmp_path: Path) -> None:
    write_events(events(72, 80, (80 * HOUR + 600, "h0", "h4")), tmp_path / "cut")
    said = call("--out", str(tmp_path / "b"), "--events", str(tmp_path / "cut"), "--json")
    assert (json.loads(said.stdout)["alerts"], json.loads(said.stdout)["waiting"]) == (1, 0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--out", "{tmp}/a", "--format", "syslog"], "no alert format 'syslog'"),
        (["--out", "{tmp}"], "is a directory"),
        (["--out", "{tmp}/file/below"], "cannot be written"),
        (["--out", "{tmp}/pipe"], "is no regular file"),
    ],
)
def test_a_wrong_option_leaves_the_state_where_it_was(
    call: Call, tmp_path: Path, options: list[str], said: str
) -> None:
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
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


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("company")
    write_events(simulate(SimulationConfig(sites=2, hosts=120, days=4, seed=1)).events, folder / "events")
    return folder


def test_the_base_model_scores_a_log_that_nobody_trained_on_and_nights_go_on_from_there(
    company: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--run", str(company / "run"), "--events", str(company / "events"), "--model", "base"]
    with pytest.raises(SystemExit) as end:
        main(["detect", *options, "--out", str(company / "alerts.jsonl"), "--json"])
    assert not end.value.code
    found = [json.loads(line) for line in (company / "alerts.jsonl").read_text().splitlines()]
    assert json.loads(capsys.readouterr().out)["alerts"] == len(found) > 0
    metrics = json.loads((company / "run" / "metrics.json").read_text())
    assert metrics["overall"]["ap"] > 0.3
    with pytest.raises(SystemExit) as end:
        main(["detect", *options, "--out", str(company / "again.jsonl")])
    assert not end.value.code
    assert (company / "again.jsonl").read_text() == ""


def test_a_log_too_short_for_the_base_model_says_how_long_it_has_to_be(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--events", str(folder / "night"), "--out", str(tmp_path / "a"), "--model", "base"]
    with pytest.raises(SystemExit) as end:
        main(["detect", "--run", str(tmp_path / "run"), *options])
    assert end.value.code
    said = " ".join(capsys.readouterr().err.split())
    assert "first watches for 48" in said
    assert "--warm-up" in said
    assert not (tmp_path / "run").exists()
