"""Detectors on planted campaigns (docs/planting.md), with and without planted benign work.

    python benchmarks/planted_campaigns.py [--lanl DIR] [--logs classic lifelike] [--seeds 3]
        [--attacks slow-chains slow-operator sessions own] [--noise none bursts both]
        [--detectors rare-target novelty-burst] [--quick]

Each log without its own red team gets one kind of attack after the end of training (`own`: it keeps its
red team instead), then the benign work of `--noise` over its whole span; one silo holds everything. Figures,
means over seeds: average precision; recall among the 10 highest edges of each window; recall among the 10
highest of each day; share of campaigns of which one of these comes within the first third of their edges.
DIR holds LANL's topology.npz, redteam.txt.gz and replay.py; `--logs` without a name leaves the replay alone.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from entente.config import parse_experiment
from entente.detection.metrics import average_precision, recall_at
from entente.logs.events import write_events
from entente.runs.folder import RunFolder
from entente.runtime.local import train
from entente_lab.planting import planted
from entente_lab.simulator import SimulationConfig, simulate
from simulator_statistics import replay

US = 1_000_000
WINDOW, DAY = 1800 * US, 86_400 * US
BUDGET = 10
NOISE = {
    "none": {},
    "bursts": {"admin-bursts": {"per_day": 12}},
    "both": {"admin-bursts": {"per_day": 12}, "benign-pivots": {"per_day": 6}},
}


def read_log(name: str, seed: int, lanl: Path | None, quick: bool) -> tuple[pa.Table, float]:
    """Events with the log's own red team, and the second at which training ends."""
    if name != "lanl-replay":
        size = {"hosts": 200, "days": 6.0} if quick else {}
        config = SimulationConfig(preset=name, seed=seed, **size)
        return simulate(config).events, config.attack_start // 1800 * 1800
    assert lanl is not None
    with tempfile.TemporaryDirectory() as scratch:
        events = replay(lanl, Path(scratch), 4.0 if quick else 9.5, 300 if quick else 2000, seed)
    columns = [pl.col("time") * US, "src", "dst", "user", "kind", pl.col("label").cast(pl.Int8)]
    return events.select(columns).to_arrow(), 42 * 3600.0


def prepare(
    events: pa.Table, attack: str, noise: str, seed: int, end: float
) -> tuple[pa.Table, pl.DataFrame]:
    """The log with attack and noise, and the contacts of the attack with their campaigns."""
    log = pl.from_arrow(events)
    assert isinstance(log, pl.DataFrame)
    table, contacts = events, log.filter(label=1).select("time", "src", "dst", campaign=pl.lit(0))
    if attack != "own":
        # In the replay the account follows from the source: a carried one would give the operator away.
        follows = attack == "slow-operator" and "outcome" not in events.column_names
        parameters = {"carried": False} if follows else {}
        clean = events.filter((log["label"] != 1).to_arrow())
        result = planted(clean, attack, seed, since=int(end * US), **parameters)
        table = result.events
        contacts = pl.DataFrame(result.contacts).select("time", "src", "dst", "campaign")
    for kind, parameters in NOISE[noise].items():
        table = planted(table, kind, seed, **parameters).events
    return table, contacts


def measure(table: pa.Table, contacts: pl.DataFrame, detector: str, seed: int, end: float) -> list[float]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_events(table, folder / "events")
        settings = {
            "seed": seed,
            "mode": "non-fl",
            "detector": {"name": detector},
            "data": {"events": str(folder / "events"), "start": 0.0, "train": end},
        }
        run = train(parse_experiment(settings), RunFolder(folder / "run"), baselines=())
        scored = run.evaluation.overall()
    day = scored.window // DAY
    order = np.lexsort((-scored.score, day))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.searchsorted(day[order], day[order])
    edges = pl.DataFrame(
        {
            "window": scored.window // WINDOW,
            "src": scored.src_names(),
            "dst": scored.hosts[scored.dst],
            "alert": rank < BUDGET,
        }
    )
    attack = contacts.with_columns(window=pl.col("time") // WINDOW).join(edges, on=["window", "src", "dst"])
    early = [
        bool(campaign["alert"][: -(-len(campaign) // 3)].any())
        for _, campaign in attack.sort("time").group_by("campaign", maintain_order=True)
    ]
    assert scored.label is not None
    truth = scored.label == 1
    return [
        float(average_precision(scored.score, scored.label) or 0.0),
        float(recall_at(scored.score, scored.label, scored.window, BUDGET) or 0.0),
        float((rank[truth] < BUDGET).mean()),
        float(np.mean(early)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--lanl", type=Path)
    parser.add_argument("--logs", nargs="*", default=["classic", "lifelike"])
    parser.add_argument("--attacks", nargs="+", default=["slow-chains", "slow-operator", "sessions", "own"])
    parser.add_argument("--noise", nargs="+", default=list(NOISE), choices=list(NOISE))
    parser.add_argument("--detectors", nargs="+", default=["rare-target", "novelty-burst"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="small companies, one seed")
    options = parser.parse_args()
    logs = [*options.logs, *(["lanl-replay"] if options.lanl else [])]
    seeds = range(options.first_seed, options.first_seed + (1 if options.quick else options.seeds))
    found: dict[tuple[str, str, str, str], list[list[float]]] = {}
    for name in logs:
        for seed in seeds:
            events, end = read_log(name, seed, options.lanl, options.quick)
            for attack in options.attacks:
                for noise in options.noise:
                    table, contacts = prepare(events, attack, noise, seed, end)
                    for detector in options.detectors:
                        figures = measure(table, contacts, detector, seed, end)
                        found.setdefault((name, attack, noise, detector), []).append(figures)
    print("| log | attack | noise | detector | AP | recall@10 a window | recall@10 a day | early |")
    print("|---|---|---|---|---|---|---|---|")
    means = {key: np.mean(values, axis=0) for key, values in found.items()}
    for key, figures in means.items():
        print("|", " | ".join([*key, *(f"{value:.3f}" for value in figures)]), "|")
    rounded = {", ".join(key): [round(float(x), 4) for x in figures] for key, figures in means.items()}
    print(json.dumps({"benchmark": "planted_campaigns", "seeds": list(seeds), "ratios": rounded}))


if __name__ == "__main__":
    main()
