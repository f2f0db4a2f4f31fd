"""`entente federation` as typed: messages, exit codes, and the runbook's laptop part from end to end."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from entente.cli import main
from entente.deployment.audit import Audit

ROOT = Path(__file__).resolve().parents[2]


def entente(*words: object) -> int:
    """The exit code of one command."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def test_init_writes_a_file_and_never_over_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "federation.toml"
    assert entente("federation", "init", file, "--silos", "north, south") == 0
    assert 'silos = ["north", "south"]' in file.read_text()
    assert entente("federation", "init", file, "--silos", "other") == 2
    assert "exists already" in capsys.readouterr().err
    assert entente("federation", "init", tmp_path / "b.toml", "--silos", "Not A Name") == 3
    assert not (tmp_path / "b.toml").exists()


def test_provision_tells_where_each_kit_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("nvflare")
    file = tmp_path / "federation.toml"
    entente("federation", "init", file, "--silos", "north,south")
    capsys.readouterr()
    assert entente("federation", "provision", file, "--out", tmp_path / "f", "--json") == 0
    kits = json.loads(capsys.readouterr().out)
    assert set(kits) == {"coordinator", "north", "south"}
    assert entente("federation", "check", kits["north"]) == 0
    assert "does not answer yet" in capsys.readouterr().out
    assert entente("federation", "status", kits["coordinator"], "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["silos"] == {"north": "away", "south": "away"}
    assert entente("federation", "stop", kits["north"]) == 0
    assert "was not running" in capsys.readouterr().out
    assert entente("federation", "start", kits["north"], "--background") == 10
    assert "--events DIR" in capsys.readouterr().err
    assert entente("federation", "start", kits["coordinator"], "--events", tmp_path) == 2
    Path(kits["north"]).chmod(0o755)
    assert entente("federation", "check", kits["north"]) == 10
    assert "can be read by others" in capsys.readouterr().err


def test_mistakes_have_their_own_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entente("federation", "provision", tmp_path / "none.toml") == 3
    assert entente("federation", "status", tmp_path) == 10
    assert entente("federation", "submit", tmp_path / "e.toml", "--kit", tmp_path) == 10
    assert entente("federation", "audit", tmp_path / "none.jsonl") == 9
    assert "Traceback" not in capsys.readouterr().err


def test_audit_says_whole_or_where_it_breaks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    audit = Audit(tmp_path / "audit.jsonl", "north")
    for number in range(3):
        audit.append("task", task=number)
    assert entente("federation", "audit", audit.path, "--json") == 0
    assert json.loads(capsys.readouterr().out)["entries"] == 3
    lines = audit.path.read_text().splitlines()
    audit.path.write_text("\n".join([lines[0], lines[2]]) + "\n")
    assert entente("federation", "audit", audit.path) == 9
    assert "audit.jsonl:2: the chain is broken" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", ["init", "provision", "start", "submit", "status", "stop", "check", "audit", "revoke", "join"]
)
def test_every_command_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entente("federation", command, "--help") == 0
    assert "Example:" in capsys.readouterr().out


def test_help_does_not_load_flare_or_torch() -> None:
    code = (
        "import sys\nfrom entente.cli import main\n"
        "try:\n    main(['federation', 'submit', '--help'])\nexcept SystemExit:\n    pass\n"
        "sys.exit(any(name in sys.modules for name in ('nvflare', 'torch', 'duckdb')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0


def shell_blocks(page: Path, section: str) -> list[str]:
    """The shell blocks of one section of a page, in order."""
    text = page.read_text(encoding="utf-8").split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^```sh\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_runbooks_laptop_part_runs_as_written(tmp_path: Path) -> None:
    pytest.importorskip("nvflare")
    blocks = shell_blocks(ROOT / "docs" / "runbook.md", "On one laptop")
    assert len(blocks) >= 7
    script = "\n".join(blocks)
    for port in ("8102", "8103"):  # the page's ports may be taken where tests run
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            script = script.replace(port, str(probe.getsockname()[1]))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
    finally:
        for kit in (tmp_path / "federation" / "kits").glob("*"):
            main_stop = [sys.executable, "-m", "entente", "federation", "stop", str(kit)]
            subprocess.run(main_stop, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "done, round 5 of 5" in done.stdout
    assert "entries were also seen by" in done.stdout
