"""`entente detect`: new events through a trained model -> alerts for a SIEM."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from entente.cli.console import Json, Quiet, Verbose, print_json, remarks, results


def detect(
    run: Annotated[Path, typer.Option("--run", metavar="RUN", help="Run folder of `entente train`.")],
    events: Annotated[
        Path, typer.Option("--events", metavar="EVENTS", help="Directory of `entente ingest`.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="ALERTS", help="File that gets the alerts.")],
    silo: Annotated[
        list[str] | None, typer.Option("--silo", metavar="NAME", help="Only this silo; may be repeated.")
    ] = None,
    sink: Annotated[
        str, typer.Option("--format", metavar="NAME", help="jsonl, ecs, ocsf, stix or cef.")
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
    last window is kept, so that a nightly call goes on where the last one stopped.

    Example: entente detect --run runs/a --events tonight --out alerts.json --format ecs --state memory
    """
    from entente.detection.sinks import write_alerts
    from entente.runs.folder import RunFolder
    from entente.runtime.detecting import detect as find

    remarks(quiet, verbose)
    findings = find(RunFolder(run), events, silo or (), RunFolder(state) if state else None)
    alerts = [alert for finding in findings for alert in finding.alerts]
    alerts.sort(key=lambda alert: (alert.start, -alert.score, alert.src, alert.dst))
    write_alerts(sink, alerts, out)
    if as_json:
        print_json(
            {
                "out": str(out),
                "alerts": len(alerts),
                "silos": {
                    f.silo: {
                        "alerts": len(f.alerts),
                        "edges": f.edges,
                        "windows": f.windows,
                        "new_hosts": f.new_hosts,
                    }
                    for f in findings
                },
            }
        )
        return
    console = results()
    for f in findings:
        line = f"{len(f.alerts)} alerts of {f.edges:,} edges in {f.windows} windows, {f.new_hosts} new hosts"
        console.print(f"{f.silo}: {line}")
    console.print(f"alerts: {out}")
