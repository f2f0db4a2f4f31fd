"""What this installation was made from: version, commit, date of the build, Python, main packages."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files

STAMP = "build.json"
"""Written into the package by `make wheel`, absent in a working copy."""
PACKAGES = ("torch", "numpy", "duckdb", "polars", "pyarrow", "ibis-framework", "pydantic")


def build_facts() -> dict[str, str]:
    """Facts by name, in the order in which they are shown; nothing heavy is imported."""
    from entente import __version__

    facts = {"entente": __version__, "commit": "working copy", "built": "no"}
    stamp = files("entente") / STAMP
    if stamp.is_file():
        told = json.loads(stamp.read_text(encoding="utf-8"))
        facts |= {name: str(told[name]) for name in ("commit", "built") if name in told}
    facts |= {"python": platform.python_version(), "platform": platform.platform(terse=True)}
    return facts | {name: found for name in PACKAGES if (found := installed(name)) is not None}


def installed(name: str) -> str | None:
    """The version of an installed package; None if it is not there."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
