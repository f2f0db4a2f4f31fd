"""Every speed benchmark beside the repository, and the ratios they print."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entente.errors import UsageError


@dataclass(frozen=True, slots=True)
class Measured:
    """One benchmark's last line; `error` says why it has none."""

    name: str
    ratios: dict[str, Any]
    table: tuple[str, ...] = ()
    """The figures as lines of text, where ratios alone say too little."""
    error: str | None = None


def run(folder: Path, quick: bool, only: tuple[str, ...] = ()) -> Iterator[Measured]:
    """Run `folder`'s scripts one after the other, each in a process of its own.

    A benchmark is a script whose last line is JSON {"benchmark": name, "ratios": {...}}; a "table" beside the
    ratios is lines of text.
    """
    scripts = [
        path for path in sorted(folder.glob("*.py")) if '"benchmark"' in path.read_text(encoding="utf-8")
    ]
    known = {path.stem: path for path in scripts}
    if not known:
        raise UsageError(
            "no benchmarks here", where=folder, remedy="Give --folder the `benchmarks` folder of a checkout."
        )
    unknown = set(only) - known.keys()
    if unknown:
        raise UsageError(
            f"there is no benchmark {', '.join(sorted(unknown))}", remedy=f"Choose from: {', '.join(known)}."
        )
    for name in only or known:
        yield _measure(known[name], quick)


def _measure(script: Path, quick: bool) -> Measured:
    words = [sys.executable, str(script), *(["--quick"] if quick else [])]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words # nosec B603
    try:
        last = json.loads(done.stdout.splitlines()[-1])
        return Measured(last["benchmark"], last["ratios"], tuple(last.get("table", ())))
    except (IndexError, ValueError, KeyError, TypeError):
        told = (done.stderr.splitlines() or done.stdout.splitlines() or ["it printed nothing"])[-1]
        return Measured(script.stem, {}, error=f"exit code {done.returncode}: {told}")
