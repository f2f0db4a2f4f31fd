"""Silos from something that is already known: a site field of a host list, or a column of the events."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc

from entente.errors import ConfigError, UsageError
from entente.logs.schema import COLUMNS
from entente.partition.base import read_pairs
from entente.partition.pairs import count_events


def from_host_table(path: Path, column: str) -> dict[str, str]:
    """{host: value} of a CSV or Parquet table with the columns `host` and `column`."""
    found: dict[str, str] = {}
    for line, (host, value) in read_pairs(path, "host", column):
        if found.setdefault(host, value) != value:
            raise ConfigError(
                f"host {host!r} is in {found[host]!r} and in {value!r}",
                where=path,
                line=line,
                remedy="A host belongs to one silo: keep one of its rows.",
            )
    return found


def from_event_column(events: Path, column: str) -> dict[str, str]:
    """{source host: the value most of its events have}; ties go to the value first by name."""
    if column not in COLUMNS or column in ("time", "src", "dst", "outcome", "label"):
        raise UsageError(
            f"events have no column {column!r} to split by",
            remedy="Choose user, kind, logon, port or bytes, or give hosts: --hosts FILE --column site.",
        )
    counted = count_events(events, ("src", column))
    counted = counted.filter(pc.is_valid(counted[column]))
    if not len(counted):
        raise UsageError(f"column {column!r} is empty in all events", remedy="Choose another column.")
    counted = counted.sort_by([("src", "ascending"), ("events", "descending"), (column, "ascending")])
    found: dict[str, str] = {}
    for host, value in zip(counted["src"].to_pylist(), counted[column].to_pylist(), strict=True):
        found.setdefault(host, str(value))
    return found
