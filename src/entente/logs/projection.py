"""A format's expressions -> the one projection that every engine evaluates."""

from __future__ import annotations

from collections.abc import Sequence
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
    "port": "int32",
    "bytes": "int64",
    "label": "int8",
}
NO_TIME = "no readable time"
NO_SRC = "no source host"
NO_DST = "no destination host"
OUT_OF_RANGE = "time out of range"


def projection(format: Format, columns: Sequence[str], options: Options) -> Table:
    """Event columns, `filtered`, `bad`, and `key` and `local` where the format has them."""
    import ibis

    raw = ibis.table(dict.fromkeys(columns, "string"), name="raw")
    event = format.event(raw, options)
    filtered = event.filtered if event.filtered is not None else null()
    named: dict[str, Any] = {
        name: value if (value := getattr(event, name)) is not None else null(kind)
        for name, kind in TYPES.items()
    }
    for name in ("user", "kind"):
        if getattr(event, name) is not None:
            named[name] = named[name].nullif("")
    named = {name: value.cast(TYPES[name]) for name, value in named.items()}
    for name in ("key", "local"):
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
    return rows.mutate(bad=ibis.cases(*checks, else_=rows._wrong)).drop("_wrong")
