"""The edge: all events of one (window, source, target), with the most frequent of what they say."""

from __future__ import annotations

import pyarrow as pa

KEYS = ("window", "src", "dst")
LISTED = ("user", "kind", "logon", "port")
"""Event columns of which an edge keeps the most frequent values."""
TOP = 3
"""How many of them it keeps per column."""
PORT_DIGITS = 5


def places(name: str) -> list[tuple[str, str]]:
    """(column of the value, column of its number of events), most frequent first."""
    return [(f"{name}_{rank}", f"{name}_{rank}_count") for rank in range(1, TOP + 1)]


def _listed(name: str) -> list[pa.Field]:
    kind = pa.int32() if name == "port" else pa.string()
    fields = [pa.field(f"{name}_distinct", pa.int32(), nullable=False)]
    for value, count in places(name):
        fields += [pa.field(value, kind), pa.field(count, pa.int64())]
    return fields


EDGE_SCHEMA = pa.schema(
    [
        # Where the window begins, microseconds (UTC).
        pa.field("window", pa.int64(), nullable=False),
        pa.field("src", pa.string(), nullable=False),
        pa.field("dst", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        # Of the first and of the last event.
        pa.field("time", pa.int64(), nullable=False),
        pa.field("last_time", pa.int64(), nullable=False),
        # Sum over the events that have a number of bytes; null where none has.
        pa.field("bytes", pa.int64()),
        # Events that failed; null where no event has an outcome.
        pa.field("failures", pa.int64()),
        # The highest label of the events; null where none has one.
        pa.field("label", pa.int8()),
        *(field for name in LISTED for field in _listed(name)),
    ]
)
"""The columns of an edge file, its rows sorted by KEYS. `user_1` is the most frequent user, `user_1_count` in
how many events it stands, `user_distinct` how many users there are; ties go by name, of ports by number."""
NAMES = tuple(field.name for field in EDGE_SCHEMA if field.type == pa.string())


def nothing_listed(name: str, edges: int) -> dict[str, pa.Array]:
    """The columns of a listed value that no event has."""
    found = {f"{name}_distinct": pa.repeat(pa.scalar(0, pa.int32()), edges)}
    for value, count in places(name):
        found |= {value: pa.nulls(edges, EDGE_SCHEMA.field(value).type), count: pa.nulls(edges, pa.int64())}
    return found
