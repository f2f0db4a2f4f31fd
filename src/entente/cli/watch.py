"""`entente watch`: the service that reads logs as they are written and raises alerts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from entente.cli.terminal import Json, Quiet, Verbose, print_json, remarks, results
from entente.text import count


def watch(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="Sources, outputs and the run.")],
    status: Annotated[bool, typer.Option("--status", help="Say how the running service is doing.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Read logs as they are written, score every window and hand alerts over, for months.

    Stop it with Ctrl-C or SIGTERM; it goes on where it stopped, also after a kill or a power cut.

    Example: entente watch service.toml
    """
    from entente.service.config import load_watch

    settings = load_watch(config)
    if status:
        from entente.service.status import read_status

        _show(read_status(settings, time.time()), as_json, quiet)
        return
    from entente.service.service import Service
    from entente.text import visible

    console = remarks(quiet, verbose)
    service = Service(
        settings, config.parent.resolve(), lambda line: console.print(visible(line), markup=False)
    )
    service.run(lambda: console.print(f"watching; status: entente watch {config} --status", markup=False))
    console.print("stopped; everything that was read is kept")


def _show(status: dict[str, Any], as_json: bool, quiet: bool) -> None:
    if as_json:
        print_json(status)
        return
    console = results(quiet)
    state = "running" if status["running"] else "not running"
    console.print(f"{state}, model {status['model']}, scored until {status['scored_until'] or 'nothing yet'}")
    console.print(
        f"{status['events']:,} events, {status['windows']:,} windows, {status['alerts']:,} alerts since the "
        f"start; {status['open_alerts']:,} alerts open; {status['pending']:,} events wait for their window"
    )
    for source in status["sources"]:
        words = "silent" if source["silent"] else "reading"
        reached = f", events up to {source['reached']}" if source["reached"] else ""
        behind = f", {source['behind']:,} to read" if source["behind"] else ""
        console.print(f"source {source['name']}: {words}{reached}{behind}")
    for output in status["outputs"]:
        refused = f", {output['refused']} refused" if output["refused"] else ""
        tries = f", {count(output['attempts'], 'failed attempt')}" if output["attempts"] else ""
        console.print(f"output {output['name']}: {output['waiting']} to deliver{refused}{tries}")
    if status.get("taught"):
        console.print(f"not raised, as such ones were closed as benign: {count(status['taught'], 'edge')}")
    for problem in status.get("problems", ()):
        console.print(problem, markup=False)
    for reason, rows in sorted(status["dropped"].items()):
        console.print(f"not used: {count(rows, 'row')}, {reason}", markup=False)
    if status["drift"] is not None and status["drift"] > 3:
        console.print(f"{status['drift']:.1f} times as many unusual edges as in training: retrain the model")
