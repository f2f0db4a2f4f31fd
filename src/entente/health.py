"""What may be wrong with this machine or installation, found without changing anything: `entente doctor`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Literal

from entente.build import build_facts, installed
from entente.errors import EntenteError, PluginError, StorageError
from entente.registry import AGGREGATORS, DETECTORS, FORMATS, OUTPUTS, SINKS, SOURCES, TRACKERS

LITTLE, TOO_LITTLE = 5 << 30, 200 << 20
"""Free bytes below which a disk is a warning, and a problem."""
RELEASED = 1_790_000_000
"""Second at which this version existed: a clock before it is wrong."""
JAVA = 17
"""What PySpark needs."""
PATIENCE = 10.0
"""Seconds for a program that is asked for its version."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing that was looked at."""

    level: Literal["ok", "absent", "warning", "problem"]
    what: str
    said: str
    error: EntenteError | None = None


def examine(folder: Path) -> Iterator[Diagnosis]:
    """Everything in turn; `folder` is where results would be written."""
    facts = build_facts()
    built = f"{facts.pop('entente')} ({facts.pop('commit')}, built: {facts.pop('built')})"
    yield Diagnosis("ok", "entente", built)
    yield Diagnosis("ok", "python", f"{facts.pop('python')} on {facts.pop('platform')}")
    yield Diagnosis("ok", "packages", ", ".join(f"{name} {found}" for name, found in facts.items()))
    yield Diagnosis("ok", "machine", _machine())
    yield from _extras()
    yield from _plugins()
    yield from (_disk("disk", folder), _disk("scratch disk", Path(tempfile.gettempdir())))
    yield _clock()
    yield _java()


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{os.cpu_count()} cores, {memory:.1f} GB of memory"


def _extras() -> Iterator[Diagnosis]:
    """Which optional parts are installed: an absent one is no fault."""
    try:
        needed = requires("entente") or []
    except PackageNotFoundError:
        yield Diagnosis(
            "warning", "installation", "entente is run without being installed: no plug-in is found"
        )
        return
    extras: dict[str, list[str]] = {}
    for line in needed:
        package = re.match(r"[A-Za-z0-9._-]+", line)
        named = re.search(r"""extra == ['"]([^'"]+)['"]""", line)
        if package is not None and named is not None:
            extras.setdefault(named[1], []).append(package[0])
    for extra, names in sorted(extras.items()):
        lacking = [name for name in names if installed(name) is None]
        said = "installed" if not lacking else f"pip install 'entente[{extra}]' (lacks {', '.join(lacking)})"
        yield Diagnosis("absent" if lacking else "ok", f"extra {extra}", said)


def _plugins() -> Iterator[Diagnosis]:
    for registry in (DETECTORS, AGGREGATORS, FORMATS, SINKS, SOURCES, OUTPUTS, TRACKERS):
        broken = registry.broken()
        for name, error in broken.items():
            yield Diagnosis("problem", f"{registry.kind} {name}", str(error), error)
        if not registry.names():
            error = PluginError(f"no {registry.kind} is found", remedy="Install entente again.")
            yield Diagnosis("problem", registry.kind, str(error), error)
        elif not broken:
            yield Diagnosis("ok", f"{registry.kind}s", f"{len(registry.names())} found, all can be loaded")


def _disk(what: str, folder: Path) -> Diagnosis:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as failure:
        error = StorageError(f"cannot be looked at ({failure.strerror})", where=folder)
        return Diagnosis("problem", what, str(error), error)
    said = f"{free / (1 << 30):.1f} GB free at {folder}"
    if not os.access(folder, os.W_OK):
        error = StorageError("cannot be written to", where=folder, remedy="Choose another folder.")
        return Diagnosis("problem", what, str(error), error)
    if free < TOO_LITTLE:
        error = StorageError(f"only {free >> 20} MB are free", where=folder, remedy="Make room first.")
        return Diagnosis("problem", what, str(error), error)
    return Diagnosis("warning" if free < LITTLE else "ok", what, said)


def _clock() -> Diagnosis:
    """Certificates and logs both need the right time."""
    now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    if time.time() < RELEASED:
        return Diagnosis("warning", "clock", f"{now}: before this version existed; set the clock")
    told = _output("timedatectl", "show", "--property=NTPSynchronized", "--value")
    if told is not None and told.strip() == "no":
        return Diagnosis("warning", "clock", f"{now}, not synchronised: certificates and logs need the time")
    state = "synchronised" if told is not None and told.strip() == "yes" else "nobody says if synchronised"
    return Diagnosis("ok", "clock", f"{now}, {state}")


def _java() -> Diagnosis:
    told = _output("java", "-version")
    found = re.search(r'version "(\d+)', told or "")
    if found is None:
        return Diagnosis("absent", "java", f"not found; only `--engine pyspark` needs it ({JAVA} or later)")
    old = int(found[1]) < JAVA
    return Diagnosis(
        "warning" if old else "ok",
        "java",
        f"{found[1]}" + (f"; PySpark needs {JAVA} or later" if old else ""),
    )


def _output(*command: str) -> str | None:
    """What a program says, None where it is absent or does not answer."""
    path = shutil.which(command[0])
    if path is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - fixed programs, no shell # nosec B603
            [path, *command[1:]], capture_output=True, text=True, timeout=PATIENCE, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout + done.stderr
