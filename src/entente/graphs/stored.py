"""Edges that an engine has merged already -> the arrays that `merging` makes of events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from entente.errors import GraphError
from entente.graphs.context import COLUMNS, NAMED, NOTHING, TOP, Codes, EdgeContext, Frequent
from entente.graphs.merging import Edges, column_codes
from entente.logs.edges.schema import EDGE_SCHEMA, places
from entente.logs.edges.store import EdgeManifest, scan_edges

PLAIN = ("window", "src", "dst", "count", "time", "label")


class StoredEdges:
    """Reads an edge directory; as a `Merger`, it numbers names once, over all files."""

    def __init__(self, path: Path, start: int, width: int, windows: int, *, context: bool) -> None:
        self._path = path
        self._start, self._width, self._windows = start, width, windows
        self._context = context
        self.hosts = Codes()
        self._names = {name: Codes() for name in NAMED}

    def merged(self, manifest: EdgeManifest, end: int) -> Edges:
        """One edge per (window, src, dst), sorted by window."""
        self._check(manifest, end)
        columns = list(EDGE_SCHEMA.names) if self._context else list(PLAIN)
        stop = self._start + self._windows * self._width
        tables = scan_edges(self._path, columns, self._start, stop)
        parts = [self._edges(table) for table in tables]
        return Edges.joined(parts or [self._edges(_nothing(columns))]).naming(self._names)

    def single(self, manifest: EdgeManifest, end: int) -> Edges:
        """Never: the events of an edge are not told apart any more."""
        raise GraphError(
            "holds edges of windows, and this detector works on single events",
            where=self._path,
            remedy="Give it the events themselves (`entente ingest`).",
        )

    def _check(self, manifest: EdgeManifest, end: int) -> None:
        if manifest.width != self._width:
            raise GraphError(
                f"holds windows of {manifest.width / 1e6:g} s, not of {self._width / 1e6:g} s",
                where=self._path,
                remedy="Set data.window to that, or run `entente edges` with another --window.",
            )
        for moment, name in ((self._start, "start"), (end, "end")):
            if moment % self._width and (name == "start" or moment <= manifest.last_time):
                raise GraphError(
                    f"{name} lies within a window, and edges cannot be cut",
                    where=self._path,
                    remedy=f"Choose a multiple of {self._width / 1e6:g} s.",
                )

    def _edges(self, table: pa.Table) -> Edges:
        src, dst = (column_codes(table, name, self.hosts) for name in ("src", "dst"))
        context = None
        if self._context:
            context = EdgeContext(
                last_time=_numbers(table, "last_time", np.int64),
                bytes=_numbers(table, "bytes", np.int64),
                failures=_numbers(table, "failures", np.int32),
                **{name: self._frequent(table, name) for name in COLUMNS},
            )
        return Edges(
            window=(_numbers(table, "window", np.int64) - self._start) // self._width,
            src=src,
            dst=dst,
            count=_numbers(table, "count", np.int64),
            time=_numbers(table, "time", np.int64),
            label=_numbers(table, "label", np.int8),
            context=context,
        )

    def _frequent(self, table: pa.Table, name: str) -> Frequent:
        top = np.empty((table.num_rows, TOP), dtype=np.int32)
        for rank, (value, _) in enumerate(places(name)):
            if name == "port":
                top[:, rank] = _numbers(table, value, np.int32)
            else:
                top[:, rank] = column_codes(table, value, self._names[name])
        return Frequent(np.empty(0), top, _numbers(table, f"{name}_distinct", np.int32))


def _nothing(columns: list[str]) -> pa.Table:
    table = EDGE_SCHEMA.empty_table().select(columns)
    encoded = [
        table[field.name].dictionary_encode() if field.type == pa.string() else table[field.name]
        for field in table.schema
    ]
    return pa.table(encoded, names=columns)


def _numbers(table: pa.Table, name: str, kind: Any) -> NDArray[Any]:
    return np.asarray(table[name].fill_null(NOTHING).to_numpy(), dtype=kind)
