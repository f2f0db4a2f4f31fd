"""A format's expressions -> the one projection that every engine evaluates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from entente.logs.formats.base import Format, Options, Table
from entente.logs.formats.expressions import null
from entente.logs.schema import DAY

EARLIEST = -719_162 * DAY
LATEST = 2_932_897 * DAY - 1
"""Years 1 to 9999: beyond them a day has no name."""
TYPES = {
    "time": "int64",
    "src": "string",
    "dst": "string",
    "user": "string",
    "kind": "string",
    "logon": "string",
    "port": "int32",
    "bytes": "int64",
    "outcome": "boolean",
    "label": "int8",
}
NO_TIME = "no readable time"
NO_SRC = "no source host"
NO_DST = "no destination host"
OUT_OF_RANGE = "time out of range"


@dataclass(frozen=True, slots=True)
class Projection:
    """What an engine evaluates, and what need not pass through it."""

    expression: Table
    """Event columns, `filtered`, `bad`, and `key`, `local` and `word` where the format has them."""
    unchanged: Mapping[str, str]
    """Event column -> raw column that it is, as it stands; not in the expression."""


def projection(format: Format, columns: Sequence[str], options: Options) -> Projection:
    """The expressions of a format over a raw table of these columns."""
    import ibis

    raw = ibis.table(dict.fromkeys(columns, "string"), name="raw")
    event = format.event(raw, options)
    filtered = event.filtered if event.filtered is not None else null()
    named: dict[str, Any] = {
        name: value if (value := getattr(event, name)) is not None else null(kind)
        for name, kind in TYPES.items()
    }
    named = {name: value.cast(TYPES[name]) for name, value in named.items()}
    for name in ("key", "local", "word"):
        if getattr(event, name) is not None:
            named[name] = getattr(event, name)
    rows = event.rows.select(
        **named, filtered=filtered, _wrong=event.bad if event.bad is not None else null()
    )
    checks = [
        (rows.filtered.notnull(), null()),
        (rows.time.isnull(), ibis.literal(NO_TIME)),
        (~rows.time.between(EARLIEST, LATEST), ibis.literal(OUT_OF_RANGE)),
        (rows.src.isnull() | (rows.src == ""), ibis.literal(NO_SRC)),
        (rows.dst.isnull() | (rows.dst == ""), ibis.literal(NO_DST)),
    ]
    unchanged = {
        name: column
        for name in ("src", "dst", "user", "kind", "logon")
        if (column := _raw_column(named[name], raw)) is not None
    }
    kept = [name for name in (*named, "filtered") if name not in unchanged]
    expression = rows.select(*kept, bad=ibis.cases(*checks, else_=rows._wrong))
    return Projection(expression, unchanged)


def _raw_column(value: Any, raw: Table) -> str | None:
    """The raw column that `value` simply is, if it is one."""
    import ibis.expr.operations as ops

    operation = value.op()
    return operation.name if isinstance(operation, ops.Field) and operation.rel == raw.op() else None
