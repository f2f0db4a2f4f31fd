"""The loop that all targets share: an EntenteError is an answer, anything else is a finding."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import atheris

from entente.errors import EntenteError


def fuzz(targets: Mapping[str, Callable[[bytes], None]], usage: str) -> None:
    """Give libFuzzer the target that the command line names, and the rest of the command line."""
    if len(sys.argv) < 2 or sys.argv[1] not in targets:
        sys.exit(f"{usage}\ntargets: {', '.join(targets)}")
    target = targets[sys.argv.pop(1)]

    def one(data: bytes) -> None:
        try:
            target(data)
        except EntenteError:
            return

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
