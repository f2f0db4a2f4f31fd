"""Wheel and sdist: built here, complete, and installed in a fresh environment."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from entente import __version__

ROOT = Path(__file__).parents[1]
NEEDED = ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "CHANGELOG.md", "CITATION.cff", "Makefile")
FOLDERS = ("src", "docs", "experiments", "tools")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with wheel and sdist of a copy of this working copy."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("release")
    copy = folder / "entente"
    for name in FOLDERS:
        ignored = shutil.ignore_patterns("*.egg-info", "__pycache__", "_build", "generated", "build.json")
        shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    for name in NEEDED:
        shutil.copy(ROOT / name, copy / name)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1790000000", "ENTENTE_COMMIT": "0123abc"}
    subprocess.run([sys.executable, "tools/stamp.py"], cwd=copy, env=environment, check=True)
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", "."],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return folder / "dist"


@pytest.fixture(scope="module")
def python(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it; dependencies are borrowed from the present one."""
    folder = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    fresh = folder / "venv" / "bin" / "python"
    told = subprocess.run(
        [fresh, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    own = Path(told.stdout.strip())
    (wheel,) = built.glob("*.whl")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", fresh, "install", "-q", "--no-deps", "--no-index", wheel],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    present = [path for path in sys.path if "site-packages" in path and Path(path).is_dir()]
    (own / "zz_present.pth").write_text("\n".join(dict.fromkeys([sysconfig.get_path("purelib"), *present])))
    return fresh


def run(python: Path, *words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [str(python.parent / "entente"), *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env={**os.environ, "PYTHONPATH": ""}
    )


@pytest.mark.slow
def test_the_wheel_has_everything_that_is_read_at_run_time(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert wheel.name == f"entente-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    files = {path for path in (ROOT / "src").glob("entente*/**/*") if path.is_file()}
    own = {p.relative_to(ROOT / "src").as_posix() for p in files if not {"__pycache__"} & set(p.parts)}
    assert {name for name in own if ".egg-info" not in name} <= names
    assert not any(name.startswith(("tests/", "docs/")) for name in names)


@pytest.mark.slow
def test_the_sdist_has_what_a_build_and_a_reader_need(built: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"pyproject.toml", "LICENSE", "CHANGELOG.md", "src/entente/__init__.py", "docs/index.md"}
    assert wanted <= names


@pytest.mark.slow
def test_the_wheel_works_in_a_fresh_environment(python: Path, tmp_path: Path) -> None:
    told = run(python, "--version", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert f"entente {__version__}\ncommit 0123abc\nbuilt 2026-09-21\n" in told.stdout
    where = subprocess.run(
        [python, "-c", "import entente; print(entente.__file__)"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert str(python.parents[1]) in where.stdout
    made = run(python, "simulate", "company", "--hosts", 40, "--sites", 1, "--days", 1, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    read = run(python, "ingest", "company/auth.txt.gz", "--out", "events", "--json", cwd=tmp_path)
    assert json.loads(read.stdout)["rows"] > 100
    listed = run(python, "detectors", cwd=tmp_path)
    assert "behaviour" in listed.stdout
    (lines,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.S
    )
    asked = subprocess.run(
        [python, "-c", lines + "print(len(worst))"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout == "10\n"
