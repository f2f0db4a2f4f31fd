"""One step after another: read, keep, close windows, score, hand over. Killed at any point, nothing is lost.

Two transactions do it. The first stores what was read together with how far each source was read. The second
stores that windows were scored together with their alerts, what outputs have to deliver, which state follows
and which events still wait. Files are written before the transaction that names them; on start, files that no
transaction names are removed. So every event is read at least once and kept once, every window is scored
exactly once, and no alert is lost or doubled.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from entente.detection.alerts import Alert
from entente.detection.feedback import NOTHING_LEARNT, Lessons
from entente.errors import LogError
from entente.logs.schema import MICROSECONDS, STORED_SCHEMA
from entente.logs.stream import LineReader
from entente.service.alerts import AlertStore
from entente.service.config import Watch
from entente.service.database import fact, set_fact, transaction
from entente.service.edges import NAME as EDGES
from entente.service.edges import CompleteWindows, EdgeFolder
from entente.service.outbox import Outbox
from entente.service.pending import Pending, SourceClock, watermark
from entente.service.sources.base import Batch, Lines, Source
from entente.service.suppression import FILE, SuppressionFile, Suppressions

READ = 8 << 20
"""Bytes that are read from a source in one step."""
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What closed windows gave."""

    alerts: tuple[Alert, ...]
    edges: int
    new_hosts: int = 0
    taught: int = 0
    """Edges that are not raised because such ones were closed as benign."""
    further: tuple[Alert, ...] = ()
    """Edges that belong to incidents and are no alerts."""


class Scorer(Protocol):
    """A model with its silos' state."""

    width: int
    """Microseconds of a window."""
    until: int | None
    """Where the next window begins; None while nothing was ever scored."""

    @property
    def model(self) -> str:
        """Names the model in the list of scored windows."""

    @property
    def drift(self) -> float | None:
        """Share of edges above the threshold, over the share expected from training; None if unknown."""

    def score(self, events: pa.Table | Path, start: int, end: int, lessons: Lessons) -> Outcome:
        """Score the windows from `start` to `end` and move the state on; empty windows count too.

        `events` are theirs, or the path of an edge directory that has these windows among others.
        `lessons` are what people taught by closing alerts."""

    def save(self, folder: Path) -> None:
        """Write the present state, whole."""

    def refresh(self) -> str | None:
        """Take over a newly delivered model, if there is one; what was done, or None."""


@dataclass(slots=True)
class Input:
    """A source with what the service knows of it."""

    name: str
    source: Source
    reader: LineReader
    clock: SourceClock = field(default_factory=SourceClock)
    behind: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Tally:
    """Counters since the service was started."""

    events: int = 0
    bytes: int = 0
    dropped: Counter[str] = field(default_factory=Counter)  # reason -> rows
    windows: int = 0
    edges: int = 0
    alerts: int = 0
    suppressed: int = 0
    taught: int = 0
    new_hosts: int = 0


class WatchLoop:
    """The service without its threads and its clock's ticking: `step` until told to stop."""

    def __init__(
        self,
        config: Watch,
        connection: sqlite3.Connection,
        inputs: Sequence[Input],
        scorer: Scorer,
        *,
        clock: Callable[[], float] = time.time,
        report: Report = lambda _: None,
    ) -> None:
        self.config = config
        self.inputs = {one.name: one for one in inputs}
        self.scorer = scorer
        self.tally = Tally()
        self._connection = connection
        self._clock = clock
        self._report = report
        self._store = AlertStore(connection)
        self._outbox = Outbox(connection)
        self._suppressions = SuppressionFile(config.folder / FILE, connection)
        self.pending = Pending(config.folder / "pending", connection)
        self.edges = EdgeFolder(config.edges, config.silent) if config.edges is not None else None
        self._outputs = [output.name for output in config.outputs]
        self._states = config.folder / "states"
        self._clean_states()
        for heard in self.clocks().values():
            heard.heard = clock()

    # ---- one step -------------------------------------------------------------------------------

    def step(self) -> bool:
        """Read what there is and score what is complete; whether there was anything to do."""
        if self.edges is not None:
            return self._score_edges(self.edges)
        read = self._read(self._in_turn())
        return self._close_windows() or read

    def flush(self) -> None:
        """Score everything that waits, open windows included: no more will come."""
        if self.pending.last is not None:
            self._score_until(self.pending.last + 1, closing=True)

    @property
    def finished(self) -> bool:
        """Whether every source has ended for good."""
        return self.edges is None and all(one.source.finished for one in self.inputs.values())

    def clocks(self) -> dict[str, SourceClock]:
        """How far each source has come."""
        if self.edges is not None:
            return {EDGES: self.edges.clock}
        return {name: one.clock for name, one in self.inputs.items()}

    def silent(self) -> list[str]:
        """Sources that have brought nothing for longer than they should."""
        limit = self._clock() - self.config.silent
        return sorted(name for name, clock in self.clocks().items() if clock.heard < limit)

    # ---- reading --------------------------------------------------------------------------------

    def _in_turn(self) -> list[str]:
        """The sources to read now. While too much waits, those that are ahead of another one are not.

        The one that is furthest behind is read on in any case: no window can be closed before it comes
        further, so stopping it would be for ever.
        """
        if self.pending.rows < self.config.pending:
            return list(self.inputs)
        silent = self.silent()
        came = {n: -1 if (c := one.clock.reached) is None else c for n, one in self.inputs.items()}
        slowest = min((moment for name, moment in came.items() if name not in silent), default=-1)
        return [name for name, moment in came.items() if name in silent or moment <= slowest]

    def _read(self, names: Sequence[str]) -> bool:
        now = self._clock()
        tables, positions, dropped = [STORED_SCHEMA.empty_table()], {}, Counter[str]()
        for name, one in self.inputs.items():
            if name not in names:
                one.clock.heard = now  # whether it is silent cannot be known
                continue
            before = self._position(name)
            batch = one.source.read(before, READ)
            one.behind = batch.behind
            self._say(one, batch)
            events = self._parse(one, batch, dropped)
            events = self._in_time(events, now, dropped)
            one.clock.hear(events["time"].to_numpy(), now)
            tables.append(events)
            if batch.position != before:
                positions[name] = json.dumps(batch.position)
            self.tally.bytes += sum(len(part.block) for part in batch.lines)
        read = pa.concat_tables(tables)
        if read.num_rows or positions:
            prepared = self.pending.prepare(read)
            with transaction(self._connection):
                apply = self.pending.commit(prepared, read)
                self._connection.executemany(
                    "INSERT INTO positions VALUES (?, ?) "
                    "ON CONFLICT (source) DO UPDATE SET position = excluded.position",
                    list(positions.items()),
                )
                self._add_counts(dropped)
            apply()
        self.tally.events += read.num_rows
        self.tally.dropped.update(dropped)
        return bool(read.num_rows)

    def _parse(self, one: Input, batch: Batch, dropped: Counter[str]) -> pa.Table:
        tables = [STORED_SCHEMA.empty_table()]
        for part in batch.lines:
            rows = part.block.count(b"\n")
            try:
                pieces = one.reader.read(part.log, part.head, part.block, part.first)
            except LogError as error:
                dropped["unknown format"] += rows
                self._report(f"source {one.name}: {error}")
                continue
            if isinstance(pieces, str):
                dropped[pieces] += rows
                continue
            for piece in pieces:
                for reason, count in piece.filtered.items():
                    dropped[reason] += count
                for bad in piece.bad:
                    dropped[bad.reason] += 1
                tables.append(named_rows(piece.events.cast(STORED_SCHEMA), part))
        return pa.concat_tables(tables)

    def _in_time(self, events: pa.Table, now: float, dropped: Counter[str]) -> pa.Table:
        """Events that are neither from the future nor of a window that was scored already."""
        limit = round((now + self.config.ahead) * MICROSECONDS)
        future = pc.greater(events["time"], limit)
        late = pc.less(events["time"], self.scorer.until if self.scorer.until is not None else -(1 << 62))
        for reason, column in (("ahead of the clock", future), ("later than `lateness`", late)):
            count = pc.sum(column).as_py() or 0
            if count:
                dropped[reason] += count
        return events.filter(pc.invert(pc.or_(future, late)))

    def _say(self, one: Input, batch: Batch) -> None:
        """Report what is new among a source's notes."""
        for note in batch.notes:
            if note not in one.notes:
                self._report(f"source {one.name}: {note}")
        one.notes = batch.notes

    def _position(self, name: str) -> object:
        row = self._connection.execute("SELECT position FROM positions WHERE source = ?", (name,)).fetchone()
        return json.loads(row["position"]) if row else None

    def _add_counts(self, counts: Mapping[str, int]) -> None:
        for reason, count in counts.items():
            self._connection.execute(
                "INSERT INTO facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE "
                "SET value = CAST(CAST(value AS INTEGER) + CAST(excluded.value AS INTEGER) AS TEXT)",
                (f"dropped/{reason[:200]}", str(count)),
            )

    # ---- scoring --------------------------------------------------------------------------------

    def _close_windows(self) -> bool:
        mark = watermark(self.clocks(), self.config.lateness, self.config.silent, self._clock())
        return mark is not None and self._score_until(mark)

    def _score_until(self, moment: int, *, closing: bool = False) -> bool:
        """Score all windows that end at `moment` or before (with `closing` also the one that holds it)."""
        width = self.scorer.width
        end = (moment + width - 1) // width * width if closing else moment // width * width
        first = self.pending.first
        if first is None or first >= end:
            return False
        start = self.scorer.until if self.scorer.until is not None else first // width * width
        events, rest = self.pending.before(end)
        self._score(events, CompleteWindows(start, end, events.num_rows), rest)
        return True

    def _score_edges(self, edges: EdgeFolder) -> bool:
        windows = edges.next(self.scorer.until, self._clock())
        if windows is None:
            return False
        self._score(edges.path, windows, STORED_SCHEMA.empty_table())
        self.tally.events += windows.events
        return True

    def _score(self, events: pa.Table | Path, windows: CompleteWindows, rest: pa.Table) -> None:
        """Score windows, and store what they gave together with the events that still wait."""
        start, end = windows.start, windows.end
        said = self.scorer.refresh()
        if said is not None:
            self._report(said)
        lessons = self._store.lessons(start) if self.config.feedback else NOTHING_LEARNT
        scored = self.scorer.score(events, start, end, lessons)
        raised = self._named(scored.alerts)
        number = state_number(self._connection) + 1
        self.scorer.save(self._states / f"{number:08d}")
        prepared = self.pending.prepare(rest)
        suppressions = self._rules()
        moment = round(self._clock() * MICROSECONDS)
        with transaction(self._connection):
            fresh = self._store.add(raised, suppressions, moment)
            self._store.add_further(scored.further)
            self._outbox.add(self._outputs, fresh)
            self._connection.execute(
                "INSERT INTO scorings VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    start,
                    end,
                    self.scorer.model,
                    windows.events,
                    scored.edges,
                    len(scored.alerts),
                    moment,
                ),
            )
            set_fact(self._connection, "state", str(number))
            set_fact(self._connection, "until", str(end))
            apply = self.pending.replace(prepared, rest)
        apply()
        self._clean_states()
        self.tally.windows += (end - start) // self.scorer.width
        self.tally.edges += scored.edges
        self.tally.alerts += len(scored.alerts)
        self.tally.suppressed += len(scored.alerts) - len(fresh)
        self.tally.new_hosts += scored.new_hosts
        self.tally.taught += scored.taught

    def _named(self, alerts: Sequence[Alert]) -> list[Alert]:
        """The alerts with the model whose place the present one took, if it took any."""
        row = self._connection.execute(
            "SELECT model FROM scorings WHERE model != ? ORDER BY start DESC LIMIT 1", (self.scorer.model,)
        ).fetchone()
        return [replace(alert, model_before=row["model"] if row else None) for alert in alerts]

    def _rules(self) -> Suppressions:
        """The suppressions as they are now; what is wrong with their file is said once."""
        before, rules = self._suppressions.problem, self._suppressions.read()
        if self._suppressions.problem not in (None, before):
            self._report(str(self._suppressions.problem))
        return rules

    def problems(self) -> tuple[str, ...]:
        """What the operator should put right."""
        found = [] if self._suppressions.problem is None else [self._suppressions.problem]
        if self.inputs and self.pending.rows >= self.config.pending:
            found.append(
                f"{self.pending.rows:,} events wait for their window, more than `pending`: only "
                f"{', '.join(self._in_turn())} is read until a window can be closed"
            )
        return tuple(found)

    def _clean_states(self) -> None:
        """Remove states that nothing names any more, and what a killed process left half written."""
        kept = f"{state_number(self._connection):08d}"
        for folder in self._states.iterdir() if self._states.is_dir() else ():
            if folder.name != kept:
                shutil.rmtree(folder, ignore_errors=True)


def named_rows(events: pa.Table, part: Lines) -> pa.Table:
    """The events with what their source calls their rows: an offset within the log, or an id of its own."""
    if not part.rows:
        return events
    called = pa.array(part.rows).take(pc.subtract(events["line"], part.first))
    named = dict(zip(events.column_names, events.columns, strict=True))
    if pa.types.is_integer(called.type):
        named["line"] = called
    else:
        named |= {"log": called, "line": pa.nulls(events.num_rows, pa.int64())}
    return pa.table(named, schema=STORED_SCHEMA)


def state_number(connection: sqlite3.Connection) -> int:
    """The number of the state that the last scored window left; 0 before the first."""
    return int(fact(connection, "state") or 0)


def scored_until(connection: sqlite3.Connection) -> int | None:
    """Where the next window begins; None before the first."""
    found = fact(connection, "until")
    return int(found) if found is not None else None
