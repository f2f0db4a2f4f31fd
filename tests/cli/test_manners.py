"""Manners of the command line: completion, doctor, quiet, plurals, Ctrl-C, dates, build, nearest keys."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from entente import __version__
from entente.cli import COMMANDS, KEPT, main
from entente.detection.alerts import Alert
from entente.errors import PluginError, StorageError
from entente.health import Diagnosis, examine
from entente.service.alerts import AlertStore, Filter
from entente.service.config import load_watch
from entente.service.database import connect, transaction
from entente.service.service import DATABASE
from entente.service.suppression import Suppressions


def entente(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "entente", *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        timeout=280,
    )


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    return int(end.value.code or 0)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("entente fed", "federation"), ("entente train --re", "--resume"), ("entente alerts li", "list")],
)
def test_the_shell_completes_commands_and_options(typed: str, offered: str) -> None:
    place = str(len(typed.split()) - 1)
    done = entente(_ENTENTE_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=place)
    assert offered in done.stdout.splitlines()


def test_a_completion_script_is_shown_on_demand() -> None:
    done = entente("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_ENTENTE_COMPLETE=complete_bash" in done.stdout


def test_the_version_comes_with_what_it_was_built_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    lines = dict(line.split(" ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["entente"] == __version__
    assert {"commit", "built", "python", "torch", "duckdb"} <= set(lines)


def test_doctor_looks_at_everything_and_finds_nothing_wrong_here(tmp_path: Path) -> None:
    found = {one.what: one for one in examine(tmp_path)}
    assert {"entente", "python", "packages", "machine", "disk", "scratch disk", "clock", "java"} <= set(found)
    assert found["extra dev"].level == "ok"
    assert [one for one in found.values() if one.level == "problem"] == []


def test_doctor_names_a_disk_without_room_and_a_broken_plug_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("entente.health.TOO_LITTLE", 1 << 62)
    assert run("doctor", "--folder", tmp_path, "--json") == StorageError.exit_code
    told = capsys.readouterr()
    assert "Make room first" in told.err
    assert any(one["level"] == "problem" and one["what"] == "disk" for one in json.loads(told.out))
    broken = PluginError("detector 'x' cannot be imported")
    monkeypatch.setattr("entente.health.examine", lambda _: iter([Diagnosis("problem", "x", "y", broken)]))
    assert run("doctor", "-q") == PluginError.exit_code
    assert capsys.readouterr().out == ""


def test_quiet_commands_say_nothing_and_one_is_not_many(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    company, events, silos = tmp_path / "company", tmp_path / "events", tmp_path / "silos.csv"
    experiment = tmp_path / "experiment.toml"
    experiment.write_text(
        'detector.name = "rare-target"\n[data]\nevents = "events"\nsilos = "silos.csv"\ntrain = 100800\n'
    )
    steps = [
        ("simulate", company, "--hosts", 40, "--sites", 1, "--days", 2),
        ("ingest", company / "auth.txt.gz", "--out", events),
        ("split", events, "--method", "column", "--hosts", company / "hosts.csv", "--out", silos),
        ("train", experiment, "--out", tmp_path / "run"),
        ("report", tmp_path / "run"),
        ("rank", tmp_path / "run"),
        ("edges", events, "--window", 3600, "--out", tmp_path / "edges"),
        ("detect", "--run", tmp_path / "run", "--events", events, "--out", tmp_path / "alerts.json"),
    ]
    for step in steps:
        assert run(*step, "-q") == 0
        said = capsys.readouterr()
        assert (said.out, said.err) == ("", ""), step
    assert run(*steps[0]) == 0
    printed = capsys.readouterr().out
    assert "at 1 site in 2 days" in printed
    assert "all after 1970-01-0" in printed
    assert run(*steps[2]) == 0
    assert "1 silo ->" in capsys.readouterr().err


def test_a_quiet_service_and_a_quiet_benchmark_say_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from entente_lab.bench.document import Document
    from entente_lab.bench.request import Finished

    config = tmp_path / "service.toml"
    config.write_text(
        f'run = "run"\nfolder = "service"\n[[sources]]\nname = "zeek"\ntype = "spool"\npath = "{tmp_path}"\n'
    )
    folder = load_watch(config).folder
    folder.mkdir()
    counts = dict.fromkeys(("events", "windows", "alerts", "open_alerts", "pending"), 0)
    lists: dict[str, object] = {"sources": [], "outputs": [], "dropped": {}, "problems": ["look here"]}
    status = {"at": 0.0, "model": "m", "scored_until": None, "drift": 4.2, **counts, **lists}
    (folder / "status.json").write_text(json.dumps(status))
    monkeypatch.setattr("entente.service.service.Service.__init__", lambda *_: None)
    monkeypatch.setattr("entente.service.service.Service.run", lambda _, ready: ready())
    finished = Finished((), (Path("scale.md"),), Document("scale", ()))
    monkeypatch.setattr("entente_lab.bench.scale.run", lambda _: finished)
    for step in (("watch", config, "--status"), ("watch", config), ("bench", "scale", "--out", tmp_path)):
        assert run(*step, "-q") == 0
        assert capsys.readouterr() == ("", ""), step
        assert run(*step) == 0
        assert any(capsys.readouterr()), step


def test_changes_of_alerts_are_counted_and_can_be_quiet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = connect(tmp_path / DATABASE)
    with transaction(connection):
        AlertStore(connection).add([Alert(0, 1, "a", "b", 0.5, 0.4, "high", "x", ("new",))], Suppressions())
    one = AlertStore(connection).find(Filter())[0].alert.id
    connection.close()
    service = ("--service", tmp_path)
    assert run("alerts", "acknowledge", *service, one) == 0
    assert capsys.readouterr().out == "1 alert changed\n"
    assert run("alerts", "reopen", *service, one, "-q") == 0
    assert capsys.readouterr().out == ""
    assert run("alerts", "suppress", *service, one, "--reason", "known") == 0
    assert "1 open alert marked" in capsys.readouterr().out


def test_ctrl_c_says_what_was_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("entente.logs.ingest.plan", interrupted)
    assert run("ingest", "log", "--out", "events") == 130
    assert capsys.readouterr().err.strip() == "interrupted; " + KEPT["ingest"]
    assert set(KEPT) <= set(COMMANDS)
    monkeypatch.setattr("entente.logs.edges.engines.opened_table", interrupted)
    assert run("edges", "events", "--window", 60, "--out", "edges") == 130
    assert capsys.readouterr().err.strip() == "interrupted; " + KEPT["edges"]


def test_an_unknown_key_is_told_the_nearest_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text("[federation]\nround = 3\n")
    assert run("train", file) == 3
    assert "federation.round: unknown key. Did you mean 'rounds'?" in capsys.readouterr().err
    file.write_text("")
    assert run("train", file, "--set", "detectoin.false_alarms=0.1") == 3
    assert "Did you mean 'detection'?" in capsys.readouterr().err


def test_the_help_of_train_names_every_section(capsys: pytest.CaptureFixture[str]) -> None:
    from entente.config.page import described

    assert run("train", "--help") == 0
    said = capsys.readouterr().out
    for section in {one.path for one in described("entente") if one.path}:
        assert f"[{section}]" in said
