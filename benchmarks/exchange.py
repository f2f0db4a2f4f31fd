"""Campaigns that cross silos, with and without the exchange of suspicion (docs/exchange.md).

    python benchmarks/exchange.py [--logs classic lifelike] [--seeds 5] [--first-seed 500] [--campaigns 2]
        [--attacks sessions slow-chains slow-operator] [--rounds 0] [--budget 10] [--keep DIR] [--quick]

A simulated company of four sites and 240 hosts, a silo per site, without an attack: silos score with the base
model, or with one that they train together in `--rounds`. Then, one at a time, single campaigns are planted
(docs/planting.md), and `detect` raises `--budget` alerts a day and silo, with the exchange (which sets a
fifth aside for what others say) and without. Of the campaigns that at least two silos see: the share in which
every touched silo has an alert on the campaign within two hours of the first edge that it sees; the same for
the first silo alone and for all others; and the median hours from a silo's first edge to its first alert, of
the silos that a campaign reaches after the first, those without any alert counted as the rest of the log.
In DIR every company that is done is kept, and none is run twice.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from entente.artifacts import write_text
from entente.config import Experiment, parse_experiment, to_toml
from entente.detection.alerts import Alert
from entente.detectors.behaviour.base_model import base_weights
from entente.logs.events import write_events
from entente.partition.base import Assignment, write_silos
from entente.runs.folder import RunFolder
from entente.runs.records import TrainingRecord
from entente.runtime.assembly import load_dataset
from entente.runtime.detecting import detect
from entente.runtime.local import finish, train
from entente_lab.planting import planted
from entente_lab.simulator import SimulationConfig, simulate

US = 1_000_000
WINDOW, HOUR = 1800, 3600 * US
WITHIN = 2 * HOUR


@dataclass(frozen=True, slots=True)
class Company:
    """A trained run, the log it goes on with, and whose each host is."""

    events: pa.Table
    owner: dict[str, str]
    experiment: Experiment
    run: RunFolder
    begin: int  # of the windows that were not trained on, microseconds


def company(preset: str, seed: int, folder: Path, budget: float, rounds: int, quick: bool) -> Company:
    size = {"sites": 3, "hosts": 90, "days": 5.0} if quick else {"sites": 4, "hosts": 240, "days": 7.0}
    config = SimulationConfig(preset=preset, seed=seed, red_teams=(), **size)
    simulation = simulate(config)
    owner = dict(zip(*(simulation.hosts[name].to_pylist() for name in ("host", "site")), strict=True))
    end = int(config.attack_start // WINDOW) * WINDOW + WINDOW
    log = pl.DataFrame(simulation.events)
    write_events(
        log.filter(pl.col("time") < end * US).to_arrow().cast(simulation.events.schema), folder / "e"
    )
    write_silos(folder / "silos.csv", Assignment.from_mapping(owner))
    write_text(folder / "secret", f"benchmark of the exchange, seed {seed}")
    experiment = parse_experiment(
        {
            "seed": seed,
            "data": {
                "events": str(folder / "e"),
                "silos": str(folder / "silos.csv"),
                "start": 0.0,
                "train": float(end - WINDOW),
            },
            "graph": {"secret": str(folder / "secret")},
            "federation": {"rounds": max(1, rounds)},
            "detection": {"alerts_per_day": budget},
        }
    )
    run = RunFolder(folder / "run")
    if rounds:
        train(experiment, run, baselines=())
    else:
        run.begin(experiment, resume=False)
        record = {"": TrainingRecord(stopped="base model")}
        finish(experiment, run, load_dataset(experiment), {"": base_weights()}, record, ())
    return Company(simulation.events, owner, experiment, run, end * US)


def alerts(found: Company, events: Path, exchanges: bool) -> tuple[Alert, ...]:
    federation = found.experiment.federation.model_copy(update={"exchange": exchanges})
    experiment = found.experiment.model_copy(update={"federation": federation})
    write_text(found.run.path / "experiment.toml", to_toml(experiment))
    return detect(found.run, events).alerts


def outcome(contacts: pl.DataFrame, raised: tuple[Alert, ...], owner: dict[str, str], end: int) -> list[int]:
    """Microseconds from the first edge that a silo sees to its first alert, by order of being touched."""
    edges = {(a.start, a.src, a.dst): set(a.silos) for a in raised}
    first: dict[str, int] = {}
    waited: dict[str, int] = {}
    for moment, src, dst in contacts.sort("time").select("time", "src", "dst").iter_rows():
        window = moment // (WINDOW * US) * WINDOW * US
        for silo in {owner[src], owner[dst]}:
            first.setdefault(silo, moment)
            if silo in edges.get((window, src, dst), ()):
                waited.setdefault(silo, moment - first[silo])
    order = sorted(first, key=lambda silo: (first[silo], silo != owner[contacts.sort("time")["src"][0]]))
    return [waited.get(silo, end - first[silo]) for silo in order]


def measure(found: Company, attack: str, seed: int, folder: Path) -> dict[bool, list[int]] | None:
    """What `outcome` says with and without the exchange; None for a campaign that stays in one silo."""
    result = planted(found.events, attack, seed, since=found.begin, campaigns=1)
    contacts = pl.DataFrame(result.contacts)
    if len({found.owner[host] for name in ("src", "dst") for host in contacts[name]}) < 2:
        return None
    write_events(result.events, folder)
    end = int(pl.DataFrame(result.events)["time"].max())  # type: ignore[arg-type]
    return {on: outcome(contacts, alerts(found, folder, on), found.owner, end) for on in (False, True)}


Waits = dict[str, dict[str, list[list[int]]]]
"""By attack, of each campaign, without ("no") and with ("yes") the exchange."""


def measured(options: argparse.Namespace, preset: str, seed: int) -> Waits:
    kept = options.keep and options.keep / f"{preset}-{seed}.json"
    if kept and kept.exists():
        return dict(json.loads(kept.read_text()))
    waits: Waits = {attack: {"no": [], "yes": []} for attack in options.attacks}
    with tempfile.TemporaryDirectory() as scratch:
        found = company(preset, seed, Path(scratch), options.budget, options.rounds, options.quick)
        for attack in options.attacks:
            for number in range(1 if options.quick else options.campaigns):
                said = measure(found, attack, 1000 * seed + number, Path(scratch) / "night")
                for on, campaign in (said or {}).items():
                    waits[attack]["yes" if on else "no"].append(campaign)
                    print(preset, seed, attack, number, on, campaign, file=sys.stderr, flush=True)
    if kept:
        options.keep.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(waits))
    return waits


def row(waits: list[list[int]]) -> list[float]:
    later = [wait for campaign in waits for wait in campaign[1:]]
    return [
        float(np.mean([all(wait <= WITHIN for wait in campaign) for campaign in waits])),
        float(np.mean([campaign[0] <= WITHIN for campaign in waits])),
        float(np.mean([all(wait <= WITHIN for wait in campaign[1:]) for campaign in waits])),
        float(np.median(later)) / HOUR,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--logs", nargs="+", default=["classic", "lifelike"])
    parser.add_argument("--attacks", nargs="+", default=["sessions", "slow-chains", "slow-operator"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=0, help="of training together; 0 = the base model")
    parser.add_argument("--campaigns", type=int, default=2, help="planted per log and attack, one at a time")
    parser.add_argument("--budget", type=float, default=10.0)
    parser.add_argument("--keep", type=Path, help="folder of companies that are done")
    parser.add_argument("--quick", action="store_true", help="a small company, one seed, one campaign")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + (1 if options.quick else options.seeds))
    waits: dict[tuple[str, str, str], list[list[int]]] = {}
    began = time.process_time()
    for seed in seeds:
        for preset in options.logs:
            for attack, both in measured(options, preset, seed).items():
                for on, campaigns in both.items():
                    waits.setdefault((preset, attack, on), []).extend(campaigns)
                    waits.setdefault(("all", "all", on), []).extend(campaigns)
    print("| log | attack | campaigns | exchange | every silo | the first | all others | median hours |")
    print("|---|---|---|---|---|---|---|---|")
    figures = {key: row(campaigns) for key, campaigns in sorted(waits.items()) if campaigns}
    for key, (every, first, others, hours) in figures.items():
        cells = (f"{every:.0%}", f"{first:.0%}", f"{others:.0%}", f"{hours:.1f}")
        print("|", " | ".join([*key[:2], str(len(waits[key])), key[2], *cells]), "|")
    rounded = {f"{p}, {a}, {'with' if on == 'yes' else 'without'}": f for (p, a, on), f in figures.items()}
    cost = round(time.process_time() - began)
    print(json.dumps({"benchmark": "exchange", "seeds": list(seeds), "cpu_s": cost, "figures": rounded}))


if __name__ == "__main__":
    main()
