"""The notebooks are text, and run from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.py"))


def cells(notebook: Path) -> list[str]:
    """The code cells, in order."""
    parts = re.split(r"^# %%(.*)$", notebook.read_text(encoding="utf-8"), flags=re.M)[1:]
    return [code for kind, code in zip(parts[::2], parts[1::2], strict=True) if "[markdown]" not in kind]


def test_there_are_notebooks_to_explore_train_and_investigate() -> None:
    assert [path.stem for path in NOTEBOOKS] == [
        "explore_events",
        "look_into_an_incident",
        "train_over_silos",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in cells(notebook):
        exec(compile(cell, str(notebook), "exec"), names)
    wanted = {
        "explore_events": "busiest",
        "train_over_silos": "contributions",
        "look_into_an_incident": "timeline",
    }
    assert len(names[wanted[notebook.stem]]) > 0


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_jupytext_reads_a_notebook(notebook: Path) -> None:
    jupytext = pytest.importorskip("jupytext")
    read = jupytext.read(notebook)
    assert len([cell for cell in read.cells if cell.cell_type == "code"]) == len(cells(notebook))
