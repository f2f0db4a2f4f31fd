"""`entente edges`: a table in a lake or a warehouse -> edges of windows, computed where the table is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from entente.cli.terminal import Json, Quiet, print_json, remarks, results
from entente.text import count

if TYPE_CHECKING:
    from entente.logs.edges.query import TableMapping


def edges(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="Folder, file or glob of Parquet, table of a Spark catalogue, "
            "clickhouse://user@host:port/database/table or trino://user@host:port/catalog/schema/table.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="EDGES", help="Edge directory; a former one is extended.")
    ],
    engine: Annotated[
        str, typer.Option("--engine", help="duckdb, polars, spark, clickhouse or trino.")
    ] = "duckdb",
    mapping: Annotated[
        Path | None,
        typer.Option("--mapping", metavar="M.toml", help="Which column is what; see docs/scale.md."),
    ] = None,
    window: Annotated[float, typer.Option("--window", help="Seconds of a window.")] = 1800.0,
    start: Annotated[
        str | None, typer.Option("--start", help="Leave out what is earlier: ISO 8601, at a window's border.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--end", help="Leave out what is later: ISO 8601, at a window's border.")
    ] = None,
    at_once: Annotated[
        str, typer.Option("--at-once", help="How much time one query covers: 30m, 6h, 1d.")
    ] = "1d",
    settings: Annotated[
        list[str] | None,
        typer.Option("--setting", metavar="KEY=VALUE", help="Of the engine, such as spark.master; repeated."),
    ] = None,
    sql: Annotated[bool, typer.Option("--sql", help="Print the query of the first span and stop.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compute edges of windows where the logs are; only these travel.

    One query per day gives, for each window, source and target: number of events, first and last time, bytes,
    failures, and the three most frequent users, kinds, logon types and ports with their counts. Called again,
    only windows from the last one on are asked for. `train` and `detect` take EDGES as they take events.

    Example: entente edges /lake/auth --engine spark --mapping auth.toml --window 1800 --out edges
    """
    from entente.cli.ingest import moment, span
    from entente.errors import UsageError
    from entente.logs.edges.engines import opened_table
    from entente.logs.edges.query import EdgeQuery
    from entente.logs.edges.store import EdgeFile, EdgeRequest, first_span, write_edges
    from entente.logs.engines import to_sql
    from entente.logs.schema import MICROSECONDS
    from entente.logs.store import time_text

    console = remarks(quiet, False)
    if not 1 <= window <= 86_400 * 366:
        raise UsageError("--window is a number of seconds from 1 on")
    step = span(at_once, "--at-once")
    if not step:
        raise UsageError(f"--at-once is a span such as 6h or 1d, not {at_once!r}")
    request = EdgeRequest(
        mapping=_mapping(mapping, table),
        width=round(window * MICROSECONDS),
        out=out,
        at_once=step,
        start=None if start is None else moment(start, "--start"),
        end=None if end is None else moment(end, "--end"),
    )
    opened = opened_table(engine, table, _settings(settings or []))
    if sql:
        query = EdgeQuery(opened.source, request.mapping, here=opened.here)
        if engine == "polars":
            raise UsageError("polars runs no SQL", remedy="Ask another engine for --sql.")
        typer.echo(to_sql(query.edges(first_span(opened, query, request)), opened.dialect))
        return

    def report(file: EdgeFile) -> None:
        console.print(
            f"{time_text(file.start)} to {time_text(file.end)}: "
            f"{count(file.events, 'event')}, {count(file.edges, 'edge')}",
            markup=False,
        )

    manifest = write_edges(opened, request, report)
    if as_json:
        shown = {"out": str(out), "edges": manifest.edges, "events": manifest.events}
        print_json({**shown, "first_time": manifest.first_time, "last_time": manifest.last_time})
    elif not quiet:
        said = f"{count(manifest.edges, 'edge')} of {count(manifest.events, 'event')} in {out}"
        results().print(said, markup=False)


def _mapping(path: Path | None, table: str) -> TableMapping:
    """As the file says; an event directory needs none."""
    from entente.errors import ConfigError
    from entente.logs.edges.query import TableMapping
    from entente.logs.manifest import MANIFEST
    from entente.logs.mapping import read_mapping

    events = TableMapping(time_unit="us", day="day")
    plain = events if (Path(table) / MANIFEST).is_file() else TableMapping()
    if path is None:
        return plain
    stored = read_mapping(path)
    for key in ("delimiter", "header"):
        if key in stored:
            raise ConfigError(f"{key} is for csv logs, not for a table", where=path)
    return replace(plain, **stored)


def _settings(entries: list[str]) -> dict[str, str]:
    from entente.errors import UsageError

    for entry in entries:
        if "=" not in entry:
            raise UsageError(f"--setting {entry}: not KEY=VALUE")
    return dict(entry.split("=", 1) for entry in entries)
