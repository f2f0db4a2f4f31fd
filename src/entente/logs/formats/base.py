"""What a log format is: how to know it, how its lines fall into fields, how fields make an event."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from entente.errors import UsageError

Column = Any
"""An Ibis expression for one column; Ibis has no types of its own that a checker could use."""
Table = Any
"""An Ibis table."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """Where in a JSON row the record of the log stands, when a collector has wrapped it."""

    keys: tuple[str, ...] = ()
    text: bool = False
    """The record is a string that holds JSON."""

    def __str__(self) -> str:
        return ".".join(self.keys)

    def open(self, row: Any) -> Any:
        """The record in a row, or None."""
        for key in self.keys:
            row = row.get(key) if isinstance(row, dict) else None
        if self.text:
            return _parsed(row) if isinstance(row, str) else None
        return row


ENVELOPES = (
    Envelope(),
    Envelope(("_source",)),
    Envelope(("result",)),
    Envelope(("result", "_raw"), text=True),
    Envelope(("_raw",), text=True),
    Envelope(("event",)),
    Envelope(("json",)),
    Envelope(("message",), text=True),
    Envelope(("event", "original"), text=True),
    Envelope(("_source", "message"), text=True),
    Envelope(("_source", "event", "original"), text=True),
    Envelope(("log",), text=True),
)
"""Elasticsearch documents, Splunk exports and its HTTP collector, Filebeat and Logstash, container logs."""


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None  # a bad row; others may still tell


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a log file, decompressed: enough to recognise it and to read its header."""

    name: str
    """File name without its folder; of a zip member, the member's."""
    lines: tuple[str, ...]
    """Whole lines, without line ends."""

    @property
    def first(self) -> str:
        """The first line that is not blank."""
        return next((line for line in self.lines if line.strip()), "")

    envelope: Envelope = Envelope()
    """What the records stand in, where the lines are JSON."""

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The JSON records among the first lines, out of their envelope."""
        rows = (_parsed(line) for line in self.lines[:20] if line.lstrip().startswith("{"))
        return [record for row in rows if isinstance(record := self.envelope.open(row), dict)]


@dataclass(frozen=True, slots=True)
class Delimited:
    """Lines of fields. The field count must fit, else the row is bad."""

    columns: tuple[str, ...]
    used: tuple[str, ...]
    """The columns the format looks at; others are not even converted."""
    delimiter: str = ","
    quoted: bool = False
    """Whether a field may stand in double quotes. A quoted field never spans lines."""
    skip: int = 0
    """Header lines at the top."""
    comment: str | None = None
    """Lines that begin with this are no rows."""
    end: str | None = None
    """A line that is exactly this ends the rows (nfdump's summary)."""
    given: tuple[tuple[str, str], ...] = ()
    """(column, text): columns that are the same in all rows, because the file says it once."""


@dataclass(frozen=True, slots=True)
class Only:
    """What tells the records that a format reads from the many that it does not, before they are parsed."""

    words: tuple[str, ...]
    """Each stands in every wanted record. A line without one is passed over if it looks like an object."""
    reason: str


@dataclass(frozen=True, slots=True)
class JsonLines:
    """One JSON object per line."""

    paths: Mapping[str, tuple[str, ...]]
    """Column -> keys from the outside in. Values become text; an absent or null one becomes null."""
    given: tuple[tuple[str, str], ...] = ()
    """(column, text): columns that are the same in all rows, because the file says it once."""
    envelope: Envelope = Envelope()
    """What the records stand in; set by the plan, not by the format."""
    only: Only | None = None


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Column names of which each occurs once: the first of its kind counts, later ones get other names."""
    found: dict[str, None] = {}
    for place, name in enumerate(names):
        found[name if name not in found else f"_{place}/{name}"] = None
    return tuple(found)


Layout = Delimited | JsonLines


@dataclass(frozen=True, slots=True)
class Skip:
    """A file that belongs to the format but holds no events."""

    reason: str


UNITS = ("s", "ms", "us", "ns")


@dataclass(frozen=True, slots=True)
class Options:
    """What a user may say about the logs."""

    ntlm: bool = False
    """Keep NTLM logons only, as the paper does with LANL."""
    keyed: bool = False
    """The event needs a `key`, because a labels file was given."""
    columns: tuple[tuple[str, str], ...] = ()
    """csv: (event column, column of the file by name or by position from 1)."""
    delimiter: str | None = None
    """csv: what separates fields; found from the header by default."""
    header: bool = True
    """csv: whether the first line names the columns."""
    time_unit: str = "s"
    """csv: unit of a numeric time: s, ms, us or ns."""

    def __post_init__(self) -> None:
        if self.time_unit not in UNITS:
            raise UsageError(f"time_unit is one of {', '.join(UNITS)}, not {self.time_unit!r}")
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise UsageError(f"delimiter is one character, not {self.delimiter!r}")


@dataclass(frozen=True, slots=True)
class Event:
    """Expressions for the columns of an event over `rows`; a missing one is null."""

    rows: Table
    """The table the expressions refer to: the raw one, or what the format derived from it row by row."""
    time: Column
    """int64 microseconds."""
    src: Column
    dst: Column
    user: Column | None = None
    kind: Column | None = None
    logon: Column | None = None
    """String: Windows's name of the logon type (`expressions.LOGON_TYPES`)."""
    port: Column | None = None
    bytes: Column | None = None
    outcome: Column | None = None
    """Boolean: whether what was tried succeeded."""
    label: Column | None = None
    filtered: Column | None = None
    """String: why a row that can be read is not wanted, null to keep it."""
    bad: Column | None = None
    """String: why a row cannot be read, beyond a missing time, src or dst."""
    local: Column | None = None
    """Boolean: the time has no zone, so that --timezone applies."""
    word: Column | None = None
    """String: the label in the log's own words; those that `label` does not understand are counted."""
    key: Column | None = None
    """String that the lines of a labels file are compared with."""


class Format(ABC):
    """One log format. A new one is one module with one subclass and an entry point `entente.formats`.

    >>> from entente.registry import FORMATS
    >>> issubclass(FORMATS.load("zeek"), entente.Format)
    True
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    sample: ClassVar[str]
    """A few rows as the tool writes them; the contract tests run on it."""
    rank: ClassVar[int] = 0
    """Of two formats that recognise a file, the lower rank wins."""
    ntlm: ClassVar[bool] = False
    """Whether the log says which logons used NTLM."""
    exact_names: ClassVar[bool] = False
    """Hosts have names of a published data set, which keep their case and domain."""
    short_names: ClassVar[bool] = False
    """The log mixes long and short names of hosts, so that domains are cut off."""
    labels: ClassVar[str] = ""
    """What a labels file for this format holds; empty where there is none."""

    @abstractmethod
    def recognise(self, head: Head) -> str | None:
        """Why this looks like the format, or None when it does not."""

    @abstractmethod
    def layout(self, head: Head, options: Options) -> Layout | Skip:
        """How the lines of this file fall into fields."""

    @abstractmethod
    def event(self, raw: Table, options: Options) -> Event:
        """Expressions over `raw`, whose columns are strings."""

    def label_keys(self, lines: list[str]) -> list[str]:
        """The keys of the malicious events in a labels file, one per line of it."""
        raise NotImplementedError(self.name)
