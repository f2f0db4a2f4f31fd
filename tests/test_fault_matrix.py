"""docs/fault-matrix.md names tests; they are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "fault-matrix.md"


@cache
def names_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] != "what"]


def test_every_row_has_a_promise_and_names_a_test() -> None:
    assert len(rows()) >= 40
    for row in rows():
        assert len(row) == 3, row
        assert row[1], row
        assert re.fullmatch(r"(`tests/[\w/]+\.py::test_\w+` ?)+", row[2]), row


def test_every_named_test_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE.read_text(encoding="utf-8"))
    missing = [f"{file}::{name}" for file, name in named if name not in names_in(file)]
    assert not missing


def test_every_fault_test_of_the_federation_is_in_the_matrix() -> None:
    """The suite of liars is the list of what was once found; nothing of it is left out of the page."""
    text = PAGE.read_text(encoding="utf-8")
    told = {
        "test_a_kind_of_megabytes_makes_a_short_refusal",
        "test_the_limit_can_be_switched_off_for_the_papers_tables",
    }
    for name in names_in("tests/federation/test_liars.py"):
        if name.startswith("test_") and name not in told:
            assert f"::{name}`" in text, f"{name} is not in {PAGE.name}"
