"""`entente report`: a run folder -> one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from entente.cli.terminal import Json, Quiet, Verbose, print_json, remarks, results


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder of `entente train`.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.html", help="The page; RUN/report.html by default.")
    ] = None,
    also: Annotated[
        Path | None,
        typer.Option(
            "--alerts",
            metavar="FILE|DIR",
            help="Show these too: a jsonl file of `entente detect`, or the folder of `entente watch`.",
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """One self-contained HTML page about a run.

    It opens without a network: incidents with their evidence, the attack on the host graph and alerts
    with their reasons; then the figures beside the baselines, rounds and what each silo contributed.

    Example: entente report runs/a --out a.html
    """
    from entente.artifacts import write_text
    from entente.report import build, render
    from entente.report.page import verdict

    remarks(quiet, verbose)
    target = out or run / "report.html"
    data = build(run)
    if also is not None:
        from entente.report.raised import read_raised, with_raised

        data = with_raised(data, read_raised(also), also.name)
    write_text(target, render(data))
    if as_json:
        print_json({"report": str(target), "alerts": len(data.alerts), "incidents": len(data.incidents)})
        return
    console = results(quiet)
    console.print(verdict(data), markup=False)
    console.print(f"report: {target}", markup=False)
