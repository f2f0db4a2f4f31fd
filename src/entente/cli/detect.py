"""`entente detect`: new events through a trained model -> alerts for a SIEM."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from entente.cli.terminal import Json, Quiet, Verbose, print_json, remarks, results
from entente.text import count

EXCLUDED = {"known-pairs": "pairs seen before", "multicast": "multicast or broadcast targets"}


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
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Score new events with a trained model and write alerts.

    Windows that the run has scored already are left out. With --state the temporal memory after the
    last window is kept, so that a nightly call goes on where the last one stopped; it is stored after the
    alerts are written. Without a newer event there are no alerts, and the exit code is 0.

    Example: entente detect --run runs/a --events tonight --out alerts.json --format ecs --state memory
    """
    from entente.artifacts import check_writable
    from entente.detection.sinks import create
    from entente.logs.store import time_text
    from entente.runs.folder import RunFolder
    from entente.runtime.detecting import detect as find

    remarks(quiet, verbose)
    writer = create(sink)
    check_writable(out)
    memory = RunFolder(state) if state else None
    night = find(RunFolder(run), events, silo or (), memory, partition)
    writer.write(out, night.alerts)
    if memory is not None:
        night.commit(memory)  # last: what was not written is found again next time
    if as_json:
        print_json(
            {
                "out": str(out),
                "alerts": len(night.alerts),
                "incidents": len({alert.incident for alert in night.alerts}),
                "excluded": night.excluded,
                "cut_short": night.cut_short,
                "silos": {finding.silo: asdict(finding) for finding in night.findings},
            }
        )
        return
    console = results(quiet)
    for f in night.findings:
        line = f"{count(f.alerts, 'alert')} of {count(f.edges, 'edge')} in {count(f.windows, 'window')}"
        line += f", {count(f.new_hosts, 'new host')}"
        console.print(f"{f.silo}: {line if f.windows else f'no event after {time_text(f.until)}'}")
    for reason, edges in sorted(night.excluded.items()):
        console.print(f"above the threshold, but not raised: {edges:,} {EXCLUDED[reason]}")
    if night.cut_short is not None:
        end, border = time_text(night.last_event), time_text(night.cut_short)
        console.print(
            f"the log ends at {end}, within the window to {border}: later events of it will not be scored"
        )
    console.print(f"alerts: {len(night.alerts):,} -> {out}")
