"""Raw logs -> an event directory, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from entente.errors import LogError, UsageError
from entente.logs.engines import SPARK, engine_named
from entente.logs.events import summarise
from entente.logs.formats.base import Options
from entente.logs.hosts import HostNames
from entente.logs.leases import read_hosts
from entente.logs.manifest import Manifest, ReadSource, seal_events, total, write_manifest
from entente.logs.pipeline import Observer, Piece, Pipeline
from entente.logs.plan import AUTO, Job, Plan, make_plan
from entente.logs.quarantine import Quarantine
from entente.logs.refine import CLOCK_TOLERANCE, Refinement, read_labels, read_zone, system_clock
from entente.logs.sources import MAX_EXPANSION
from entente.logs.store import EventWriter, Written, replacing_events

DEFAULT_ENGINE = "duckdb"
ON_BAD = ("quarantine", "fail")
OTHER_WORDS = "other words"
MOST_WORDS = 20
"""Labels that are not understood and shown, so that a column of free text does not fill the manifest."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to read, how, and where to put it."""

    sources: Sequence[str]
    out: Path
    format: str = AUTO
    options: Options = field(default_factory=Options)
    engine: str = DEFAULT_ENGINE
    labels: Path | None = None
    hosts: Path | None = None
    """Which machine had an address when (`leases.read_hosts`)."""
    host_case: str = "auto"
    domains: Sequence[str] = ()
    """Suffixes that are cut off names of hosts, `all` or `none`; empty leaves it to the format."""
    timezone: str | None = None
    on_bad: str = "quarantine"
    workers: int | None = None
    max_expansion: int = MAX_EXPANSION
    """Times its size on disk that a compressed file may unfold to; 0 is no limit."""
    clock_tolerance: int | None = CLOCK_TOLERANCE
    """Microseconds that a row may lie ahead of the clock before it is set aside; None trusts every time."""
    as_of: int | None = None
    """The time to take for now, in microseconds, for logs of the past; the system's clock by default."""


@dataclass
class _Tally:
    seen: int = 0
    kept: int = 0
    filtered: dict[str, int] = field(default_factory=dict)
    bad: dict[str, int] = field(default_factory=dict)

    def add(self, piece: Piece, kept: int) -> None:
        self.seen += piece.seen
        self.kept += kept
        self.filtered = total((self.filtered, piece.filtered))
        for row in piece.bad:
            self.bad[row.reason] = self.bad.get(row.reason, 0) + 1

    def source(self, job: Job) -> ReadSource:
        return ReadSource(
            str(job.file), job.format.name, self.seen, self.kept, self.filtered, total([self.bad])
        )


def plan(request: Request) -> Plan:
    """Which files would be read, and how; raises what `ingest` would raise before reading."""
    if request.on_bad not in ON_BAD:
        raise UsageError(f"--on-bad is {' or '.join(ON_BAD)}, not {request.on_bad!r}")
    if request.max_expansion < 0:
        raise UsageError("--max-expansion is a number of times, or 0 for no limit")
    engine_named(request.engine)
    options = replace(request.options, keyed=request.labels is not None)
    return make_plan(request.sources, request.format, options, request.max_expansion)


def ingest(request: Request, observer: Observer | None = None, planned: Plan | None = None) -> Manifest:
    """Read everything `request` names into an event directory; a former one is replaced atomically."""
    planned = planned or plan(request)
    options = replace(request.options, keyed=request.labels is not None)
    refinement = Refinement(
        keys=read_labels(request.labels, planned.formats) if request.labels else None,
        names=HostNames(
            request.host_case, tuple(request.domains), read_hosts(request.hosts) if request.hosts else None
        ),
        zone=read_zone(request.timezone) if request.timezone else None,
        tolerance=request.clock_tolerance,
        clock=system_clock if request.as_of is None else _stopped(request.as_of),
    )
    with replacing_events(request.out) as directory:
        if request.engine in SPARK:
            gathered = _gather_on_spark(request, planned, options, refinement, directory)
        else:
            gathered = _gather(request, planned, options, refinement, directory, observer)
        tallies = gathered.tallies
        sources = tuple(tally.source(job) for tally, job in zip(tallies, planned.jobs, strict=True))
        labels = {}
        if refinement.keys is not None:
            labels = {"entries": len(refinement.keys), "matched": len(gathered.matched)}
        manifest = summarise(
            gathered.written, sources, planned.skipped, labels, gathered.words, gathered.names
        )
        write_manifest(directory, manifest)
        seal_events(directory)
    return manifest


class _Gathering:
    """Adds up what became of the blocks, one after the other."""

    def __init__(self, request: Request, planned: Plan, quarantine: Quarantine) -> None:
        self._request, self._planned, self._quarantine = request, planned, quarantine
        self.tallies = [_Tally() for _ in planned.jobs]
        self.matched: set[str] = set()
        self.names: dict[str, int] = {}
        self.words: dict[str, int] = {}
        self.rows = 0
        self.written = Written(0, None, None, 0, 0, 0, True, {})

    def add(self, piece: Piece, kept: int) -> None:
        job = self._planned.jobs[piece.job]
        if piece.bad and self._request.on_bad == "fail":
            raise LogError(
                f"bad row: {piece.bad[0].reason}",
                where=str(job.file),
                line=piece.bad[0].line,
                remedy="Without --on-bad fail such rows go to quarantine/ and reading goes on.",
            )
        self._quarantine.add(str(job.file), piece.bad)
        self.tallies[piece.job].add(piece, kept)
        self.matched |= piece.matched
        self.names = total((self.names, piece.names))
        self.words = _frequent(total((self.words, piece.words)))
        self.rows += piece.seen


def _gather(
    request: Request,
    planned: Plan,
    options: Options,
    refinement: Refinement,
    directory: Path,
    observer: Observer | None,
) -> _Gathering:
    pipeline = Pipeline(planned.jobs, engine_named(request.engine), options, refinement, request.workers)
    writer = EventWriter(directory)
    try:
        with Quarantine(directory) as quarantine:
            gathering = _Gathering(request, planned, quarantine)
            for piece in pipeline:
                gathering.add(piece, piece.events.num_rows)
                writer.write(piece.events)
                if observer is not None:
                    observer(gathering.rows, piece.read)
        _check_yield(planned, gathering.tallies)
        writer.close()
    except BaseException:
        writer.abandon()
        raise
    gathering.written = writer.written()
    return gathering


def _gather_on_spark(
    request: Request, planned: Plan, options: Options, refinement: Refinement, directory: Path
) -> _Gathering:
    from entente.logs.distributed import ingest_on_spark

    done = ingest_on_spark(planned, options, refinement, directory)
    with Quarantine(directory) as quarantine:
        gathering = _Gathering(request, planned, quarantine)
        for piece, kept in done.pieces:
            gathering.add(piece, kept)
    _check_yield(planned, gathering.tallies)
    gathering.written = done.written
    return gathering


def _frequent(words: dict[str, int]) -> dict[str, int]:
    """The most frequent words; what they leave is counted together."""
    rest = words.pop(OTHER_WORDS, 0) + sum(list(words.values())[MOST_WORDS:])
    return dict(list(words.items())[:MOST_WORDS]) | ({OTHER_WORDS: rest} if rest else {})


def _stopped(moment: int) -> Callable[[], int]:
    return lambda: moment


def _check_yield(planned: Plan, tallies: list[_Tally]) -> None:
    """Every SOURCE argument must have given at least one event."""
    by_argument: dict[str, list[_Tally]] = {}
    for job, tally in zip(planned.jobs, tallies, strict=True):
        by_argument.setdefault(job.file.argument, []).append(tally)
    for argument, group in by_argument.items():
        if sum(tally.kept for tally in group):
            continue
        seen = sum(tally.seen for tally in group)
        dropped = {**total(t.filtered for t in group), **total(t.bad for t in group)}
        why = "; ".join(f"{rows:,} {reason}" for reason, rows in list(dropped.items())[:8])
        raise LogError(
            f"gives no event: {seen:,} rows seen" + (f" ({why})" if why else ""),
            where=argument,
            remedy="Check --format, --ntlm and --map; `entente formats` says what each format reads.",
        )
