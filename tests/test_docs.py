"""The documentation site is built without a warning and needs no network; its tutorials run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from entente.cli import COMMANDS, main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sphinx")
    pytest.importorskip("myst_parser")
    pytest.importorskip("pydata_sphinx_theme")
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", out / "trees", DOCS, out / "html"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return out / "html"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_searchable_and_needs_no_network(site: Path) -> None:
    assert (site / "searchindex.js").stat().st_size > 10_000
    assert (site / "search.html").is_file()
    for page in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?:)?//", page.read_text("utf-8"))
        assert loaded == [], page
    commands = (site / "generated" / "cli.html").read_text("utf-8")
    assert all(f'id="entente-{name}"' in commands for name in COMMANDS)
    surface = (site / "generated" / "api.html").read_text("utf-8")
    assert "entente.AnomalyDetector" in surface


@pytest.mark.slow
def test_every_page_is_part_of_the_site(site: Path) -> None:
    names = {page.stem for page in DOCS.glob("*.md")}
    assert names <= {page.stem for page in site.glob("*.html")}


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / "tutorials" / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.S)


def run_lines(page: str) -> None:
    for block in blocks(page, "sh"):
        for line in block.strip().splitlines():
            words = shlex.split(line, comments=True)
            assert words[0] == "entente"
            with pytest.raises(SystemExit) as end:
                main([*words[1:], "-q"])
            assert (end.value.code or 0) == 0, line


@pytest.mark.slow
def test_the_first_federation_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (experiment,) = blocks("first-federation.md", "toml")
    (tmp_path / "experiment.toml").write_text(experiment)
    run_lines("first-federation.md")
    assert (tmp_path / "together.html").stat().st_size > 10_000
    assert (tmp_path / "alone" / "metrics.json").is_file()


def test_the_tutorials_plug_in_keeps_its_contract(tmp_path: Path) -> None:
    from entente.registry import SINKS

    try:
        exec("\n".join(blocks("write-a-plugin.md", "python")), {"__name__": "tutorial"})
    finally:
        SINKS._loaded.pop("pairs", None)


@pytest.mark.slow
def test_the_small_table_is_made_as_the_tutorial_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_lines("reproduce-a-table.md")
    assert list((tmp_path / "bench").rglob("*.parquet"))
