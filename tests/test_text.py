"""Text from logs and silos on a terminal: it is shown, it does nothing."""

from __future__ import annotations

import unicodedata
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entente.cli import main
from entente.errors import LogError
from entente.text import MISLEADING, visible

CLEAR_SCREEN = "\x1b[2J"
OVERRIDE = "\u202e"


@given(st.text(), st.none() | st.integers(0, 20))
def test_nothing_that_acts_is_left_and_plain_text_stays(text: str, limit: int | None) -> None:
    shown = visible(text, limit)
    assert not any(unicodedata.category(c) in MISLEADING for c in shown)
    if limit is None and not any(unicodedata.category(c) in MISLEADING for c in text):
        assert shown == text


def test_escape_sequences_and_direction_marks_can_be_read() -> None:
    assert visible(f"a{CLEAR_SCREEN}b{OVERRIDE}c\ud800\U000e0041\r\n") == (
        "a\\u001b[2Jb\\u202ec\\ud800\\U000e0041\\u000d\\u000a"
    )
    assert visible("one\ntwo", keep="\n") == "one\ntwo"


def test_long_text_is_cut_and_says_so() -> None:
    assert visible("x" * 5_000_000, limit=10) == "x" * 10 + "…"
    assert visible("x" * 10, limit=10) == "x" * 10


def test_an_error_shows_what_a_log_or_a_file_name_holds_without_obeying_it() -> None:
    error = LogError(f"begins with {CLEAR_SCREEN}", where=f"evil{CLEAR_SCREEN}.log", remedy=f"or {OVERRIDE}")
    assert "\x1b" not in str(error)
    assert OVERRIDE not in str(error)
    assert error.where == f"evil{CLEAR_SCREEN}.log"


def test_ingest_shows_the_names_of_zip_members_harmlessly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = "1,U1@D,U1@D,C1,C2,NTLM,Network,LogOn,Success\n"
    with zipfile.ZipFile(tmp_path / "logs.zip", "w") as archive:
        archive.writestr(f"auth{CLEAR_SCREEN}.txt", row + "bad\n")
        archive.writestr(f"notes{CLEAR_SCREEN}.txt", "Dear diary\n")
        archive.writestr("more.txt", row)
    main_words = ["ingest", str(tmp_path), "--out", str(tmp_path / "events"), "-v"]
    with pytest.raises(SystemExit):
        main(main_words)
    told = capsys.readouterr()
    assert "auth\\u001b[2J.txt" in told.err + told.out
    assert "\x1b[2J" not in told.err + told.out
