"""Tables of this package's data folder, by column."""

from __future__ import annotations

import csv
from importlib.resources import files


def rows(name: str) -> list[dict[str, str]]:
    """The rows of `data/<name>.csv`."""
    text = files(__package__).joinpath("data", f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def number(text: str) -> float | None:
    """A cell's number; None for an empty cell."""
    return float(text) if text else None
