"""The event: one row of an event table, whatever log it came from."""

from __future__ import annotations

import pyarrow as pa

MICROSECONDS = 1_000_000
DAY = 86_400 * MICROSECONDS

EVENT_SCHEMA = pa.schema(
    [
        # Microseconds since the Unix epoch (UTC); logs with relative clocks start at 0.
        pa.field("time", pa.int64(), nullable=False),
        # Host that acts and host that is acted on: name or address, as the log has it.
        pa.field("src", pa.string(), nullable=False),
        pa.field("dst", pa.string(), nullable=False),
        # Account, when the log has one.
        pa.field("user", pa.string()),
        # What happened in the log's own words: authentication package, service, event id.
        pa.field("kind", pa.string()),
        # How the account logged on, by Windows's names: Network, RemoteInteractive, Batch ...
        pa.field("logon", pa.string()),
        # Port at the destination.
        pa.field("port", pa.int32()),
        # Bytes in both directions.
        pa.field("bytes", pa.int64()),
        # Whether what was tried succeeded: a logon, a connection; null when the log does not say.
        pa.field("outcome", pa.bool_()),
        # 1 malicious, 0 benign, null when nobody said.
        pa.field("label", pa.int8()),
    ]
)
"""The columns of an event table in their order. Files are partitioned by `day=YYYY-MM-DD` (UTC)."""

COLUMNS = tuple(EVENT_SCHEMA.names)
REQUIRED = ("time", "src", "dst")
ORIGIN_SCHEMA = pa.schema(
    [
        # The log that the event stands in (a file, a topic, a peer), and its line there, counted from 1.
        pa.field("log", pa.string()),
        pa.field("line", pa.int64()),
    ]
)
"""Where an event comes from: stored beside it as evidence, and no part of what happened."""
ORIGIN = tuple(ORIGIN_SCHEMA.names)
STORED_SCHEMA = pa.schema([*EVENT_SCHEMA, *ORIGIN_SCHEMA])
"""The columns in the files of an event directory."""
SCHEMA_VERSION = 3
"""Stored in the manifest of an event directory."""
ADDED_SINCE = {1: ("logon", "outcome", *ORIGIN), 2: ORIGIN}
"""Version of an older event directory that can still be read -> columns it lacks, which read as null."""
