"""What the README shows works as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_the_commands_for_ones_own_logs_run_as_they_stand(tmp_path: Path) -> None:
    (block,) = re.findall(r"```sh\n(.*?)```", README, flags=re.S)
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", block],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "run.html").stat().st_size > 10_000
    assert "Traceback" not in done.stderr


def test_the_readme_starts_with_the_two_commands() -> None:
    lines = [line.strip() for line in README.splitlines()[1:5] if line.strip()]
    assert lines[0].startswith("make demo")
    assert lines[1].startswith("make test")


def test_every_page_the_readme_points_to_exists() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target
