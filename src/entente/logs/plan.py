"""Which file is read how: recognise formats, leave out what is no log, refuse what cannot work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from entente.errors import LogError, UsageError
from entente.logs.formats import format_named, recognise
from entente.logs.formats.base import ENVELOPES, Format, Head, JsonLines, Layout, Options, Skip
from entente.logs.framing import possible_depths
from entente.logs.sources import MAX_EXPANSION, LogFile, find_files, read_head

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Job:
    """One file with everything that is needed to read it."""

    file: LogFile
    format: Format
    layout: Layout
    reason: str
    """Why the file is taken for this format."""
    header: str
    """Its first line."""
    depth: int | None = None
    """Of the JSON objects that are its rows, where they are not one per line."""


@dataclass(frozen=True, slots=True)
class Plan:
    jobs: tuple[Job, ...]
    skipped: dict[str, str]
    """File -> why nothing of it is read."""

    @property
    def formats(self) -> list[Format]:
        return list({job.format.name: job.format for job in self.jobs}.values())


def make_plan(
    arguments: Sequence[str], format_name: str, options: Options, max_expansion: int = MAX_EXPANSION
) -> Plan:
    """Look at the beginning of every file: one the user named must fit, one found in a folder may not."""
    wanted = None if format_name == AUTO else format_named(format_name)
    jobs: list[Job] = []
    skipped: dict[str, str] = {}
    files = find_files(arguments, max_expansion)
    for file in files:
        chosen = _choose(file, wanted)
        if isinstance(chosen, Skip):
            skipped[str(file)] = chosen.reason
            continue
        head = chosen.head
        layout = chosen.format.layout(head, options)
        if isinstance(layout, Skip):
            skipped[str(file)] = layout.reason
            continue
        if isinstance(layout, JsonLines):
            layout = replace(layout, envelope=head.envelope)
        jobs.append(Job(file, chosen.format, layout, chosen.reason, head.first, chosen.depth))
    if wanted is None:
        jobs = _drop_tables_beside_logs(jobs, skipped)
    _refuse_mixed_tables(jobs)
    useful = {job.file.argument for job in jobs}
    for file in files:
        if file.argument not in useful:
            _refuse(file.argument, format_name, skipped)
    if options.ntlm and not all(job.format.ntlm for job in jobs):
        other = next(job.format.name for job in jobs if not job.format.ntlm)
        raise UsageError(f"--ntlm does not apply to {other} logs: they do not name the package")
    return Plan(tuple(jobs), skipped)


@dataclass(frozen=True, slots=True)
class _Choice:
    format: Format
    reason: str
    head: Head
    depth: int | None = None


def _choose(file: LogFile, wanted: Format | None) -> _Choice | Skip:
    head = read_head(file)
    if not head.first:
        if file.listed:
            return Skip("empty")
        raise LogError("is empty", where=str(file), remedy="Nothing can be read from it.")
    found = _look(file, head, wanted)
    if found is not None:
        return found
    if wanted is not None:
        other = _look(file, head, None)
        if file.listed and not (other is None and wanted.rank > 0):
            named = f"not {wanted.name}" if other is None else f"{other.format.name}, not {wanted.name}"
            return Skip(named)
        if other is not None and other.format.rank == 0:
            raise LogError(
                f"is not {wanted.name}: it looks like {other.format.name} ({other.reason})",
                where=str(file),
                remedy=f"Use --format {other.format.name} or --format auto.",
            )
        return _Choice(wanted, "as told", head)
    if file.listed:
        return Skip("no known format")
    raise LogError(
        f"is of no known format; it begins with {head.first[:60]!r}",
        where=str(file),
        remedy="Name it with --format; for any table use --format csv with --map time=..., src=..., dst=...",
    )


def _look(file: LogFile, head: Head, wanted: Format | None) -> _Choice | None:
    """The format of a file, looking into envelopes and then at JSON that is not one object per line."""
    found = _look_into(head, wanted, None)
    if found is None:
        for depth in possible_depths("\n".join(head.lines).encode()):
            found = _look_into(read_head(file, depth), wanted, depth)
            if found is not None:
                break
    return found


def _look_into(head: Head, wanted: Format | None, depth: int | None) -> _Choice | None:
    rows = "" if depth is None else ", in a JSON array" if depth else ", JSON over several lines"
    for envelope in ENVELOPES:
        inner = replace(head, envelope=envelope)
        if envelope.keys and not inner.objects:
            continue
        if wanted is not None:
            reason = wanted.recognise(inner)
            found = None if reason is None else (wanted, reason)
        else:
            found = recognise(inner)
        # Lines that only look delimited are no reason to call an envelope a table.
        if found is not None and (depth is None or inner.objects):
            where = f", in {envelope}" if envelope.keys else ""
            return _Choice(found[0], found[1] + where + rows, inner, depth)
    return None


def _drop_tables_beside_logs(jobs: list[Job], skipped: dict[str, str]) -> list[Job]:
    """In a folder of logs a CSV that happens to have fitting columns is somebody's notes."""
    logs = {job.file.argument for job in jobs if job.format.rank == 0}
    kept = []
    for job in jobs:
        if job.format.rank > 0 and job.file.listed and job.file.argument in logs:
            skipped[str(job.file)] = f"a {job.format.name} table beside logs"
        else:
            kept.append(job)
    return kept


def _refuse_mixed_tables(jobs: list[Job]) -> None:
    """Tables that differ in their header are hardly all logs: the same events may stand in two of them."""
    first: dict[str, Job] = {}
    for job in jobs:
        if job.format.rank > 0 and job.file.listed:
            other = first.setdefault(job.file.argument, job)
            if other.header != job.header:
                raise UsageError(
                    f"holds tables of different kinds, such as {other.file.name} and {job.file.name}",
                    where=job.file.argument,
                    remedy="Name the files to read.",
                )


def _refuse(argument: str, format_name: str, skipped: dict[str, str]) -> None:
    reasons = [f"{file}: {reason}" for file, reason in skipped.items()]
    shown = "; ".join(reasons[:5]) + (f"; and {len(reasons) - 5} more" if len(reasons) > 5 else "")
    kind = "known" if format_name == AUTO else format_name
    raise LogError(
        f"holds no {kind} log ({shown})", where=argument, remedy="`entente formats` lists what can be read."
    )
