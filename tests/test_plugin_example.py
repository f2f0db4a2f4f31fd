"""A package outside of this repository's own adds a baseline and a sink without touching a file of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from entente.logs.events import write_events
from entente_lab.simulator import SimulationConfig, simulate

ROOT = Path(__file__).parents[1]
EXPERIMENT = """
[data]
events = "events"
window = 7200
train = 129600
end = 216000

[detector]
name = "busy-source"
usual = 2
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment that sees the present one, with the example installed into it."""
    folder = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    fresh = folder / "venv" / "bin" / "python"
    own = subprocess.run(
        [fresh, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    seen = [path for path in sys.path if path and Path(path).is_dir() and "site-packages" in path]
    seen += [str(ROOT / "src"), sysconfig.get_path("purelib")]
    (Path(own.stdout.strip()) / "present.pth").write_text("\n".join(dict.fromkeys(seen)) + "\n")
    shutil.copytree(ROOT / "examples" / "plugin", folder / "plugin")
    done = subprocess.run(
        [
            fresh,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--no-build-isolation",
            "--no-index",
            folder / "plugin",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return fresh


def entente(python: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-m", "entente", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_both_plug_ins_keep_their_contracts(python: Path) -> None:
    for name in ("busy-source", "sentences"):
        done = entente(python, "check-plugin", name, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        found = json.loads(done.stdout)
        assert found["package"] == "entente-example"
        assert all(check["problem"] is None for check in found["checks"])


def test_an_experiment_file_uses_the_baseline_and_detect_the_sink(python: Path, tmp_path: Path) -> None:
    write_events(simulate(SimulationConfig(sites=1, hosts=40, days=3.0, seed=1)).events, tmp_path / "events")
    (tmp_path / "experiment.toml").write_text(EXPERIMENT)
    trained = entente(python, "train", tmp_path / "experiment.toml", "--out", tmp_path / "run", "--json")
    assert trained.returncode == 0, trained.stderr
    assert "rare-target" in json.loads(trained.stdout)["baselines"]
    wrong = entente(python, "train", tmp_path / "experiment.toml", "--set", "detector.usuall=3")
    assert wrong.returncode == 3
    assert "Did you mean 'usual'" in wrong.stderr
    assert "busy-source" in entente(python, "detectors").stdout
    asked = ("--run", tmp_path / "run", "--events", tmp_path / "events", "--out", tmp_path / "alerts.txt")
    found = entente(python, "detect", *asked, "--format", "sentences", "--json")
    assert found.returncode == 0, found.stderr
    lines = (tmp_path / "alerts.txt").read_text().splitlines()
    assert len(lines) == json.loads(found.stdout)["alerts"]
    assert all(" reached " in line for line in lines)
