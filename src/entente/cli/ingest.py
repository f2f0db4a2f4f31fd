"""entente ingest: read logs into an event table."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from entente.cli.terminal import Quiet
from entente.text import count, visible

if TYPE_CHECKING:
    from entente.logs.formats.base import Options
    from entente.logs.manifest import Manifest
    from entente.logs.plan import Plan


def ingest(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE...", help="Files, globs or directories; .gz .zst .bz2 .xz .zip too."),
    ],
    out: Annotated[Path, typer.Option("--out", help="Event directory to write; a former one is replaced.")],
    format: Annotated[
        str, typer.Option("--format", help="See `entente formats`; auto looks into the files.")
    ] = "auto",
    labels: Annotated[
        Path | None, typer.Option("--labels", help="Malicious events: LANL redteam.txt, OpTC event ids.")
    ] = None,
    hosts: Annotated[
        Path | None,
        typer.Option(
            "--hosts", help="Which machine had an address when: CSV, JSON, DHCP leases, Zeek's dhcp.log."
        ),
    ] = None,
    host_case: Annotated[
        str, typer.Option("--host-case", help="lower, keep, or auto: lower except for published data sets.")
    ] = "auto",
    strip_domain: Annotated[
        list[str] | None,
        typer.Option("--strip-domain", help="Suffix to cut off host names, repeated; or all, or none."),
    ] = None,
    ntlm: Annotated[bool, typer.Option("--ntlm", help="Keep NTLM logons only (lanl-auth, windows).")] = False,
    mapping: Annotated[
        list[str] | None,
        typer.Option("--map", help="csv: EVENT_COLUMN=FILE_COLUMN, repeated, or a TOML file."),
    ] = None,
    timezone: Annotated[
        str | None, typer.Option("--timezone", help="Of times written without a zone; UTC by default.")
    ] = None,
    engine: Annotated[str, typer.Option("--engine", help="duckdb, polars or spark.")] = "duckdb",
    on_bad: Annotated[
        str, typer.Option("--on-bad", help="quarantine = set bad rows aside, fail = stop at the first.")
    ] = "quarantine",
    clock_tolerance: Annotated[
        str,
        typer.Option(
            "--clock-tolerance", help="Rows further in the future are set aside: 90s, 15m, 1h, 2d, off."
        ),
    ] = "1h",
    as_of: Annotated[
        str | None, typer.Option("--as-of", help="Time to take for now, ISO 8601, with logs of the past.")
    ] = None,
    max_expansion: Annotated[
        int,
        typer.Option("--max-expansion", help="Times its size a compressed file may unfold to; 0 = no limit."),
    ] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifest as JSON.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Say more about each file.")] = False,
    quiet: Quiet = False,
) -> None:
    """Read logs into an event table: Parquet by day, with a manifest and a quarantine for bad rows.

    Example: entente ingest auth.txt.gz --format lanl-auth --labels redteam.txt --ntlm --out events
    """
    from entente.logs.ingest import Request, plan
    from entente.logs.ingest import ingest as run

    request = Request(
        sources=sources,
        out=out,
        format=format,
        options=_options(mapping or [], ntlm),
        engine=engine,
        labels=labels,
        hosts=hosts,
        timezone=timezone,
        on_bad=on_bad,
        max_expansion=max_expansion,
        host_case=host_case,
        domains=strip_domain or (),
        clock_tolerance=span(clock_tolerance),
        as_of=None if as_of is None else moment(as_of),
    )
    planned = plan(request)
    if not quiet:
        _tell_plan(planned, verbose, auto=format == "auto")
    with _progress(sum(job.file.size for job in planned.jobs), quiet or as_json) as observer:
        manifest = run(request, observer, planned)
    if as_json:
        typer.echo(json.dumps({"out": str(out), **manifest.as_json()}, indent=2))
    elif not quiet:
        _tell_result(manifest, out, verbose)


def _options(mapping: list[str], ntlm: bool) -> Options:
    from entente.errors import UsageError
    from entente.logs.formats.base import Options
    from entente.logs.mapping import read_mapping

    settings: dict[str, Any] = {}
    columns: dict[str, str] = {}
    for entry in mapping:
        if entry.endswith(".toml"):
            stored = read_mapping(Path(entry))
            columns |= stored.pop("columns", {})
            settings |= stored
        elif "=" in entry:
            name, column = entry.split("=", 1)
            if name in ("delimiter", "header", "time_unit"):
                settings[name] = column.lower() in ("true", "yes", "1") if name == "header" else column
            else:
                columns[name] = column
        else:
            raise UsageError(f"--map {entry}: neither NAME=COLUMN nor a .toml file")
    return Options(ntlm=ntlm, columns=tuple(columns.items()), **settings)


def span(text: str, option: str = "--clock-tolerance") -> int | None:
    """90s, 15m, 1h, 2d -> microseconds; off -> None."""
    from entente.errors import UsageError

    found = re.fullmatch(r"([0-9]{1,6})([smhd]?)", text)
    if text == "off":
        return None
    if found is None:
        raise UsageError(f"{option} {text}: write 90s, 15m, 1h, 2d or off")
    return int(found.group(1)) * {"s": 1, "": 1, "m": 60, "h": 3_600, "d": 86_400}[found.group(2)] * 1_000_000


def moment(text: str, option: str = "--as-of") -> int:
    """ISO 8601, UTC where it names no zone -> microseconds."""
    from entente.errors import UsageError

    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{option} {text}: write a time such as 2024-03-01T08:00:00Z") from error
    zoned = found if found.tzinfo else found.replace(tzinfo=UTC)
    return (zoned - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _tell_plan(planned: Plan, verbose: bool, *, auto: bool) -> None:
    told: set[tuple[str, str]] = set()
    for job in planned.jobs:
        if verbose or (auto and (job.format.name, job.reason) not in told):
            typer.echo(visible(f"{job.file}: {job.format.name} ({job.reason})"), err=True)
            told.add((job.format.name, job.reason))
    for file, reason in planned.skipped.items():
        if verbose:
            typer.echo(visible(f"{file}: skipped, {reason}"), err=True)
    if planned.skipped and not verbose:
        typer.echo(f"{count(len(planned.skipped), 'file')} skipped (-v names them)", err=True)


@contextmanager
def _progress(size: int, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar with rows/s on stderr, where somebody sees it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(
        TextColumn("reading"),
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[rows]:,} rows, {task.fields[rate]:,.0f} rows/s"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("reading", total=size, rows=0, rate=0.0)

        def observe(rows: int, read: int) -> None:
            elapsed = bar.tasks[0].elapsed or 1e-9
            bar.update(task, completed=read, rows=rows, rate=rows / elapsed)

        yield observe


def _tell_result(manifest: Manifest, out: Path, verbose: bool) -> None:
    from entente.logs.store import time_text

    typer.echo(
        f"{count(manifest.rows, 'event')} between {count(manifest.hosts, 'host')}, "
        f"{time_text(manifest.first_time)} to {time_text(manifest.last_time)}"
    )
    if manifest.labelled:
        typer.echo(f"{manifest.malicious:,} of them are labelled malicious")
    if manifest.labels:
        typer.echo(
            f"labels: {manifest.labels['matched']:,} of {manifest.labels['entries']:,} entries were met"
        )
    if manifest.unknown_labels:
        shown = ", ".join(repr(word) for word in list(manifest.unknown_labels)[:5])
        rows = sum(manifest.unknown_labels.values())
        typer.echo(
            visible(
                f"labels: {count(rows, 'row')} with one that is not understood ({shown}), taken as unlabelled"
            )
        )
    if manifest.names:
        said = {
            "respelt": "respelt by rule",
            "mapped": "mapped to a machine",
            "outside": "outside every lease",
            "unmapped": "addresses that --hosts does not know",
        }
        told = ", ".join(
            f"{manifest.names[key]:,} {text}" for key, text in said.items() if key in manifest.names
        )
        typer.echo(f"ends of events: {told}")
    for reason, rows in manifest.filtered.items():
        typer.echo(visible(f"left out: {count(rows, 'row')}, {reason}"))
    for reason, rows in manifest.bad.items():
        typer.echo(visible(f"bad: {count(rows, 'row')}, {reason} (see {out}/quarantine/rows.jsonl)"))
    if verbose:
        for source in manifest.sources:
            typer.echo(visible(f"  {source.file}: {source.kept:,} of {source.seen:,} rows"))
    typer.echo(f"written to {out}")
