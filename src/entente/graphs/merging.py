"""Events -> edges of windows, a span of windows at a time, so that memory follows the edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from entente.graphs.context import COLUMNS, NAMED, NOTHING, Codes, EdgeContext, Frequent, most_frequent
from entente.logs.events import Manifest, load_events

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

SPAN_ROWS = 1_500_000
"""Events that are in memory at a time, about; a single window is never cut."""
PORTS = 1 << 16
PLAIN = ("time", "src", "dst", "label")
USER = "user:"
"""What the name of a user begins with where users are nodes."""
CONTEXT = ("user", "kind", "logon", "port", "bytes", "outcome")


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """Edges of consecutive windows; `src` and `dst` are codes of `Merger.hosts`, columns those of its own."""

    window: Int64
    src: Int32
    dst: Int32
    count: Int64
    time: Int64  # of the first event
    label: NDArray[np.int8]  # NOTHING where nobody said
    context: EdgeContext | None

    @staticmethod
    def joined(parts: list[Edges]) -> Edges:
        """Consecutive parts as one."""

        def column(name: str) -> Any:
            return np.concatenate([getattr(part, name) for part in parts])

        contexts = [part.context for part in parts if part.context is not None]
        return Edges(
            window=column("window"),
            src=column("src"),
            dst=column("dst"),
            count=column("count"),
            time=column("time"),
            label=column("label"),
            context=_joined(contexts) if contexts else None,
        )

    def naming(self, names: Mapping[str, Codes]) -> Edges:
        """With what the codes of the context stand for."""
        if self.context is None:
            return self
        values: dict[str, Any] = {name: codes.array() for name, codes in names.items()}
        values["port"] = np.arange(PORTS, dtype=np.int32)
        found: dict[str, Any] = {
            name: Frequent(values[name], part.top, part.distinct)
            for name in COLUMNS
            if (part := getattr(self.context, name)) is not None
        }
        return replace(self, context=replace(self.context, **found))


def _joined(parts: list[EdgeContext]) -> EdgeContext:
    def column(name: str) -> Any:
        found = [getattr(part, name) for part in parts]
        if all(isinstance(part, Frequent) for part in found):
            top, distinct = (np.concatenate([getattr(p, n) for p in found]) for n in ("top", "distinct"))
            return Frequent(found[0].values, top, distinct) if distinct.any() else None
        whole = np.concatenate(found)
        return whole if name == "last_time" or (whole != NOTHING).any() else None

    return EdgeContext(**{name: column(name) for name in ("last_time", "bytes", "failures", *COLUMNS)})


class Merger:
    """Reads an event directory into edges; names become numbers once, over all spans."""

    def __init__(
        self, path: Path, start: int, width: int, windows: int, *, context: bool, nodes: str = "hosts"
    ) -> None:
        self._path = path
        self._start, self._width, self._windows = start, width, windows
        self._context = context
        self._nodes = nodes
        self.hosts = Codes()
        self._names = {name: Codes() for name in NAMED}

    def merged(self, manifest: Manifest, end: int) -> Edges:
        """One edge per (window, src, dst), sorted by window; `end` bounds the events."""
        return self._finished([self._merge(table) for table in self._spans(manifest, end)])

    def single(self, manifest: Manifest, end: int) -> Edges:
        """Every event as an edge of its own, in stored order within a span."""
        return self._finished([self._keep(table) for table in self._spans(manifest, end)])

    def _finished(self, parts: list[Edges]) -> Edges:
        return Edges.joined(parts or [self._keep(self._read(0, 0))]).naming(self._names)

    def _spans(self, manifest: Manifest, end: int) -> Iterator[pa.Table]:
        """The events of some windows at a time. A key of `_merge` must fit into 63 bits."""
        stored = (manifest.last_time - manifest.first_time) // self._width + 1
        each = max(1, manifest.rows // stored)
        step = max(1, min(SPAN_ROWS // each, 2**62 // max(1, manifest.hosts) ** 2))
        for first in range(0, self._windows, step):
            low = self._start + first * self._width
            table = self._read(low, min(end, low + step * self._width))
            if table.num_rows:
                yield table

    def _read(self, start: int, end: int) -> pa.Table:
        columns = [*PLAIN, *CONTEXT] if self._context else list(PLAIN)
        if self._nodes != "hosts" and not self._context:
            columns.append("user")
        return load_events(self._path, columns, start, end, encoded=True)

    def _merge(self, table: pa.Table) -> Edges:
        time, src, dst, kept = self._ends(table)
        window = (time - self._start) // self._width
        hosts = max(1, len(self.hosts))
        first_window = int(window.min()) if len(window) else 0
        key = ((window - first_window) * hosts + src) * hosts + dst
        order = np.argsort(key, kind="stable")
        starts = _starts(key[order])
        rows = kept[order]
        chosen = order[starts]
        edge = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
        label = _column(table, "label", np.int8)[rows]
        context = None
        if self._context:
            context = EdgeContext(
                last_time=_reduced(np.maximum, time[order], starts),
                bytes=_added(_column(table, "bytes", np.int64)[rows], starts),
                failures=_added(_failed(table)[rows], starts).astype(np.int32),
                **{name: self._frequent(table, name, rows, edge, len(starts)) for name in COLUMNS},
            )
        return Edges(
            window=window[chosen],
            src=src[chosen],
            dst=dst[chosen],
            count=np.diff(np.append(starts, len(order))),
            time=_reduced(np.minimum, time[order], starts),
            label=_reduced(np.maximum, label, starts),
            context=context,
        )

    def _keep(self, table: pa.Table) -> Edges:
        time, src, dst, rows = self._ends(table)
        context = None
        if self._context:
            context = EdgeContext(
                last_time=time,
                bytes=_column(table, "bytes", np.int64)[rows],
                failures=_failed(table)[rows].astype(np.int32),
                **{name: self._only(table, name, rows) for name in COLUMNS},
            )
        return Edges(
            window=(time - self._start) // self._width,
            src=src,
            dst=dst,
            count=np.ones(len(rows), dtype=np.int64),
            time=time,
            label=_column(table, "label", np.int8)[rows],
            context=context,
        )

    def _ends(self, table: pa.Table) -> tuple[Int64, Int32, Int32, Int64]:
        """Time, source and target of edges, and which rows they come from. Self loops are no edges.

        Where users are nodes, a user is the source of what happened under his name, his own host included.
        """
        src, dst = (column_codes(table, name, self.hosts) for name in ("src", "dst"))
        parts = [(src, np.flatnonzero(src != dst))] if self._nodes != "users" else []
        if self._nodes != "hosts":
            user = column_codes(table, "user", self.hosts, USER)
            parts.append((user, np.flatnonzero(user != NOTHING)))
        kept = np.concatenate([rows for _, rows in parts])
        sources = np.concatenate([source[rows] for source, rows in parts])
        return table["time"].to_numpy()[kept], sources, dst[kept], kept

    def _values(self, table: pa.Table, name: str, rows: Int64) -> Int32:
        """The codes of a column of which the most frequent values are kept."""
        if name != "port":
            return column_codes(table, name, self._names[name])[rows]
        port = _column(table, name, np.int32)[rows]
        return np.where((port >= 0) & (port < PORTS), port, NOTHING).astype(np.int32)

    def _frequent(self, table: pa.Table, name: str, rows: Int64, edge: Int64, edges: int) -> Frequent:
        code = self._values(table, name, rows)
        if name == "port":
            return Frequent(np.empty(0), *most_frequent(edge, code.astype(np.int64), edges))
        # Ties go by name, not by code: which code a name has hangs on the order of the rows.
        by_name = np.argsort(self._names[name].array(), kind="stable")
        rank = np.append(np.argsort(by_name), NOTHING)
        top, distinct = most_frequent(edge, rank[code], edges)
        return Frequent(np.empty(0), np.append(by_name, NOTHING)[top].astype(np.int32), distinct)

    def _only(self, table: pa.Table, name: str, rows: Int64) -> Frequent:
        """Of single events: the one value that each has, or none."""
        code = self._values(table, name, rows)
        return Frequent(np.empty(0), code[:, None], (code != NOTHING).astype(np.int32))


def column_codes(table: pa.Table, name: str, known: Codes, prefix: str = "") -> Int32:
    """A column of names as codes over all parts that are read; NOTHING where it is null."""
    column = table[name].unify_dictionaries().combine_chunks()
    names = column.dictionary.to_pylist()
    place = np.append(known.encode([prefix + n for n in names] if prefix else names), np.int32(NOTHING))
    codes: Int32 = place[np.asarray(column.indices.fill_null(-1))]
    return codes


def _starts(keys: Int64) -> Int64:
    """Where each run of equal keys begins."""
    first = np.ones(len(keys), dtype=bool)
    first[1:] = keys[1:] != keys[:-1]
    return np.flatnonzero(first)


def _reduced(function: Any, values: NDArray[Any], starts: Int64) -> NDArray[Any]:
    reduced: NDArray[Any] = function.reduceat(values, starts) if len(starts) else values
    return reduced


def _added(values: Int64, starts: Int64) -> Int64:
    """Sums of the runs; NOTHING where all values of a run are."""
    known = values != NOTHING
    total = _reduced(np.add, np.where(known, values, 0), starts)
    return np.where(_reduced(np.logical_or, known, starts), total, NOTHING)


def _failed(table: pa.Table) -> Int64:
    """1 for an event that failed, 0 for one that did not, NOTHING where the log does not say."""
    outcome = np.asarray(table["outcome"].cast(pa.int8()).fill_null(2).to_numpy(), dtype=np.int64)
    return 1 - outcome


def _column(table: pa.Table, name: str, kind: Any) -> NDArray[Any]:
    return np.asarray(table[name].fill_null(NOTHING).to_numpy(), dtype=kind)
