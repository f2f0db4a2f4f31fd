"""`entente rank`: the edges, hosts or snapshots of a run that stand out most."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from entente.cli.terminal import Json, Quiet, print_json, results


def rank(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder of `entente train`.")],
    by: Annotated[str, typer.Option("--by", help="edge, host or snapshot.")] = "host",
    top: Annotated[int, typer.Option("--top", min=1, max=100_000, help="So many lines.")] = 20,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Rank what a run has scored: edges, hosts as sources, or whole snapshots, each by its highest edge.

    With labels, AP and AUC of the whole ranking stand below it.

    Example: entente rank runs/a --by snapshot --top 10
    """
    from entente.detection.scores import read_scores
    from entente.detection.standing import rank as ranked
    from entente.errors import UsageError
    from entente.runs.folder import RunFolder
    from entente.text import visible

    if by not in ("edge", "host", "snapshot"):
        raise UsageError(f"--by {by!r} is nothing to rank", remedy="Choose edge, host or snapshot.")
    if not (run / "scores.parquet").is_file():
        raise UsageError("holds no scores", where=run, remedy="Give the folder of a finished run.")
    width = RunFolder(run).experiment().data.window
    found = ranked(read_scores(run / "scores.parquet", width), by, top)  # type: ignore[arg-type]
    if as_json:
        places = [place.as_dict() for place in found.places]
        print_json({"by": by, "of": found.of, "ap": found.ap, "auc": found.auc, "places": places})
        return
    console = results(quiet)
    for number, place in enumerate(found.places, 1):
        moment = datetime.fromtimestamp(place.window / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
        edge = f"{visible(place.src)} → {visible(place.dst)}"
        mark = {True: "malicious", False: "", None: ""}[place.malicious]
        shown = {"edge": edge, "host": f"{visible(place.src)}  (highest: {edge})", "snapshot": f"({edge})"}[
            by
        ]
        counted = "" if by == "edge" else f"  {place.alerts} of {place.edges} edges raised"
        line = f"{number:4d}  {place.score:.4f}  {moment}  {shown}{counted}  {mark}"
        console.print(line.rstrip(), markup=False)
    console.print(f"{len(found.places)} of {found.of} {by}s", markup=False)
    if found.ap is not None:
        auc = "unknown" if found.auc is None else f"{found.auc:.4f}"
        console.print(f"AP {found.ap:.4f}, AUC {auc}", markup=False)
