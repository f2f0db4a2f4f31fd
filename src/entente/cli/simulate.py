"""`entente simulate`: the logs of a made-up company."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from entente.cli.terminal import Json, Quiet, print_json
from entente.text import count


def simulate(
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Directory; files of the same names are replaced.")
    ],
    sites: Annotated[int, typer.Option(help="Sites; the first is the head office, sizes fall off fast.")] = 4,
    hosts: Annotated[int, typer.Option(help="Hosts in the whole company.")] = 800,
    days: Annotated[float, typer.Option(help="Days to simulate, beginning on a Thursday.")] = 8.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 0,
    format: Annotated[
        str, typer.Option(help="lanl (auth.txt.gz, redteam.txt), zeek (conn.log) or csv (events.csv).")
    ] = "lanl",
    activity: Annotated[float, typer.Option(help="Factor on the number of everyday events.")] = 1.0,
    novelty: Annotated[float, typer.Option(help="Factor on benign one-off work: scans, odd jobs ...")] = 1.0,
    preset: Annotated[
        str, typer.Option(help="classic (the company of the published figures) or lifelike.")
    ] = "classic",
    life: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the lifelike company."),
    ] = None,
    red_team: Annotated[
        list[str] | None,
        typer.Option(
            help="Style of the attack, several if given several times: campaign (default), sessions, spread, "
            "slow-chain, living-off-admin-paths, insider; or none."
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the logs of a simulated company: sites, habits, benign novelty and a red team.

    Example: entente simulate company --preset lifelike --set admin_jobs=2 --red-team slow-chain
    """
    from entente.logs.store import time_text
    from entente_lab.simulator import SimulationConfig, write
    from entente_lab.simulator import simulate as play
    from entente_lab.simulator.life.settings import parse_life

    named = red_team or ["campaign"]
    red_teams = () if named == ["none"] else tuple(named)
    config = SimulationConfig(
        sites,
        hosts,
        days,
        seed,
        activity,
        novelty,
        red_teams=red_teams,
        preset=preset,
        life=parse_life(life or []),
    )
    simulation = play(config)
    files = write(simulation, out, format)
    if as_json:
        print_json(
            {
                "files": [str(path) for path in files],
                "events": len(simulation.events),
                "hosts": hosts,
                "sites": sites,
                "attack_events": len(simulation.attack),
                "attack_start": config.attack_start,
                "end": config.end,
            }
        )
    elif not quiet:
        typer.echo(
            f"{count(len(simulation.events), 'event')} of {count(hosts, 'host')} at {count(sites, 'site')} "
            f"in {days:g} days -> {files[0]}\n{len(simulation.attack):,} of them are the red team's, "
            f"all after {time_text(round(config.attack_start * 1e6))}; ground truth: {files[-1]}"
        )
