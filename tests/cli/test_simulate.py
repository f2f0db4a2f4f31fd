"""`entente simulate` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from entente.cli import main


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(words)
    return int(end.value.code or 0)


def test_simulate_writes_the_files_it_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "company"
    assert run("simulate", str(out), "--sites", "2", "--hosts", "60", "--days", "2", "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert sorted(path.name for path in out.iterdir()) == [
        "attack.csv",
        "auth.txt.gz",
        "hosts.csv",
        "redteam.txt",
    ]
    assert sorted(summary["files"]) == sorted(str(path) for path in out.iterdir())
    assert summary["attack_events"] > 0


def test_simulate_says_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run("simulate", str(tmp_path), "--sites", "1", "--hosts", "60", "--days", "1", "--format", "csv") == 0
    )
    assert "events.csv" in capsys.readouterr().out


def test_too_few_hosts_is_one_message_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("simulate", str(tmp_path / "x"), "--hosts", "20") == 2
    error = capsys.readouterr().err
    assert "20 hosts do not fill 4 sites" in error
    assert "Traceback" not in error
    assert not (tmp_path / "x").exists()


def test_a_file_in_the_way_is_a_storage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("")
    assert run("simulate", str(tmp_path / "taken"), "--sites", "1", "--hosts", "60", "--days", "1") == 9
    assert "taken" in capsys.readouterr().err


def test_red_teams_are_chosen_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = ("--sites", "2", "--hosts", "60", "--days", "3", "--json")
    assert run("simulate", str(tmp_path), *size, "--red-team", "insider", "--red-team", "spread") == 0
    lines = (tmp_path / "attack.csv").read_text().splitlines()
    assert {line.rsplit(",", 1)[1] for line in lines[1:]} == {"insider", "spread"}
    capsys.readouterr()
    assert run("simulate", str(tmp_path), *size, "--red-team", "none") == 0
    assert json.loads(capsys.readouterr().out)["attack_events"] == 0
    assert run("simulate", str(tmp_path), *size, "--red-team", "worm") == 2
    assert "living-off-admin-paths" in capsys.readouterr().err


def test_the_lifelike_company_takes_its_parameters_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = ("--sites", "2", "--hosts", "60", "--days", "2", "--preset", "lifelike", "--format", "csv")
    assert run("simulate", str(tmp_path), *size, "--set", "typos=0.5") == 0
    assert ",false," in (tmp_path / "events.csv").read_text()
    assert run("simulate", str(tmp_path), *size, "--set", "coffee=1") == 2
    assert "admin_jobs" in capsys.readouterr().err
