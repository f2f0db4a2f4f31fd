"""The one query: a table of events -> the edges of a span of windows, in Ibis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from entente.errors import UsageError
from entente.logs.edges.schema import EDGE_SCHEMA, KEYS, LISTED, PORT_DIGITS, TOP, places
from entente.logs.formats.base import Column, Table
from entente.logs.formats.expressions import null, only
from entente.logs.formats.expressions import outcome as outcome_of
from entente.logs.schema import COLUMNS, DAY, REQUIRED
from entente.logs.store import FIRST_DAY, day_name

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
MOST = 10**15
"""More events than an edge can have: counts are subtracted from it, so that text sorts by them."""
COUNT_DIGITS = 15
SUMS = ("bytes", "bytes_known", "failures", "outcomes")


@dataclass(frozen=True, slots=True)
class TableMapping:
    """Which column of the table is what."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """Event column -> column of the table; columns of the same name need not be told."""
    time_unit: str = "s"
    """Of a numeric time: s, ms, us or ns since 1970."""
    day: str | None = None
    """Column of the day, YYYY-MM-DD, by which the files lie in folders: other days are not opened."""

    def found(self, available: Mapping[str, Any]) -> dict[str, str]:
        """Event column -> column of the table that has these columns."""
        for name, column in self.columns.items():
            if name not in COLUMNS:
                raise UsageError(
                    f"the mapping names {name!r}: no such event column",
                    remedy=f"Columns: {', '.join(COLUMNS)}.",
                )
            if column not in available:
                raise UsageError(_lacks(column, available))
        chosen = {name: name for name in COLUMNS if name in available} | dict(self.columns)
        for name in REQUIRED:
            if name not in chosen:
                raise UsageError(
                    f"the table has no column {name!r}",
                    remedy=f'Say which it is in the mapping: {name} = "...". {_lacks(name, available)}.',
                )
        if self.day is not None and self.day not in available:
            raise UsageError(_lacks(self.day, available))
        return chosen


def _lacks(column: str, available: Mapping[str, Any]) -> str:
    return f"the table has no column {column!r}; it has: {', '.join(available)}"


@dataclass(frozen=True, slots=True)
class Span:
    """Windows from `start` to before `end`, microseconds; both are borders of windows."""

    start: int
    end: int
    width: int


class EdgeQuery:
    """Expressions over a table of events.

    With `unnest` rows are multiplied by unnesting a list, which reads the table once; else by a union.
    """

    def __init__(self, source: Table, mapping: TableMapping, *, unnest: bool = True) -> None:
        self._source = source
        self._columns = mapping.found(dict(source.schema().items()))
        self._mapping = mapping
        self._unnest = unnest
        self._listed = [name for name in LISTED if name in self._columns]

    def extent(self, start: int | None = None, end: int | None = None) -> Table:
        """One row: first and last time of the rows in [start, end) that can be events, and their number."""
        bounds = self._within(start, end)
        rows = self._source.filter(*bounds) if bounds else self._source
        rows = rows.select(
            time=self._time(rows), src=rows[self._columns["src"]], dst=rows[self._columns["dst"]]
        )
        rows = _proper(rows)
        return rows.aggregate(first=rows.time.min(), last=rows.time.max(), rows=rows.count())

    def edges(self, span: Span) -> Table:
        """One row per edge, with columns that `finished` understands."""
        events = self._events(span)
        sums = {name: events[name].sum().cast("int64") for name in SUMS}
        once = events.group_by(*KEYS, *self._listed).aggregate(
            count=events.count(),
            time=events.time.min(),
            last_time=events.last_time.max(),
            label=events.label.max(),
            **sums,
        )
        rows = self._copied(once)
        counted = rows.group_by(*KEYS, "place", "value").aggregate(
            count=rows["count"].sum().cast("int64"),
            time=rows.time.min(),
            last_time=rows.last_time.max(),
            label=rows.label.max(),
            **{name: rows[name].sum().cast("int64") for name in SUMS},
        )
        ranked = counted.mutate(
            entry=(MOST - counted["count"]).cast("string").lpad(COUNT_DIGITS, "0") + counted.value
        )
        own = ranked.place == 0
        found: dict[str, Column] = {
            name: ranked[name].max(where=own) for name in ("count", "time", "last_time", "label", *SUMS)
        }
        for place, name in enumerate(self._listed, 1):
            here = ranked.place == place
            found[f"{name}_distinct"] = here.cast("int32").sum().cast("int64")
            found[name] = ranked.entry.collect(where=here)
        edges = ranked.group_by(*KEYS).aggregate(**found)
        return (
            edges.mutate(**{name: edges[name].sort()[:TOP] for name in self._listed})
            if self._listed
            else edges
        )

    def _events(self, span: Span) -> Table:
        """The events of the span with their window, nothing null but the listed columns."""
        import ibis

        table = self._source.filter(*self._within(span.start, span.end))

        def column(name: str) -> Column | None:
            return table[self._columns[name]] if name in self._columns else None

        zero = ibis.literal(0, "int64")
        amount, outcome, label = column("bytes"), column("outcome"), column("label")
        if outcome is not None and not outcome.type().is_boolean():
            outcome = outcome_of(outcome.cast("string"))
        rows = table.select(
            time=self._time(table),
            src=table[self._columns["src"]].cast("string"),
            dst=table[self._columns["dst"]].cast("string"),
            bytes=zero if amount is None else amount.cast("int64").fill_null(0),
            bytes_known=zero if amount is None else amount.notnull().cast("int64"),
            failures=zero if outcome is None else ibis.ifelse(outcome.fill_null(True), 0, 1).cast("int64"),
            outcomes=zero if outcome is None else outcome.notnull().cast("int64"),
            label=(ibis.literal(-1, "int64") if label is None else label.cast("int64").fill_null(-1)),
            **{name: _listed(name, table[self._columns[name]]) for name in self._listed},
        )
        rows = _proper(rows)
        rows = rows.filter(rows.src != rows.dst, rows.time >= span.start, rows.time < span.end)
        return rows.mutate(window=rows.time - (rows.time - span.start) % span.width, last_time=rows.time)

    def _copied(self, once: Table) -> Table:
        """Each row once for itself (place 0), and once per listed column with its value."""
        import ibis

        kept = (*KEYS, "count", "time", "last_time", "label", *SUMS)
        if not self._unnest:
            parts = [once.select(*kept, place=ibis.literal(0, "int64"), value=ibis.literal(""))]
            for place, name in enumerate(self._listed, 1):
                known = once.filter(once[name].notnull())
                parts.append(known.select(*kept, place=ibis.literal(place, "int64"), value=known[name]))
            return ibis.union(*parts) if len(parts) > 1 else parts[0]
        numbers = ibis.range(0, len(self._listed) + 1).unnest().name("place").as_table()
        rows = once.cross_join(numbers)
        cases = [(rows.place == place, rows[name]) for place, name in enumerate(self._listed, 1)]
        value = ibis.cases((rows.place == 0, ibis.literal("")), *cases, else_=null())
        rows = rows.select(*kept, place=rows.place.cast("int64"), value=value)
        return rows.filter(rows.value.notnull())

    def _time(self, table: Table) -> Column:
        """Microseconds."""
        column = table[self._columns["time"]]
        kind = column.type()
        if kind.is_timestamp():
            # Cut first: DuckDB rounds to the nearest second.
            seconds = column.truncate("s").epoch_seconds().cast("int64")
            return seconds * 10**6 + column.microsecond().cast("int64") % 10**6
        if not kind.is_integer():
            raise UsageError(
                f"the column {self._columns['time']!r} is of type {kind}, not a time",
                remedy="Map time to a column of whole numbers or timestamps, or make a view that has one.",
            )
        per_second = PER_SECOND[self._mapping.time_unit]
        if per_second > 10**6:
            thousand = per_second // 10**6
            return ((column - column % thousand) / thousand).cast("int64")
        return column.cast("int64") * (10**6 // per_second)

    def _within(self, start: int | None, end: int | None) -> list[Column]:
        """Conditions on the columns as they stand, so that files and partitions can be left out by them."""
        column, wanted = self._source[self._columns["time"]], []
        for bound, is_start in ((start, True), (end, False)):
            if bound is None:
                continue
            if column.type().is_timestamp():
                moment = _moment(bound)
                wanted.append(column >= moment if is_start else column < moment)
            elif column.type().is_integer():
                per_second = PER_SECOND[self._mapping.time_unit]
                value = bound * per_second // 10**6 if is_start else -(-bound * per_second // 10**6)
                wanted.append(column >= value if is_start else column < value)
            if self._mapping.day is not None:
                day = self._source[self._mapping.day].cast("string")
                number = bound // DAY if is_start else (bound - 1) // DAY
                wanted.append(day >= day_name(number) if is_start else day <= day_name(number))
        return wanted


def _moment(micros: int) -> Column:
    import ibis

    return ibis.literal((FIRST_DAY + timedelta(microseconds=micros)).replace(tzinfo=None))


def _proper(rows: Table) -> Table:
    """Without rows that have no time, no source or no target."""
    return rows.filter(
        rows.time.notnull(), rows.src.notnull(), rows.dst.notnull(), rows.src != "", rows.dst != ""
    )


def _listed(name: str, column: Column) -> Column:
    """As text that sorts as the values do; null where there is no value."""
    if name == "port":
        number = column.cast("int64")
        return only(number.cast("string").lpad(PORT_DIGITS, "0"), number.between(0, 65535))
    text = column.cast("string")
    return only(text, text != "")


def finished(raw: pa.Table) -> pa.Table:
    """What an engine gave for `EdgeQuery.edges` -> rows of EDGE_SCHEMA, sorted: the same for every engine."""
    raw = raw.sort_by([(name, "ascending") for name in KEYS])
    columns: dict[str, Any] = {name: raw[name] for name in (*KEYS, "count", "time", "last_time")}
    unset = pa.scalar(None, pa.int64())
    columns["bytes"] = pc.if_else(pc.greater(raw["bytes_known"], 0), raw["bytes"].cast(pa.int64()), unset)
    columns["failures"] = pc.if_else(pc.greater(raw["outcomes"], 0), raw["failures"].cast(pa.int64()), unset)
    columns["label"] = pc.if_else(pc.greater_equal(raw["label"], 0), raw["label"].cast(pa.int64()), unset)
    for name in LISTED:
        columns |= _unfolded(name, raw)
    fields = [(columns[field.name], field) for field in EDGE_SCHEMA]
    return pa.table([_as(column, field.type) for column, field in fields], schema=EDGE_SCHEMA)


def _as(column: Any, kind: pa.DataType) -> Any:
    return column.cast(kind)


def _unfolded(name: str, raw: pa.Table) -> dict[str, Any]:
    """Lists of counts and values -> a column for each."""
    rows = raw.num_rows
    if name not in raw.column_names:
        found: dict[str, Any] = {f"{name}_distinct": pa.repeat(pa.scalar(0, pa.int32()), rows)}
        for value, count in places(name):
            found |= {value: pa.nulls(rows, EDGE_SCHEMA.field(value).type), count: pa.nulls(rows, pa.int64())}
        return found
    lists = raw[name].combine_chunks()
    lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    entries = lists.flatten().cast(pa.string())
    starts = lengths.cumsum() - lengths
    found = {f"{name}_distinct": raw[f"{name}_distinct"].cast(pa.int32())}
    for rank, (value, count) in enumerate(places(name)):
        chosen = pa.array(starts + rank, pa.int64(), mask=lengths <= rank)
        entry = entries.take(chosen)
        found[count] = pc.subtract(MOST, pc.utf8_slice_codeunits(entry, 0, COUNT_DIGITS).cast(pa.int64()))
        found[value] = pc.utf8_slice_codeunits(entry, COUNT_DIGITS)
    return found
