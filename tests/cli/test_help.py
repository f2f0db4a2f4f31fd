"""Every command answers --help without loading what it does not need, and with an example."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from entente.cli import COMMANDS

HEAVY = ("torch", "duckdb", "ibis", "polars", "pyarrow", "sklearn", "nvflare", "pandas")
LISTS = {"formats", "detectors", "aggregators", "attacks"}


def imported_by(*arguments: str) -> tuple[str, set[str]]:
    code = (
        "import sys\nfrom entente.cli import main\n"
        f"try:\n    main({list(arguments)!r})\nexcept SystemExit:\n    pass\n"
        "print('\\nLOADED', *(m for m in sys.modules if '.' not in m))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    text, _, loaded = done.stdout.rpartition("LOADED")
    return text, set(loaded.split())


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_loads_nothing_heavy(command: str) -> None:
    text, loaded = imported_by(*([command] if command else []), "--help")
    assert "Usage" in text
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - LISTS - {"alerts", "bench", "federation"}))
def test_help_has_an_example(command: str) -> None:
    text, _ = imported_by(command, "--help")
    assert re.search(r"Example: entente " + command, text)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["train", "absent.toml"], 3, "absent.toml"),
        (["report", "absent"], None, "absent"),
        (["nonsense"], 2, "nonsense"),
        (["ingest", "absent.log", "--out", "x"], None, "absent.log"),
        (["detect", "--run", "absent", "--events", "x", "--out", "y"], None, "absent"),
        (["split", "absent", "--method", "column", "--column", "site", "--out", "x"], None, "absent"),
    ],
)
def test_a_mistake_is_one_message_and_a_numbered_exit_code(
    tmp_path_factory: pytest.TempPathFactory, arguments: list[str], code: int | None, said: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "entente", *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path_factory.mktemp("nowhere"),
        timeout=120,
    )
    assert done.returncode not in (0, 1)
    assert code is None or done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
