"""Directed poisoning at ordinary length, and what silos or the coordinator can do about it.

    python benchmarks/directed_poisoning.py [--detector behaviour] [--hosts 120] [--seeds 5] [--defences ...]

One simulated company per seed, four sites as silos, 15 rounds with Entente. The silo that sees most malicious
pairs cheats: `whisper` (p = 0.5) against Euler, `turncoat` against the behaviour detector. Figures are AP and
AUC (percent) over the honest silos, without an attacker and with one:

    unlimited    J counts as claimed
    limited      J counts up to three times the others' median: what Entente does
    canaries     limited; each silo takes the round that is best on its own validation (its own canaries)
    own          limited; each silo scores with the weights after its own last training
    local-rows   limited; identity rows are trained and kept by each silo, and never sent (Euler)
    fixed        limited; identity rows are neither trained nor sent (Euler)
    row-cap      limited; `row_cap = 2` (Euler)
"""

from __future__ import annotations

import argparse
import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from entente.artifacts import Arrays
from entente.config import Experiment, parse_experiment
from entente.detection.scored import unite
from entente.detectors.base import Validation
from entente.federation import bootstrap
from entente.federation.messages import Reply, Task, TrainTask, ValidateTask
from entente.federation.silo import Silo
from entente.logs.events import write_events
from entente.partition.base import write_silos
from entente.runtime.assembly import Dataset, load_dataset, make_detector, trained_detector
from entente.runtime.evaluation import evaluate_models
from entente.runtime.loop import make_coordinator
from entente.runtime.transport import SerialTransport
from entente_lab.attacks import Attack, corrupt
from entente_lab.attacks.poison import malicious_pairs
from entente_lab.bench.partition import partition
from entente_lab.simulator import SimulationConfig, simulate, write

ATTACKS = {"euler": ("whisper", 0.5), "behaviour": ("turncoat", 1.0)}
DEFENCES = ("unlimited", "limited", "canaries", "own", "local-rows", "fixed", "row-cap")
WITH_ROWS = ("local-rows", "fixed", "row-cap")


class Remembering(Silo):
    """Keeps what it was sent and what it made of it; with `local`, identity rows stay at home."""

    local = False

    def handle(self, task: Task) -> Reply:
        if not isinstance(task, TrainTask | ValidateTask):
            return super().handle(task)
        tables = self.detector.identity_tables if self.local else ()
        if not hasattr(self, "rows"):
            self.rows = {name: task.weights[name] for name in tables}
            self.seen: dict[int, tuple[float, Arrays]] = {}
        asked = replace(task, weights={**task.weights, **self.rows})
        reply = super().handle(asked)
        found = Validation(reply.ap, reply.auc, reply.edges)  # type: ignore[attr-defined]
        self.seen[task.round - 1] = (found.ap + found.auc, asked.weights)
        if isinstance(task, TrainTask):
            self.trained: Arrays = reply.weights  # type: ignore[attr-defined]
            self.rows = {name: self.trained[name] for name in tables}
            sent = {**self.trained, **{name: task.weights[name] for name in tables}}
            return replace(reply, weights=sent)  # type: ignore[call-arg]
        return reply


def company(folder: Path, hosts: int, seed: int, detector: str, defence: str) -> Experiment:
    config = SimulationConfig(sites=4, hosts=hosts, days=5.0, seed=seed)
    if not (folder / "silos.csv").exists():
        made = simulate(config)
        write(made, folder, "lanl")
        write_events(made.events, folder / "events")
        write_silos(
            folder / "silos.csv", partition(folder / "events", 4, sites=folder / "hosts.csv", view="auto")[0]
        )
    data = {"events": folder / "events", "silos": folder / "silos.csv", "window": 1800.0}
    data["train"] = config.attack_start // 1800 * 1800
    options = {"name": detector} | ({"identities": "fixed"} if defence == "fixed" else {})
    rule = {"rule": "entente"} | ({"row_cap": 2.0} if defence == "row-cap" else {})
    table = {
        "seed": seed,
        "data": data,
        "detector": options,
        "federation": {"rounds": 15, "aggregation": rule},
    }
    return parse_experiment(table)


def play(experiment: Experiment, dataset: Dataset, defence: str, attacked: bool) -> tuple[float, float]:
    """AP and AUC over the honest silos."""
    cheat = max(sorted(dataset.silos), key=lambda name: len(malicious_pairs(dataset.silos[name].test)))
    silos: dict[str, Any] = {}
    for name, data in dataset.silos.items():
        detector, own = make_detector(experiment, dataset.shape), data.hosts.own_hosts
        if attacked and name == cheat:
            kind, p = ATTACKS[experiment.detector.name]
            attack = Attack(name=kind, silos=(name,), p=p)
            silos[name] = corrupt(
                attack, name, detector, data.train, own, experiment.seed, future=data.test, later=data.later
            )
        else:
            silos[name] = Remembering(name, detector, data.train, own, experiment.seed, data.later)
            silos[name].local = defence == "local-rows"
    bootstrap.SIMILARITY_LIMIT = math.inf if defence == "unlimited" else 3.0
    coordinator, transport = make_coordinator(experiment, dataset.shape, list(silos)), SerialTransport(silos)
    while (task := coordinator.next_task()) is not None:
        coordinator.conclude(*transport.ask(task, math.inf))
    best = coordinator.best_round
    honest = [name for name in dataset.silos if name != cheat]
    models = {"": coordinator.best_weights}
    for name in honest:
        silo = silos[name]
        if defence == "local-rows":
            models[name] = silo.seen[best][1]
        elif defence == "own":
            models[name] = silo.trained
        elif defence == "canaries":
            models[name] = max(silo.seen.values(), key=lambda found: found[0])[1]
    detectors = {name: trained_detector(experiment, dataset.shape, models, name) for name in dataset.silos}
    scored = evaluate_models(dataset, detectors, experiment.detection).scored
    found = unite([scored[name] for name in honest]).metrics(())
    return 100 * (found.ap or 0.0), 100 * (found.auc or 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--detector", choices=tuple(ATTACKS), default="behaviour")
    parser.add_argument("--hosts", type=int, default=120)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--defences", nargs="*", choices=DEFENCES, default=DEFENCES)
    given = parser.parse_args()
    chosen = [name for name in given.defences if given.detector == "euler" or name not in WITH_ROWS]
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in chosen}
    for seed in range(given.seeds):
        with tempfile.TemporaryDirectory() as scratch:
            for name in chosen:
                experiment = company(Path(scratch), given.hosts, seed, given.detector, name)
                dataset = load_dataset(experiment)
                clean, attacked = (play(experiment, dataset, name, cheats) for cheats in (False, True))
                found[name].append((*clean, *attacked))
                said = " ".join(f"{figure:.1f}" for figure in found[name][-1])
                print(f"seed {seed} {name}: {said}", flush=True)
    print(f"{given.detector}, {given.hosts} hosts, {given.seeds} seeds: clean AP, AUC -> attacked AP, AUC")
    for name, rows in found.items():
        ap, auc, hurt_ap, hurt_auc = np.mean(rows, axis=0)
        print(f"{name:12} {ap:5.1f} {auc:5.1f} -> {hurt_ap:5.1f} {hurt_auc:5.1f}")


if __name__ == "__main__":
    main()
