"""The small TOML file that says which column of a csv log or of a table is what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from entente.config import read_toml
from entente.errors import ConfigError
from entente.logs.formats.base import UNITS

KEYS: dict[str, type] = {"columns": dict, "delimiter": str, "header": bool, "time_unit": str, "day": str}


def read_mapping(path: Path) -> dict[str, Any]:
    """A table `columns`, and optionally time_unit; of a csv log delimiter and header, of a table `day`."""
    table = read_toml(path)
    for key, value in table.items():
        if key not in KEYS:
            raise ConfigError(f"unknown key {key!r}", where=path, remedy=f"Keys: {', '.join(KEYS)}.")
        if not isinstance(value, KEYS[key]):
            raise ConfigError(f"{key} must be of type {KEYS[key].__name__}", where=path)
    if table.get("time_unit", "s") not in UNITS:
        raise ConfigError(f"time_unit is one of {', '.join(UNITS)}", where=path)
    if "columns" in table:
        table["columns"] = {name: str(column) for name, column in table["columns"].items()}
    return table
