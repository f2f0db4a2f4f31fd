"""`entente split`: which host belongs to which silo."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from entente.cli.terminal import Json, Quiet, Verbose, print_json, remarks, results
from entente.text import count

if TYPE_CHECKING:
    from entente.partition.base import Assignment
    from entente.partition.imbalance import Imbalance
    from entente.partition.pairs import Pairs


def split(
    events: Annotated[Path, typer.Argument(metavar="EVENTS", help="Event directory, as ingest leaves it.")],
    method: Annotated[str, typer.Option(help="block-model, column or subnet.")],
    out: Annotated[Path, typer.Option(metavar="SILOS", help="Table host,silo to write: CSV or .parquet.")],
    k: Annotated[
        int | None,
        typer.Option("-k", "--silos", help="block-model: number of silos; chosen by ICL if omitted."),
    ] = None,
    hosts: Annotated[
        Path | None, typer.Option(help="column: host list, CSV or Parquet, with a column host.")
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="column: of the host list (site by default), or of the events.")
    ] = None,
    subnets: Annotated[
        Path | None, typer.Option(help="subnet: table silo,cidr; longest prefix wins.")
    ] = None,
    view: Annotated[
        str, typer.Option(help="block-model: auth (users x hosts), flows (internal x external), ports, auto.")
    ] = "auto",
    internal: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PREFIX",
            help="flows: the company's own addresses, such as 142.20.0.0/16; may be repeated. "
            "Private ones if omitted.",
        ),
    ] = None,
    starts: Annotated[int, typer.Option(min=1, help="block-model: random starts, best one kept.")] = 12,
    seed: Annotated[int, typer.Option(min=0, help="Of the block model and of the reference graph.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Decide which host belongs to which silo, and show how unlike the silos are.

    Example: entente split events --method column --hosts company/hosts.csv --column site --out silos.csv
    """
    from entente.partition.base import write_silos
    from entente.partition.imbalance import measure_imbalance
    from entente.partition.split import SplitOptions, split_hosts

    console = remarks(quiet, verbose)
    options = SplitOptions(k, hosts, column, subnets, view, tuple(internal or ()), starts, seed)
    found = split_hosts(events, method, options)
    assignment, pairs = found.assignment, found.pairs
    facts: dict[str, Any] = {"method": method} | ({"block_model": found.model} if found.model else {})
    write_silos(out, assignment)
    imbalance = measure_imbalance(assignment, pairs)
    similarity = _similarity(assignment, pairs, seed)
    facts |= {"out": str(out), "placed_by_neighbours_or_other": found.placed} | asdict(imbalance)
    for row in facts["silos"]:
        row["j"] = similarity[row["silo"]]
    if as_json:
        print_json(facts)
        return
    if not quiet:
        results().print(_table(imbalance, similarity))
    for line in _remarks(facts):
        console.print(line)


def _similarity(assignment: Assignment, pairs: Pairs, seed: int) -> dict[str, float]:
    """J of each silo: how alike its sketch and the reference graph's are."""
    from entente.federation.aggregators.base import SketchSettings
    from entente.federation.reference import barabasi_albert
    from entente.federation.sketch import jaccard, sketch
    from entente.partition.imbalance import seen_by

    settings = SketchSettings()
    grown = barabasi_albert(len(assignment), settings.m, seed)
    reference = sketch(*grown, settings.labels, settings.iterations)
    return {
        name: jaccard(
            sketch(pairs.src[seen], pairs.dst[seen], settings.labels, settings.iterations), reference
        )
        for name, seen in seen_by(assignment, pairs).items()
    }


def _table(imbalance: Imbalance, similarity: dict[str, float]) -> Table:
    table = Table("silo", *("hosts", "events", "edges", "cross-silo edges", "J"), show_footer=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in imbalance.silos:
        counts = (f"{n:,}" for n in (row.hosts, row.events, row.edges, row.cross_edges))
        table.add_row(row.silo, *counts, f"{similarity[row.silo]:.4f}")
    table.add_section()
    table.add_row(
        "standard deviation", f"{imbalance.hosts_deviation:,.1f}", f"{imbalance.events_deviation:,.1f}"
    )
    table.add_row("all", "", "", f"{imbalance.edges:,}", f"{imbalance.cross_edges:,}")
    return table


def _remarks(facts: dict[str, Any]) -> list[str]:
    lines = [f"{count(len(facts['silos']), 'silo')} -> {facts['out']}"]
    if facts["placed_by_neighbours_or_other"]:
        lines.append(
            f"{count(facts['placed_by_neighbours_or_other'], 'host')} that the method does not know: placed "
            "where most of the events go, or in `other`"
        )
    model = facts.get("block_model")
    if model:
        tops, bottoms = model["empty_blocks"]
        lines.append(
            f"block model of the {model['view']} view: {model['blocks'][0]} x {model['blocks'][1]} blocks, "
            f"log-likelihood {model['log_likelihood']:,.1f}, ICL {model['icl']:,.1f}; "
            f"empty blocks dropped: {tops} + {bottoms}"
        )
    return lines
