"""Detectors on planted campaigns (docs/planting.md), with and without planted benign work.

    python benchmarks/planted_campaigns.py [--lanl DIR] [--logs classic lifelike] [--seeds 3] [--first-seed 0]
        [--attacks slow-chains slow-operator sessions own] [--noise none bursts both accounts]
        [--detectors evidence-young behaviour behaviour-base] [--keep DIR] [--quick]

Each log without its own red team gets benign work over its whole span and one kind of attack after the end of
training (`own`: its red team instead); one silo holds everything. A detector is trained once for each noise
and scores every attack. `behaviour-plain` looks at no accounts, `behaviour-base` is the base model without
any training, `behaviour-first` scores without suspicion; `NAME+suspicion` is another detector with it, and
has the same weights. In the LANL replay an account follows from its source: no detector looks at accounts
there. Figures, means over seeds: average precision; recall among the 10 highest edges of each window; recall
among the 10 highest of each day; share of campaigns of which one of these comes within the first third of
their edges; then the difference of AP between `behaviour` and each other detector, with a 95 % interval over
seeds.
DIR of `--lanl` holds LANL's topology.npz, redteam.txt.gz and replay.py; `--logs` without a name leaves the
replay alone. In DIR of `--keep` every (log, seed, noise, detector) is kept, and none is run twice.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl
import pyarrow as pa

from entente.config import Experiment, parse_experiment
from entente.detection.metrics import average_precision, recall_at
from entente.detectors import suspicion
from entente.logs.events import write_events
from entente.runs.folder import RunFolder
from entente.runtime.assembly import load_dataset, trained_detector
from entente.runtime.evaluation import evaluate_models
from entente.runtime.local import fit
from entente_lab.bench.statistics import half_width
from entente_lab.planting import planted
from entente_lab.simulator import SimulationConfig, simulate
from simulator_statistics import replay

US = 1_000_000
WINDOW, DAY = 1800 * US, 86_400 * US
BUDGET, ROUNDS = 10, 15
REPLAY = "lanl-replay"
NOISE: dict[str, dict[str, dict[str, Any]]] = {
    "none": {},
    "bursts": {"admin-bursts": {"per_day": 12}},
    "both": {"admin-bursts": {"per_day": 12}, "benign-pivots": {"per_day": 6}},
    "accounts": {"noisy-accounts": {"host_days": 0.1}},
}
DETECTORS: dict[str, dict[str, Any]] = {
    "behaviour-plain": {"name": "behaviour", "accounts": False},
    "behaviour-base": {"name": "behaviour"},
    "behaviour-first": {"name": "behaviour"},
}


def read_log(name: str, seed: int, lanl: Path | None, quick: bool) -> tuple[pa.Table, float]:
    """Events with the log's own red team, and the second at which training ends."""
    if name != REPLAY:
        size = {"hosts": 200, "days": 6.0} if quick else {}
        config = SimulationConfig(preset=name, seed=seed, **size)
        return simulate(config).events, config.attack_start // 1800 * 1800
    assert lanl is not None
    with tempfile.TemporaryDirectory() as scratch:
        events = replay(lanl, Path(scratch), 4.0 if quick else 9.5, 300 if quick else 2000, seed)
    columns = [pl.col("time") * US, "src", "dst", "user", "kind", pl.col("label").cast(pl.Int8)]
    return events.select(columns).to_arrow(), 42 * 3600.0


def frame(table: pa.Table) -> pl.DataFrame:
    found = pl.from_arrow(table)
    assert isinstance(found, pl.DataFrame)
    return found


def attack_on(events: pa.Table, attack: str, seed: int, end: float) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The attack's events, and its contacts with their campaigns; it knows nothing of the noise."""
    log = frame(events)
    red = log.filter(pl.col("label") == 1)
    if attack == "own":
        return red, red.select("time", "src", "dst", campaign=pl.lit(0))
    # In the replay the account follows from the source: a carried one would give the operator away.
    follows = attack == "slow-operator" and "outcome" not in events.column_names
    clean = events.filter((log["label"] != 1).to_arrow())
    result = planted(clean, attack, seed, since=int(end * US), **({"carried": False} if follows else {}))
    contacts = frame(result.contacts).select("time", "src", "dst", "campaign")
    return frame(result.events).filter(pl.col("label") == 1), contacts


def noisy(events: pa.Table, noise: str, seed: int) -> pa.Table:
    """The log without its red team, with benign work."""
    table = events.filter((frame(events)["label"] != 1).to_arrow())
    for kind, parameters in NOISE[noise].items():
        table = planted(table, kind, seed, **parameters).events
    return table


class Trained:
    """One detector trained on one log, which then scores every attack on it."""

    def __init__(
        self,
        log: str,
        table: pa.Table,
        detector: str,
        seed: int,
        end: float,
        work: Path,
        models: dict[str, Any],
    ) -> None:
        self._table, self._work = table, work
        self._strength = 0.0 if detector == "behaviour-first" else suspicion.STRENGTH
        name, _, beside = detector.partition("+")
        self._experiment = self._settings(log, name, seed, end, beside or "none")
        write_events(table, work / "events")
        self._dataset = load_dataset(self._experiment)
        if detector == "behaviour-base":
            self._models = None
        elif name in models:
            self._models = models[name]
        else:
            folder = RunFolder(work / "run")
            folder.begin(self._experiment, resume=False)
            self._models, _ = fit(self._experiment, folder, self._dataset)
            models[name] = self._models

    def _settings(self, log: str, detector: str, seed: int, end: float, beside: str) -> Experiment:
        options = dict(DETECTORS.get(detector, {"name": detector}))
        if log == REPLAY and options["name"] == "behaviour":
            options["accounts"] = False
        return parse_experiment(
            {
                "seed": seed,
                "mode": "non-fl",
                "detector": options,
                "detection": {"ensemble": beside},
                "federation": {"rounds": ROUNDS},
                "data": {"events": str(self._work / "events"), "start": 0.0, "train": end},
            }
        )

    def measure(self, attack: pl.DataFrame, contacts: pl.DataFrame) -> list[float]:
        own = frame(self._table)
        whole = pl.concat([own, attack.select(own.columns).cast(own.schema)])
        whole = whole.sort("time", maintain_order=True)
        with tempfile.TemporaryDirectory() as scratch:
            write_events(whole.to_arrow().cast(self._table.schema), Path(scratch) / "events")
            data = self._experiment.data.model_copy(update={"events": Path(scratch) / "events"})
            experiment = self._experiment.model_copy(update={"data": data})
            dataset = load_dataset(experiment)
        models = self._models
        if models is None:  # the base model: no training at all
            from entente.detectors.behaviour.base_model import base_weights

            models = {"": base_weights()}
        detectors = {n: trained_detector(experiment, dataset.shape, models, n) for n in dataset.silos}
        with mock.patch.object(suspicion, "STRENGTH", self._strength):
            scored = evaluate_models(dataset, detectors, experiment.detection).overall()
        return figures(scored, contacts)


def figures(scored: Any, contacts: pl.DataFrame) -> list[float]:
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
    truth = scored.label == 1
    return [
        float(average_precision(scored.score, scored.label) or 0.0),
        float(recall_at(scored.score, scored.label, scored.window, BUDGET) or 0.0),
        float((rank[truth] < BUDGET).mean()),
        float(np.mean(early)),
    ]


Rows = dict[str, list[float]]
"""Figures by attack."""


def measured(options: argparse.Namespace, name: str, seed: int) -> dict[tuple[str, str], Rows]:
    """Of one log, the figures of each noise and detector."""
    found: dict[tuple[str, str], Rows] = {}
    for noise in options.noise:
        for detector in options.detectors:
            kept = options.keep and options.keep / f"{name}-{seed}-{noise}-{detector}.json"
            rows: Rows = json.loads(kept.read_text()) if kept and kept.exists() else {}
            found[noise, detector] = rows
    if all(attack in rows for rows in found.values() for attack in options.attacks):
        return found
    events, end = read_log(name, seed, options.lanl, options.quick)
    attacks = {attack: attack_on(events, attack, seed, end) for attack in options.attacks}
    models: dict[str, dict[str, Any]] = {noise: {} for noise in options.noise}  # weights by detector
    for (noise, detector), rows in found.items():
        if all(attack in rows for attack in attacks):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            table = noisy(events, noise, seed)
            trained = Trained(name, table, detector, seed, end, Path(scratch), models[noise])
            for attack, planned in attacks.items():
                rows[attack] = trained.measure(*planned)
                print(name, seed, attack, noise, detector, [round(x, 3) for x in rows[attack]], flush=True)
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            (options.keep / f"{name}-{seed}-{noise}-{detector}.json").write_text(json.dumps(rows))
    return found


def tell(found: dict[tuple[str, str, str, str], list[list[float]]], seeds: list[int]) -> None:
    print("| log | attack | noise | detector | AP | recall@10 a window | recall@10 a day | early |")
    print("|---|---|---|---|---|---|---|---|")
    means = {key: np.mean(values, axis=0) for key, values in found.items()}
    for key, row in sorted(means.items()):
        print("|", " | ".join([*key, *(f"{value:.3f}" for value in row)]), "|")
    for (*where, detector), values in sorted(found.items()):
        own = found.get((where[0], where[1], where[2], "behaviour"))
        if own is not None and detector != "behaviour" and len(seeds) > 1:
            gain = np.array(own)[:, 0] - np.array(values)[:, 0]
            print(*where, f"behaviour - {detector}: {gain.mean():+.3f} ± {half_width(gain.tolist()):.3f}")
    rounded = {", ".join(key): [round(float(x), 4) for x in row] for key, row in means.items()}
    print(json.dumps({"benchmark": "planted_campaigns", "seeds": seeds, "ratios": rounded}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--lanl", type=Path)
    parser.add_argument("--logs", nargs="*", default=["classic", "lifelike"])
    parser.add_argument("--attacks", nargs="+", default=["slow-chains", "slow-operator", "sessions", "own"])
    parser.add_argument("--noise", nargs="+", default=["none", "bursts", "both"], choices=list(NOISE))
    parser.add_argument("--detectors", nargs="+", default=["evidence-young", "behaviour"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder of cells that are done")
    parser.add_argument("--quick", action="store_true", help="small companies, one seed")
    options = parser.parse_args()
    logs = [*options.logs, *([REPLAY] if options.lanl else [])]
    seeds = range(options.first_seed, options.first_seed + (1 if options.quick else options.seeds))
    found: dict[tuple[str, str, str, str], list[list[float]]] = {}
    for name in logs:
        for seed in seeds:
            for (noise, detector), rows in measured(options, name, seed).items():
                for attack in options.attacks:
                    found.setdefault((name, attack, noise, detector), []).append(rows[attack])
    tell(found, list(seeds))


if __name__ == "__main__":
    main()
