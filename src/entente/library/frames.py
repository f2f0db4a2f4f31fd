"""Data frames of events -> the event table: pandas, Polars, Arrow, or a mapping of columns."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from entente.errors import LogError, UsageError
from entente.logs.events import load_events
from entente.logs.schema import EVENT_SCHEMA, REQUIRED

UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": -1_000}
"""Unit of a numeric time -> microseconds, or, negative, units per microsecond."""
FRAME = "the frame"
"""How errors call what was given."""


def event_table(frame: Any, *, time_unit: str | None = None) -> pa.Table:
    """A frame of events as an Arrow table with the columns of an event table.

    `frame` is a pandas or Polars data frame, an Arrow table, anything else with the Arrow stream interface,
    a mapping of columns, or the path of an event directory. `time`, `src` and `dst` are needed; `user`,
    `kind`, `logon`, `port`, `bytes`, `outcome` and `label` are used where they are there, other columns are
    left out. Times are datetimes (without a zone: UTC), whole microseconds, or seconds as floats;
    `time_unit` (`s`, `ms`, `us`, `ns`) says otherwise. Rows keep their order.

    >>> table = entente.event_table({"time": [0.0, 2.5], "src": ["a", "b"], "dst": ["b", "c"]})
    >>> table["time"].to_pylist()
    [0, 2500000]
    """
    if isinstance(frame, str | os.PathLike):
        return load_events(Path(frame))
    table = arrow_table(frame)
    missing = [name for name in REQUIRED if name not in table.column_names]
    if missing:
        raise LogError(
            f"has no column {missing[0]!r}",
            where=FRAME,
            remedy=f"It has {', '.join(map(str, table.column_names)) or 'none'}; rename yours.",
        )
    columns = []
    for field in EVENT_SCHEMA:
        if field.name not in table.column_names:
            columns.append(pa.nulls(table.num_rows, field.type))
        elif field.name == "time":
            columns.append(_times(table["time"], time_unit))
        else:
            columns.append(_cast(table[field.name], field))
    found = pa.table(columns, schema=EVENT_SCHEMA)
    for name in REQUIRED:
        if found[name].null_count:
            raise LogError(
                f"column {name!r} has {found[name].null_count:,} empty values",
                where=FRAME,
                remedy="Drop these rows: an event has a time and two hosts.",
            )
    return found


def arrow_table(frame: Any) -> pa.Table:
    """Any frame as an Arrow table."""
    if isinstance(frame, pa.Table):
        return frame
    try:
        if isinstance(frame, Mapping):
            return pa.table(dict(frame))
        if hasattr(frame, "__arrow_c_stream__"):
            return pa.table(frame)
        if hasattr(frame, "iloc"):  # a pandas that is older than the stream interface
            return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise LogError(f"cannot be read as a table ({error})", where=FRAME) from error
    raise UsageError(
        f"{type(frame).__name__} is not a frame of events",
        remedy="Give a pandas or Polars frame, an Arrow table, a mapping of columns or an event directory.",
    )


def _times(column: pa.ChunkedArray, unit: str | None) -> pa.ChunkedArray:
    if unit is not None and unit not in UNITS:
        raise UsageError(f"time_unit is one of {', '.join(UNITS)}, not {unit!r}")
    kind = column.type
    try:
        if pa.types.is_null(kind):  # a frame without rows, or one without times, which is told later
            return column.cast(pa.int64())
        if pa.types.is_timestamp(kind):
            return column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
        if pa.types.is_floating(kind):
            step = UNITS[unit or "s"]
            factor = float(step) if step > 0 else -1.0 / step
            return pc.round(pc.multiply(column.cast(pa.float64()), factor)).cast(pa.int64())
        if pa.types.is_integer(kind):
            step, whole = UNITS[unit or "us"], column.cast(pa.int64())
            return pc.multiply_checked(whole, step) if step > 0 else pc.divide(whole, -step)
    except pa.ArrowException as error:
        raise LogError(f"column 'time' is no time ({error})", where=FRAME) from error
    raise LogError(
        f"column 'time' is of type {kind}", where=FRAME, remedy="Make it datetimes or numbers first."
    )


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_floating(column.type) and pa.types.is_integer(field.type):
            column = pc.if_else(pc.is_nan(column), None, column)  # pandas has holes in whole numbers so
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise LogError(f"column {field.name!r} does not fit ({error})", where=FRAME) from error
