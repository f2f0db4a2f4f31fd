"""The one query: a table of events -> the edges of a span of windows, in Ibis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from entente.errors import UsageError
from entente.logs.edges.ranking import ranked
from entente.logs.edges.schema import EDGE_SCHEMA, KEYS, LISTED, PORT_DIGITS, TOP, nothing_listed, places
from entente.logs.formats.base import Column, Table
from entente.logs.formats.expressions import null, only
from entente.logs.formats.expressions import outcome as outcome_of
from entente.logs.schema import COLUMNS, DAY, REQUIRED
from entente.logs.store import FIRST_DAY, day_name

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
MOST = 10**15
"""More events than an edge can have: counts are subtracted from it, so that text sorts by them."""
COUNT_DIGITS = 15
MEASURES = {
    "label": ("label",),
    "bytes": ("bytes", "bytes_known"),
    "outcome": ("failures", "outcomes"),
}
"""Event column -> what is kept of it per edge, where the table has the column."""


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

    An engine `here`, in this process, counts combinations of values; the most frequent ones are found from
    them, in a third of the time; another one finds them itself, so that only they travel.
    """

    def __init__(self, source: Table, mapping: TableMapping, *, here: bool = False) -> None:
        self._source = source
        self._columns = mapping.found(dict(source.schema().items()))
        self._mapping = mapping
        self._here = here
        self._listed = [name for name in LISTED if name in self._columns]
        self._measures = [
            name for column, names in MEASURES.items() if column in self._columns for name in names
        ]

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
        """The edges as `finished` understands them."""
        once = self._combinations(span)
        if self._here:
            return once
        rows = self._copied(once)
        counted = rows.group_by(*KEYS, "place", "value").aggregate(
            count=rows["count"].sum().cast("int64"),
            time=rows.time.min(),
            last_time=rows.last_time.max(),
            **{
                name: rows.label.max() if name == "label" else rows[name].sum().cast("int64")
                for name in self._measures
            },
        )
        ranked = counted.mutate(
            entry=(MOST - counted["count"]).cast("string").lpad(COUNT_DIGITS, "0") + counted.value
        )
        own = ranked.place == 0
        found: dict[str, Column] = {
            name: ranked[name].max(where=own) for name in ("count", "time", "last_time", *self._measures)
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

    def finished(self, raw: pa.Table) -> pa.Table:
        """What an engine gave for `edges` -> rows of EDGE_SCHEMA, sorted: the same for every engine."""
        return ranked(raw) if self._here else _finished(raw)

    def _combinations(self, span: Span) -> Table:
        """One row per edge and combination of listed values."""
        events = self._events(span)
        measures: dict[str, Column] = {}
        if "label" in self._columns:
            measures["label"] = events.label.max()
        if "bytes" in self._columns:
            measures |= {"bytes": events.bytes.sum(), "bytes_known": events.count(where=events.has_bytes)}
        if (
            "outcome" in self._columns
        ):  # counts: the sum of a case is twice as wide and twice as slow in DuckDB
            measures["failures"] = events.count(where=events.failed)
            measures["outcomes"] = events.count(where=events.has_outcome)
        return events.group_by(*KEYS, *self._listed).aggregate(
            count=events.count(), time=events.time.min(), last_time=events.last_time.max(), **measures
        )

    def _events(self, span: Span) -> Table:
        """The events of the span with their window, nothing null but the listed columns."""
        table = self._source.filter(*self._within(span.start, span.end))

        def column(name: str) -> Column | None:
            return table[self._columns[name]] if name in self._columns else None

        amount, outcome, label = column("bytes"), column("outcome"), column("label")
        measured: dict[str, Column] = {}
        if label is not None:
            measured["label"] = label.cast("int64").fill_null(-1)
        if amount is not None:
            measured |= {"bytes": amount.cast("int64").fill_null(0), "has_bytes": amount.notnull()}
        if outcome is not None:
            if not outcome.type().is_boolean():
                outcome = outcome_of(outcome.cast("string"))
            measured |= {"failed": ~outcome.fill_null(True), "has_outcome": outcome.notnull()}
        rows = table.select(
            time=self._time(table),
            src=table[self._columns["src"]].cast("string"),
            dst=table[self._columns["dst"]].cast("string"),
            **measured,
            **{name: _listed(name, table[self._columns[name]]) for name in self._listed},
        )
        rows = _proper(rows)
        rows = rows.filter(rows.src != rows.dst, rows.time >= span.start, rows.time < span.end)
        return rows.mutate(window=rows.time - (rows.time - span.start) % span.width, last_time=rows.time)

    def _copied(self, once: Table) -> Table:
        """Each row once for itself (place 0), and once per listed column with its value."""
        import ibis

        kept = (*KEYS, "count", "time", "last_time", *self._measures)
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


def _finished(raw: pa.Table) -> pa.Table:
    """One row per edge with lists of its most frequent values -> rows of EDGE_SCHEMA, sorted."""
    raw = raw.sort_by([(name, "ascending") for name in KEYS])
    columns: dict[str, Any] = {name: raw[name] for name in (*KEYS, "count", "time", "last_time")}
    unset = pa.scalar(None, pa.int64())
    for name, known, least in (
        ("label", "label", 0),
        ("bytes", "bytes_known", 1),
        ("failures", "outcomes", 1),
    ):
        if name in raw.column_names:
            there = pc.greater_equal(raw[known], least)
            columns[name] = pc.if_else(there, raw[name].cast(pa.int64()), unset)
        else:
            columns[name] = pa.nulls(raw.num_rows, pa.int64())
    for name in LISTED:
        columns |= _unfolded(name, raw)
    fields = [(columns[field.name], field) for field in EDGE_SCHEMA]
    return pa.table([_as(column, field.type) for column, field in fields], schema=EDGE_SCHEMA)


def _as(column: Any, kind: pa.DataType) -> Any:
    return column.cast(kind)


def _unfolded(name: str, raw: pa.Table) -> dict[str, Any]:
    """Lists of counts and values -> a column for each."""
    if name not in raw.column_names:
        return nothing_listed(name, raw.num_rows)
    lists = raw[name].combine_chunks()
    lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    entries = lists.flatten().cast(pa.string())
    starts = lengths.cumsum() - lengths
    found: dict[str, Any] = {f"{name}_distinct": raw[f"{name}_distinct"].cast(pa.int32())}
    for rank, (value, count) in enumerate(places(name)):
        chosen = pa.array(starts + rank, pa.int64(), mask=lengths <= rank)
        entry = entries.take(chosen)
        found[count] = pc.subtract(MOST, pc.utf8_slice_codeunits(entry, 0, COUNT_DIGITS).cast(pa.int64()))
        found[value] = pc.utf8_slice_codeunits(entry, COUNT_DIGITS)
    return found
