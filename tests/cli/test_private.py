"""What a command writes holds names of hosts and users: nobody else on the machine can read it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from entente.cli import COMMANDS, main

HOUR = 3600


@pytest.fixture
def ordinary_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    assert os.umask(before) == 0o022  # a command gives it back


def call(*words: object) -> None:
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    assert end.value.code in (0, None)


def readable(folder: Path) -> list[str]:
    """What others may read or enter."""
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.stat().st_mode & 0o077]


@pytest.mark.usefixtures("ordinary_umask")
def test_events_and_edges_are_private(tmp_path: Path) -> None:
    out, given = tmp_path / "out", tmp_path / "given"
    given.mkdir()
    lines = ["time,src,dst", *(f"{1000 * i},10.0.0.{i % 5},10.0.0.{i % 3 + 5}" for i in range(30))]
    (given / "log.csv").write_text("\n".join([*lines, "soon,a,b"]) + "\n")
    call("ingest", given / "log.csv", "--format", "csv", "--out", out / "events", "-q")
    call("edges", out / "events", "--window", HOUR, "--out", out / "edges", "-q")
    written = {path.name for path in out.rglob("*")}
    assert {"quarantine", "part-0000.parquet", "_edges.json"} <= written
    assert not readable(out)


@pytest.mark.usefixtures("ordinary_umask")
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_writes_for_its_own_account_only(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def run(**_: object) -> None:
        seen.append(os.umask(0o077))

    monkeypatch.setattr("entente.cli.build", lambda words: run)
    main([command])
    assert seen == [0o077]
