"""`entente detect`: new events through a trained model -> alerts for a SIEM."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from entente.cli.terminal import Json, Quiet, Verbose, print_json, remarks, results
from entente.text import count

if TYPE_CHECKING:
    from entente.detection.sinks.base import Sink
    from entente.runs.folder import RunFolder

EXCLUDED = {"known-pairs": "pairs seen before", "multicast": "multicast or broadcast targets"}
"""What `excluded` counts."""
FURTHER = ("incident", "time", "src", "dst", "score", "silo", "ports", "users", "explanation")
"""What is listed of an edge that belongs to an incident and is no alert."""


def detect(
    run: Annotated[Path, typer.Option("--run", metavar="RUN", help="Run folder of `entente train`.")],
    events: Annotated[
        Path, typer.Option("--events", metavar="EVENTS", help="Directory of `entente ingest`.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="ALERTS", help="File that gets the alerts.")],
    silo: Annotated[
        list[str] | None, typer.Option("--silo", metavar="NAME", help="Only this silo; may be repeated.")
    ] = None,
    partition: Annotated[
        Path | None,
        typer.Option("--partition", metavar="FILE", help="A newer table host,silo than the run's."),
    ] = None,
    sink: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="NAME",
            help="jsonl, ecs, ocsf, stix, cef, timesketch, misp or an installed one.",
        ),
    ] = "jsonl",
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="DIR", help="Go on from here next time; read first if it exists."),
    ] = None,
    lateness: Annotated[
        float,
        typer.Option(
            "--lateness",
            metavar="SECONDS",
            min=0.0,
            help="With --state: a window stays open until the log is so far beyond its end.",
        ),
    ] = 300.0,
    mailbox: Annotated[
        Path | None,
        typer.Option(
            "--mailbox",
            metavar="DIR",
            help="Where packets of the exchange with silos elsewhere lie (KIT/exchange); needs --state.",
        ),
    ] = None,
    model: Annotated[
        Literal["trained", "base"],
        typer.Option(
            "--model", help="base: where RUN does not exist yet, make it from the base model, untrained."
        ),
    ] = "trained",
    warm_up: Annotated[
        float,
        typer.Option("--warm-up", metavar="HOURS", min=1.0, help="With --model base: watched, not scored."),
    ] = 48.0,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Score new events with a trained model and write alerts.

    Windows that the run has scored already are left out. With --state the temporal memory after the
    last window is kept, so that a nightly call goes on where the last one stopped; it is stored after the
    alerts are written. A window that the log does not cover to its end stays open, and is scored with the
    next call's events; without --state it is scored as it is. Without a newer event there are no alerts, and
    the exit code is 0.

    Without a model of your own, `--model base` starts from one that simulated companies made: it watches the
    log's first two days, scores the rest, and leaves RUN for the nights to come.

    Example: entente detect --run runs/a --events tonight --out alerts.json --format ecs --state memory
    """
    from entente.artifacts import check_writable
    from entente.detection.sinks import create
    from entente.errors import UsageError
    from entente.logs.store import time_text
    from entente.runs.folder import RunFolder
    from entente.runs.mailbox import Mailbox
    from entente.runtime.detecting import detect as find

    remarks(quiet, verbose)
    writer = create(sink)
    check_writable(out)
    if model == "base" and not RunFolder(run).started:
        _first_night(RunFolder(run), events, warm_up, writer, out, as_json, quiet)
        return
    memory = RunFolder(state) if state else None
    if mailbox is not None and memory is None:
        raise UsageError(
            "--mailbox without --state", remedy="What was told has to be remembered: add --state."
        )
    box = Mailbox(mailbox) if mailbox else None
    patience = None if memory is None else lateness
    night = find(RunFolder(run), events, silo or (), memory, partition, lateness=patience, mailbox=box)
    writer.write(out, night.alerts)
    if memory is not None:
        night.commit(memory, box)  # last: what was not written is found again next time
    if as_json:
        print_json(
            {
                "out": str(out),
                "alerts": len(night.alerts),
                "incidents": len({alert.incident for alert in night.alerts}),
                "further": [
                    {name: values[name] for name in FURTHER}
                    for values in (edge.as_dict() for edge in night.further)
                ],
                "excluded": night.excluded,
                "waiting": night.waiting.num_rows,
                "open_since": night.open_since,
                "late": night.late,
                "ahead": night.ahead,
                "linked": sum(alert.link is not None for alert in night.alerts),
                "packets_refused": night.refused,
                "silos": {finding.silo: asdict(finding) for finding in night.findings},
            }
        )
        return
    console = results(quiet)
    for f in night.findings:
        line = f"no window is complete after {time_text(f.until)}"
        if f.windows:
            line = f"{count(f.alerts, 'alert')} of {count(f.edges, 'edge')} in {count(f.windows, 'window')}"
            line += f", {count(f.new_hosts, 'new host')}"
        console.print(f"{f.silo}: {line}")
    for reason, edges in sorted(night.excluded.items()):
        console.print(f"above the threshold, but not raised: {edges:,} {EXCLUDED[reason]}")
    if night.further:
        said = f"{count(len(night.further), 'edge')} below what is raised (--json lists them)"
        console.print(f"belong to incidents: {said}")
    linked = sum(alert.link is not None for alert in night.alerts)
    if linked:
        console.print(f"about hosts that silos spoke of: {count(linked, 'alert')}")
    for reason, number in sorted(night.refused.items()):
        console.print(f"packets of other silos refused: {number} ({reason})")
    if night.open_since is not None:
        start, rows = time_text(night.open_since), count(night.waiting.num_rows, "event")
        console.print(f"open: {rows} from {start} on, waiting for the window to be complete")
    if night.late:
        console.print(f"late: {count(night.late, 'event')} of windows that were scored before, not used")
    if night.ahead:
        console.print(f"set aside: {count(night.ahead, 'event')} with a time in the future")
    console.print(f"alerts: {len(night.alerts):,} -> {out}")


def _first_night(
    run: RunFolder, events: Path, warm_up: float, writer: Sink, out: Path, as_json: bool, quiet: bool
) -> None:
    from entente.detection.table import read_table
    from entente.runtime.day_one import begin_with_base

    begin_with_base(run, events, warm_up)
    table = read_table(run.path / "alerts.parquet")
    writer.write(out, table.alerts)
    if as_json:
        print_json({"out": str(out), "run": str(run.path), "alerts": len(table.alerts)})
        return
    results(quiet).print(f"base model: watched the log's first {warm_up:g} h; {run.path} goes on from here")
    results(quiet).print(f"alerts: {len(table.alerts):,} -> {out}")
