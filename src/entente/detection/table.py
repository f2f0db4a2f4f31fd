"""alerts.parquet: what a run or a night raised. Reports, consoles and sinks read it and raise nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from entente.artifacts import replacing
from entente.detection.alerts import Alert
from entente.errors import StorageError

VERSION = "1"
_TEXTS = pa.list_(pa.string())
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("time", pa.int64()),  # of the first event
        ("start", pa.int64()),  # of the window
        ("end", pa.int64()),
        ("src", pa.string()),
        ("dst", pa.string()),
        ("score", pa.float64()),
        ("threshold", pa.float64()),
        ("severity", pa.string()),
        ("silo", pa.string()),
        ("explanation", _TEXTS),
        ("direction", pa.string()),
        ("also", _TEXTS),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("events", pa.int64()),
        ("failures", pa.int64()),
        ("users", _TEXTS),
        ("kinds", _TEXTS),
        ("logons", _TEXTS),
        ("ports", pa.list_(pa.int32())),
        ("technique", pa.string()),
        ("technique_reason", pa.string()),
        ("rarity", pa.int64()),
        ("incident", pa.string()),
        ("service", pa.string()),
        ("source_role", pa.string()),
        ("target_role", pa.string()),
        (
            "evidence",
            pa.list_(
                pa.struct(
                    [
                        ("time", pa.int64()),
                        ("log", pa.string()),
                        ("line", pa.int64()),
                        ("user", pa.string()),
                        ("kind", pa.string()),
                        ("port", pa.int32()),
                    ]
                )
            ),
        ),
        ("model", pa.string()),
        ("model_before", pa.string()),
        ("elsewhere", _TEXTS),
        ("link", pa.string()),
        ("raised", pa.bool_()),
    ]
)
"""The fields of an alert and its id."""
_PREFIX = b"entente.excluded."


@dataclass(frozen=True, slots=True)
class AlertTable:
    """Alerts, and how many edges above a threshold the policy did not raise, by reason."""

    alerts: tuple[Alert, ...]
    excluded: Mapping[str, int] = field(default_factory=dict)
    further: tuple[Alert, ...] = ()
    """Edges of the alerts' incidents that are no alerts themselves."""


def write_table(
    path: Path, alerts: Sequence[Alert], excluded: Mapping[str, int], further: Sequence[Alert] = ()
) -> None:
    """Write alerts.parquet whole or not at all."""
    facts = {b"entente.alerts": VERSION.encode()}
    facts |= {_PREFIX + reason.encode(): str(count).encode() for reason, count in sorted(excluded.items())}
    rows = [alert.as_dict() for alert in (*alerts, *further)]
    with replacing(path) as temporary:
        parquet.write_table(pa.Table.from_pylist(rows, SCHEMA.with_metadata(facts)), temporary)


def read_table(path: Path) -> AlertTable:
    """What `write_table` wrote; StorageError if it is something else."""
    try:
        table = parquet.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"is not readable Parquet ({error})", where=path) from error
    facts = table.schema.metadata or {}
    version = facts.get(b"entente.alerts", b"no").decode("ascii", "replace")
    if version != VERSION:
        raise StorageError(
            f"has alerts of {version} version, this version of entente reads {VERSION}",
            where=path,
            remedy="Read it with the version of entente that wrote it, or make the run again.",
        )
    excluded = {
        key.removeprefix(_PREFIX).decode(): int(n) for key, n in facts.items() if key.startswith(_PREFIX)
    }
    found = [Alert.from_dict(row) for row in table.to_pylist()]
    alerts, further = (tuple(one for one in found if one.raised == kind) for kind in (True, False))
    return AlertTable(alerts, excluded, further)
