"""What files beside the log say about its events: labels, names of addresses, the time zone of its clock."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from entente.errors import LogError, UsageError
from entente.logs.formats.base import Format
from entente.logs.schema import MICROSECONDS
from entente.logs.sources import text_beside

QUARTER = 900 * MICROSECONDS
"""Offsets of time zones change at multiples of a quarter of an hour."""


@dataclass(frozen=True, slots=True)
class Refinement:
    """Applied to the kept rows of each block, after the engine."""

    keys: pa.Array | None = None
    """Keys of the malicious events; with it, every row gets a label."""
    hosts: dict[str, str] | None = None
    zone: ZoneInfo | None = None

    def apply(self, rows: pa.Table) -> tuple[pa.Table, set[str]]:
        """The rows refined, and the label keys that occur in them."""
        matched: set[str] = set()
        if self.zone is not None and "local" in rows.column_names:
            rows = _set(rows, "time", _from_local(rows["time"], rows["local"], self.zone))
        if self.keys is not None:
            hit = pc.is_in(rows["key"], value_set=self.keys)
            matched.update(pc.unique(rows["key"].filter(hit)).to_pylist())
            rows = _set(rows, "label", hit.cast(pa.int8()))
        if self.hosts:
            for name in ("src", "dst"):
                rows = _set(rows, name, _renamed(rows[name], self.hosts))
        return rows, matched


def _set(rows: pa.Table, name: str, column: pa.ChunkedArray | pa.Array) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), name, column)


def _renamed(column: pa.ChunkedArray, names: dict[str, str]) -> pa.Array:
    encoded = column.combine_chunks().dictionary_encode()
    renamed = [names.get(name, name) for name in encoded.dictionary.to_pylist()]
    return pa.array(renamed, pa.string()).take(encoded.indices)


def _from_local(time: pa.ChunkedArray, local: pa.ChunkedArray, zone: ZoneInfo) -> pa.Array:
    """Times without a zone were read as if UTC; set them right."""
    clock = time.to_numpy()
    quarters, inverse = np.unique(clock // QUARTER, return_inverse=True)
    offsets = []
    for quarter in quarters.tolist():
        wall = datetime.fromtimestamp(quarter * QUARTER // MICROSECONDS, UTC).replace(tzinfo=zone)
        offset = wall.utcoffset()
        offsets.append(0 if offset is None else round(offset.total_seconds()) * MICROSECONDS)
    shift = np.array(offsets, dtype=np.int64)[inverse]
    return pa.array(np.where(local.fill_null(False).to_numpy(), clock - shift, clock))


def read_labels(path: Path, formats: list[Format]) -> pa.Array:
    """The keys in a labels file; it may be compressed like any log."""
    able = [format for format in formats if format.labels]
    if not able:
        raise UsageError(
            f"{formats[0].name} logs take no --labels file",
            remedy="Formats that do: see `entente formats`. Others carry labels in a column, or none.",
        )
    format = able[0]
    lines = [line.strip() for line in text_beside(path).splitlines()]
    filled = [number for number, line in enumerate(lines) if line]
    keys = format.label_keys([lines[number] for number in filled])
    for number, key in zip(filled, keys, strict=True):
        if not key and number > 0:
            raise LogError(
                f"is not a label of {format.name}: {lines[number][:80]!r}",
                where=path,
                line=number + 1,
                remedy=f"Expected {format.labels}.",
            )
    kept = sorted({key for key in keys if key})
    if not kept:
        raise LogError("holds no label", where=path, remedy=f"Expected {format.labels}.")
    return pa.array(kept, pa.string())


def read_hosts(path: Path) -> dict[str, str]:
    """Address -> name, from a JSON object or a CSV file of two columns."""
    text = text_beside(path)
    if text.lstrip().startswith("{"):
        try:
            pairs = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise LogError(f"is not valid JSON ({error})", where=path) from error
        return {str(address): str(name) for address, name in pairs.items()}
    names = {}
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        if row and len(row) < 2:
            raise LogError("needs two columns, address and name", where=path, line=number)
        if row:
            names[row[0].strip()] = row[1].strip()
    return names


def read_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise UsageError(
            f"there is no time zone {name!r}", remedy="Use a name such as Europe/Prague or UTC."
        ) from error
