"""`entente ingest` and `entente formats` as a user meets them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from entente.cli import main
from entente.logs.formats import formats

ROW = "{},U1@D,U1@D,C{},C2,{},Network,LogOn,Success\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "auth.txt"
    path.write_text("".join(ROW.format(i, i % 4, "NTLM" if i % 2 else "Kerberos") for i in range(40)))
    return path


def run(*words: object) -> int:
    try:
        main([str(word) for word in words])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_auto_names_the_format_and_why(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ingest", log, "--out", tmp_path / "events") == 0
    told = capsys.readouterr()
    assert "auth.txt: lanl-auth (9 fields that end in Success" in told.err
    assert "40 events between 4 hosts" in told.out


def test_json_prints_the_manifest_and_nothing_else(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("ingest", log, "--out", tmp_path / "events", "--ntlm", "--json") == 0
    manifest = json.loads(capsys.readouterr().out)
    assert manifest["rows"] == 20
    assert manifest["filtered"] == {"not NTLM": 20}


def test_quiet_says_nothing(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ingest", log, "--out", tmp_path / "events", "-q") == 0
    told = capsys.readouterr()
    assert told.out + told.err == ""


def test_each_kind_of_failure_has_its_code_and_no_traceback(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "events"
    assert run("ingest", tmp_path / "missing", "--out", out) == 4
    assert run("ingest", log, "--out", out, "--engine", "abacus") == 2
    assert run("ingest", log, "--out", out, "--on-bad", "ignore") == 2
    assert run("ingest", log, "--out", out, "--map", "time") == 2
    (tmp_path / "map.toml").write_text("colums = {}\n")
    assert run("ingest", log, "--out", out, "--map", tmp_path / "map.toml") == 3
    log.write_text(log.read_text() + "broken\n")
    assert run("ingest", log, "--out", out, "--on-bad", "fail") == 4
    told = capsys.readouterr().err
    assert "auth.txt:41: bad row" in told
    assert "Traceback" not in told
    assert not out.exists()


def test_a_mapping_file_reads_any_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("t|from|to\n1000|x|y\n2000|x|z\n")
    (tmp_path / "map.toml").write_text(
        'delimiter = "|"\ntime_unit = "ms"\n[columns]\ntime = "t"\nsrc = "from"\ndst = "to"\n'
    )
    words = ["ingest", tmp_path / "a.txt", "--format", "csv", "--map", tmp_path / "map.toml"]
    assert run(*words, "--out", tmp_path / "events", "--json") == 0
    assert json.loads(capsys.readouterr().out)["last_time"] == 2_000_000
    assert run(*words, "--map", "dst=nowhere", "--out", tmp_path / "events") == 2


def test_a_person_at_a_terminal_sees_progress(log: Path, tmp_path: Path) -> None:
    reader, writer = pty.openpty()
    command = [sys.executable, "-m", "entente", "ingest", str(log), "--out", str(tmp_path / "events")]
    subprocess.run(
        command, stderr=writer, stdout=subprocess.DEVNULL, check=True, env={**os.environ, "TERM": "xterm"}
    )
    os.close(writer)
    shown = os.read(reader, 65_536).decode(errors="replace")
    os.close(reader)
    assert "rows/s" in shown


def test_formats_lists_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("formats") == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in formats())
    assert run("formats", "--json") == 0
    assert [entry["name"] for entry in json.loads(capsys.readouterr().out)] == list(formats())


@pytest.mark.parametrize("command", ["ingest", "formats"])
def test_help_loads_no_engine(command: str) -> None:
    code = (
        "import sys\nfrom entente.cli import main\n"
        f"try: main([{command!r}, '--help'])\nexcept SystemExit: pass\n"
        "heavy = {'ibis', 'duckdb', 'polars', 'pyarrow', 'numpy', 'pandas', 'torch'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Example: entente" in done.stdout
