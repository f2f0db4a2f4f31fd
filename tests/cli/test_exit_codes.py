"""Every error a user can meet has a number of its own and a page that says what to do."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from entente import errors

PAGE = (Path(__file__).parents[2] / "docs" / "exit-codes.md").read_text(encoding="utf-8")
CLASSES = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, errors.EntenteError)
]


def test_no_two_errors_share_a_code() -> None:
    codes = [error.exit_code for error in CLASSES]
    assert len(set(codes)) == len(codes)
    assert 0 not in codes


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_an_error_is_listed_with_its_code_and_a_remedy(error: type[errors.EntenteError]) -> None:
    assert f"| {error.exit_code} | `{error.__name__}` |" in PAGE
    heading = f"## {error.exit_code}: `{error.__name__}`\n"
    assert heading in PAGE
    remedy = PAGE.split(heading)[1].split("\n## ")[0].strip()
    assert len(remedy) > 100


def test_the_page_lists_nothing_that_does_not_exist() -> None:
    named = set(re.findall(r"^\| \d+ \| `(\w+)`", PAGE, re.M))
    assert named == {error.__name__ for error in CLASSES}
