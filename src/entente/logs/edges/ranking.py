"""The most frequent values of edges, found here: combinations of values -> rows of EDGE_SCHEMA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from entente.logs.edges.schema import EDGE_SCHEMA, LISTED, nothing_listed, places

Int64 = NDArray[np.int64]


def ranked(rows: pa.Table) -> pa.Table:
    """One row per edge and combination of listed values -> one per edge, sorted."""
    (window, windows), (src, sources), (dst, targets) = (
        _numbered(rows[name]) for name in ("window", "src", "dst")
    )
    key = (window * len(sources) + src) * len(targets) + dst  # fits: a span has few windows
    order = np.argsort(key)
    key = key[order]
    first = np.diff(key, prepend=-1) != 0
    starts, edge = np.flatnonzero(first), np.cumsum(first) - 1

    def merged(name: str, how: np.ufunc) -> Any:
        values = rows[name].cast(pa.int64()).to_numpy()[order]  # engines add up in wider types
        return how.reduceat(values, starts) if len(starts) else values

    def known(name: str, there: str) -> Any:
        if name not in rows.column_names:
            return pa.nulls(len(starts), pa.int64())
        return pa.array(merged(name, np.add), mask=merged(there, np.add) == 0)

    chosen = order[starts]
    columns: dict[str, Any] = {
        "window": windows.take(pa.array(window[chosen])),
        "src": sources.take(pa.array(src[chosen])),
        "dst": targets.take(pa.array(dst[chosen])),
        "count": merged("count", np.add),
        "time": merged("time", np.minimum),
        "last_time": merged("last_time", np.maximum),
        "bytes": known("bytes", "bytes_known"),
        "failures": known("failures", "outcomes"),
        "label": pa.nulls(len(starts), pa.int64()),
    }
    if "label" in rows.column_names:
        label = merged("label", np.maximum)
        columns["label"] = pa.array(label, mask=label < 0)
    count = rows["count"].to_numpy()[order]
    for name in LISTED:
        code, values = _numbered(rows[name]) if name in rows.column_names else (order, [])
        columns |= (
            _most_frequent(name, code[order], values, edge, count, len(starts))
            if len(values)
            else nothing_listed(name, len(starts))
        )
    return pa.table(
        [pa.array(columns[field.name]).cast(field.type) for field in EDGE_SCHEMA], schema=EDGE_SCHEMA
    )


def _most_frequent(
    name: str, code: Int64, values: pa.Array, edge: Int64, count: Int64, edges: int
) -> dict[str, Any]:
    """The columns of one listed value: how many there are, the most frequent and how often they occur."""
    there = np.flatnonzero(code >= 0)
    if len(there) < len(code):
        code, edge, count = code[there], edge[there], count[there]
    pairs = edge * len(values) + code
    order = np.argsort(pairs, kind="stable")  # nearly sorted
    pairs = pairs[order]
    starts = np.flatnonzero(np.diff(pairs, prepend=-1))
    often = np.add.reduceat(count[order], starts)
    edge, code = edge[order[starts]], code[order[starts]]
    distinct = np.bincount(edge, minlength=edges)
    begin = np.cumsum(distinct) - distinct
    best = np.arange(len(edge))
    several = np.flatnonzero(distinct[edge] > 1)  # of equally frequent ones the first by name, as they lie
    best[several] = several[np.lexsort((-often[several], edge[several]))]
    found: dict[str, Any] = {f"{name}_distinct": distinct}
    for place, (value, number) in enumerate(places(name)):
        empty = distinct <= place
        chosen = best[np.minimum(begin + place, len(best) - 1)]
        found[value] = values.take(pa.array(code[chosen], mask=empty))
        found[number] = pa.array(often[chosen], mask=empty)
    return found


def _numbered(column: pa.ChunkedArray) -> tuple[Int64, pa.Array]:
    """Values as numbers that sort as they do, -1 where there is none; and the value of each."""
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0) if encoded.num_chunks else pa.array([], column.type).dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    number = np.empty(len(order) + 1, dtype=np.int64)
    number[order.to_numpy()] = np.arange(len(order))
    number[-1] = -1
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return number[codes], encoded.dictionary.take(order)
