"""The fuzzing harnesses start, and every target takes its own seeds without a finding."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from entente.errors import EntenteError

FUZZ = Path(__file__).parent.parent / "fuzz"


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The modules of fuzz/, with a stand-in for Atheris, which is an extra of its own."""
    monkeypatch.syspath_prepend(str(FUZZ))
    monkeypatch.setitem(sys.modules, "atheris", SimpleNamespace(instrument_imports=lambda **_: nullcontext()))
    yield import_module
    for name in ("harness", "readers", "seeds", "stored"):
        sys.modules.pop(name, None)


def test_what_is_stored_or_sent(harness: Any, tmp_path: Path) -> None:
    stored = harness("stored")
    stored.write_seeds(tmp_path)
    assert {folder.name for folder in tmp_path.iterdir()} == set(stored.TARGETS)
    for name, target in stored.TARGETS.items():
        for seed in (tmp_path / name).iterdir():
            target(seed.read_bytes())


def test_readers(harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["seeds.py", str(tmp_path)])
    harness("seeds").main()
    targets, seeds = harness("readers").TARGETS, sorted(tmp_path.iterdir())
    assert seeds
    for target in targets.values():
        for seed in seeds:
            with suppress(EntenteError):
                target(seed.read_bytes())
