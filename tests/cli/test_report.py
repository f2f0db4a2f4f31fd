"""`entente report`."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from entente.cli import main
from entente.config import Experiment, to_toml
from entente.detection.metrics import Metrics
from entente.runs.folder import RunFolder
from entente.runs.records import RunMetrics


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "experiment.toml").write_text(to_toml(Experiment(name="small")))
    unknown: dict[str, Any] = dict.fromkeys((field.name for field in fields(Metrics)), None)
    known = {"ap": 0.4, "auc": 0.9, "recall": 0.5, "positives": 8, "alerts_per_day": 3.0, "recall_at": {}}
    overall = Metrics(**(unknown | known | {"edges": 100}))
    rule = replace(overall, ap=0.1)
    RunFolder(folder).write_metrics(RunMetrics(overall=overall, per_silo={}, baselines={"first-seen": rule}))
    return folder


def call(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(words)
    return int(end.value.code or 0)


def test_the_page_lies_in_the_run_and_its_path_is_printed(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("report", str(run_folder)) == 0
    assert (run_folder / "report.html").read_text().startswith("<!doctype html>")
    said = capsys.readouterr().out
    assert "found 4 of 8 malicious edges" in said
    assert f"report: {run_folder / 'report.html'}" in said


def test_out_chooses_the_file_and_json_says_where(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "deep" / "page.html"
    assert call("report", str(run_folder), "--out", str(page), "--json") == 0
    assert page.is_file()
    assert json.loads(capsys.readouterr().out)["report"] == str(page)
    assert not (run_folder / "report.html").exists()


def test_a_folder_that_is_no_run_ends_in_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("report", str(tmp_path)) == 2
    said = capsys.readouterr().err
    assert "is not a finished run" in said
    assert "Traceback" not in said


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("report", "--help") == 0
    assert "Example: entente report" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["jsonl", "service"])
def test_what_detect_and_watch_raised_is_shown_beside_the_run(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    from entente.detection.alerts import Alert
    from entente.detection.sinks import write_alerts
    from entente.service.alerts import AlertStore
    from entente.service.database import connect, transaction
    from entente.service.suppression import Suppressions

    night = [
        Alert(
            i * 10**9,
            (i + 1) * 10**9,
            f"ws-{i}",
            f"ws-{i + 1}",
            1.0,
            0.5,
            "high",
            "porto",
            ("why",),
            incident="x",
        )
        for i in range(3)
    ]
    place = tmp_path / ("night.jsonl" if kind == "jsonl" else "service")
    if kind == "jsonl":
        write_alerts("jsonl", night, place)
    else:
        connection = connect(place / "service.db")
        with transaction(connection):
            AlertStore(connection).add(night, Suppressions())
        connection.close()
    assert call("report", str(run_folder), "--alerts", str(place)) == 0
    page = (run_folder / "report.html").read_text()
    assert page.index('id="incidents"') < page.index('id="alerts-section"') < page.index('id="figures"')
    assert "ws-2" in page
    assert "3 of them after the run" in page


def test_a_file_that_holds_no_alerts_is_named_with_its_line(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "night.jsonl").write_text("{}\n")
    assert call("report", str(run_folder), "--alerts", str(tmp_path / "night.jsonl")) == 9
    assert "night.jsonl:1: is not an alert" in capsys.readouterr().err
    assert call("report", str(run_folder), "--alerts", str(tmp_path / "none")) == 2
