"""Which host belongs to which silo, as a value and as a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from entente.artifacts import replacing, write_text
from entente.errors import ConfigError, EntenteError

OTHER = "other"
"""Silo of hosts that no rule and no neighbour places."""


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """Every host once, and the number of its silo in `silos`; hosts are sorted by name."""

    hosts: tuple[str, ...]
    silos: tuple[str, ...]
    silo_of: NDArray[np.int64]

    @classmethod
    def from_mapping(cls, silo_of_host: Mapping[str, str]) -> Assignment:
        """From {host: silo}; silos are sorted by name."""
        hosts = tuple(sorted(silo_of_host))
        silos = tuple(sorted(set(silo_of_host.values())))
        number = {silo: index for index, silo in enumerate(silos)}
        chosen = np.array([number[silo_of_host[host]] for host in hosts], dtype=np.int64)
        return cls(hosts, silos, chosen)

    def __len__(self) -> int:
        return len(self.hosts)

    def as_dict(self) -> dict[str, str]:
        """{host: silo}."""
        return {
            host: self.silos[index] for host, index in zip(self.hosts, self.silo_of.tolist(), strict=True)
        }

    def sizes(self) -> dict[str, int]:
        """{silo: number of hosts}."""
        counts = np.bincount(self.silo_of, minlength=len(self.silos)).tolist()
        return dict(zip(self.silos, counts, strict=True))


def read_silos(path: Path) -> Assignment:
    """Read a table with columns host and silo, CSV or Parquet; further columns are ignored."""
    found: dict[str, str] = {}
    for line, (host, silo) in read_pairs(path, "host", "silo"):
        if host in found:
            raise ConfigError(
                f"host {host!r} appears a second time",
                where=path,
                line=line,
                remedy="A host belongs to one silo: keep one of its rows.",
            )
        found[host] = silo
    return Assignment.from_mapping(found)


def write_silos(path: Path, assignment: Assignment) -> None:
    """Write the assignment: Parquet when the name ends in .parquet, else CSV."""
    pairs = sorted(assignment.as_dict().items())
    if path.suffix == ".parquet":
        table = pa.table({"host": [host for host, _ in pairs], "silo": [silo for _, silo in pairs]})
        with replacing(path) as temporary:
            parquet.write_table(table, temporary)
        return
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("host", "silo"), *pairs])
    write_text(path, text.getvalue())


def read_pairs(path: Path, first: str, second: str) -> list[tuple[int, tuple[str, str]]]:
    """Two columns of a CSV or Parquet table as (line, (first, second)); empty values are errors."""
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ConfigError(
            f"cannot be read ({error.strerror})", where=path, remedy=f"Give a table {first},{second}."
        ) from error
    rows = _parquet_rows(path, first, second) if magic == b"PAR1" else _csv_rows(path, first, second)
    for line, values in rows:
        for name, value in zip((first, second), values, strict=True):
            if not value:
                raise ConfigError(
                    f"{name} is empty", where=path, line=line, remedy="Fill it or drop the row."
                )
    if not rows:
        raise ConfigError("holds no row", where=path, remedy=f"A table {first},{second} is expected.")
    return rows


def _csv_rows(path: Path, first: str, second: str) -> list[tuple[int, tuple[str, str]]]:
    rows: list[tuple[int, tuple[str, str]]] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            one, two = _places(path, header, first, second)
            for row in reader:
                if not row:
                    continue
                if len(row) <= max(one, two):
                    raise ConfigError(
                        f"has {len(row)} of {len(header)} columns", where=path, line=reader.line_num
                    )
                rows.append((reader.line_num, (row[one].strip(), row[two].strip())))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"is not a readable CSV table ({error})", where=path) from error
    return rows


def _parquet_rows(path: Path, first: str, second: str) -> list[tuple[int, tuple[str, str]]]:
    try:
        names = parquet.read_schema(path).names
        _places(path, names, first, second)
        table = parquet.read_table(path, columns=[first, second])
    except EntenteError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(f"is not a readable Parquet table ({error})", where=path) from error
    pairs = zip(*(_text(table[name]) for name in (first, second)), strict=True)
    return [(number, pair) for number, pair in enumerate(pairs, start=1)]


def _text(column: pa.ChunkedArray) -> list[str]:
    return ["" if value is None else str(value) for value in column.to_pylist()]


def _places(path: Path, header: list[str], first: str, second: str) -> tuple[int, int]:
    for name in (first, second):
        if name not in header:
            raise ConfigError(
                f"has no column {name!r}",
                where=path,
                line=1,
                remedy=f"Columns found: {', '.join(header) or 'none'}.",
            )
    return header.index(first), header.index(second)
