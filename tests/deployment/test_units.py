"""The systemd units are accepted by systemd's own checker."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = sorted((Path(__file__).parents[2] / "deploy").glob("*.service"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_is_accepted_by_systemd(unit: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    # The checker wants the program to exist, wherever it will be installed.
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/entente/bin/entente", shutil.which("true") or "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True)
    assert unit.name not in done.stderr, done.stderr
