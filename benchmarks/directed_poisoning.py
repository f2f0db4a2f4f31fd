"""Directed poisoning at ordinary length, and what silos or the coordinator can do about it.

    python benchmarks/directed_poisoning.py [--detector behaviour] [--hosts 80] [--seeds 5] [--first-seed 0]
                                            [--attacks ...] [--defences ...]

One simulated company per seed, four sites as silos, 15 rounds with Entente. The silo that sees most malicious
pairs cheats (`everybody`: all silos exchange labels). Figures are AP and AUC (percent) over the other silos,
without an attacker and with each:

    unlimited    J counts as claimed
    limited      J counts up to three times the others' median: what Entente does
    canaries     limited; each silo takes the round that is best on its own validation (its own canaries)
    gate         limited; each silo takes a model over only if its own validation is not worse than
                 that of the last one it took over
    own          limited; each silo scores with the weights after its own last training
    local-rows   limited; `identities = "local"`: rows are trained and kept by each silo (Euler)
    fixed        limited; `identities = "fixed"`: rows are neither trained nor sent (Euler)
    row-cap      limited; `row_cap = 2` (Euler)
    sole-rows    limited; a row that only one silo moved in a round stays where it was (Euler)
    signs        limited; a weight moves only where at least three of four silos agree on the sign
    base-less    limited; `base = false`: nothing keeps scores near the base model (behaviour)
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from entente.artifacts import Arrays
from entente.config import Experiment, parse_experiment
from entente.detection.scored import unite
from entente.federation import bootstrap
from entente.federation.aggregators.base import Contribution, Credit, Vector
from entente.federation.aggregators.entente import Entente
from entente.federation.messages import Reply, Task, TrainTask, Update, ValidateTask
from entente.federation.own_weights import OwnWeights
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

EVERYBODY = "everybody"
"""All silos are turncoats: the weights mean the opposite, and only what bounds their meaning is left."""
ATTACKS = {"euler": ("whisper", "adaptive"), "behaviour": ("turncoat", "whisper", "adaptive", EVERYBODY)}
SHARE = {"whisper": 0.5, "adaptive": 0.5, "turncoat": 1.0, EVERYBODY: 1.0}
"""The share p of training windows that an attack touches, where it hurts most."""
READ = ("canaries", "gate", "own")
"""What each silo makes of the same run as `limited`."""
WITH_ROWS = ("local-rows", "fixed", "row-cap", "sole-rows")
NETWORK = ("base-less",)
RUNS = ("unlimited", "limited", *WITH_ROWS, "signs", *NETWORK)
OPTIONS: dict[str, dict[str, Any]] = {
    "local-rows": {"identities": "local"},
    "fixed": {"identities": "fixed"},
    "base-less": {"base": False},
}
"""What a defence sets in `[detector]`."""
AGREED = 0.5
"""How much more often one sign than the other, among the silos that moved a weight."""


class Agreeing(Entente):
    """Entente where a weight moves only if silos agree; `sole` looks at who moved an identity row instead."""

    sole = False

    def begin(self, current: Vector) -> None:
        super().begin(current)
        self.signs = np.zeros(len(current), dtype=np.int8)
        self.movers = np.zeros(len(current), dtype=np.int8)

    def add(self, contribution: Contribution) -> Credit:
        step = contribution.vector - self._sum.current
        self.signs += np.sign(step).astype(np.int8)
        self.movers += step != 0
        return super().add(contribution)

    def finish(self) -> Vector:
        current, found = self._sum.current.copy(), super().finish()
        stays = np.abs(self.signs) < AGREED * self.movers
        if self.sole:
            stays[:] = False
            for name in self.layout.tables:
                span, rows = self.layout.spans()[name], self.layout.rows(name)
                lonely = self.movers[span].reshape(rows, -1).max(axis=1) == 1
                stays[span] = np.repeat(lonely, (span.stop - span.start) // rows)
        found[stays] = current[stays]
        return found


class Remembering(Silo):
    """Keeps what it was sent and what it made of it."""

    def handle(self, task: Task) -> Reply:
        reply = super().handle(task)
        if isinstance(task, TrainTask | ValidateTask):
            if not hasattr(self, "seen"):
                self.seen: dict[int, tuple[float, Arrays]] = {}
            found = reply.ap + reply.auc  # type: ignore[attr-defined]
            self.seen[task.round - 1] = (found, task.weights)
        if isinstance(reply, Update):
            self.trained = reply.weights
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
    options = {"name": detector, **OPTIONS.get(defence, {})}
    rule = {"rule": "entente"} | ({"row_cap": 2.0} if defence == "row-cap" else {})
    table = {
        "seed": seed,
        "data": data,
        "detector": options,
        "federation": {"rounds": 15, "aggregation": rule},
    }
    return parse_experiment(table)


def play(
    experiment: Experiment, dataset: Dataset, defence: str, attack: str
) -> dict[str, tuple[float, float]]:
    """AP and AUC over the honest silos, by defence: the run's, and what silos can do with the same run."""
    cheat = max(sorted(dataset.silos), key=lambda name: len(malicious_pairs(dataset.silos[name].test)))
    silos: dict[str, Any] = {}
    for name, data in dataset.silos.items():
        detector, own = make_detector(experiment, dataset.shape), data.hosts.own_hosts
        if attack == EVERYBODY or (attack and name == cheat):
            craft = "turncoat" if attack == EVERYBODY else attack
            plan = Attack(name=craft, silos=(name,), p=SHARE[attack])
            silos[name] = corrupt(
                plan, name, detector, data.train, own, experiment.seed, future=data.test, later=data.later
            )
        else:
            silos[name] = Remembering(name, detector, data.train, own, experiment.seed, data.later)
    bootstrap.SIMILARITY_LIMIT = math.inf if defence == "unlimited" else 3.0
    coordinator, transport = make_coordinator(experiment, dataset.shape, list(silos)), SerialTransport(silos)
    if defence in ("sole-rows", "signs"):
        rule = coordinator._rule
        coordinator._rule = Agreeing(rule.config, rule.layout, rule.norm_bound)
        coordinator._rule.sole = defence == "sole-rows"
    while (task := coordinator.next_task()) is not None:
        coordinator.conclude(*transport.ask(task, math.inf))
    honest = {name: silos[name] for name in dataset.silos if name != cheat}
    kept = {name: OwnWeights.of(silo.state().arrays) for name, silo in silos.items()}
    models = {defence: {name: own.after(coordinator.best_round) for name, own in kept.items()}}
    if defence == "limited" and attack != EVERYBODY:
        models |= {way: {name: taken(silo, way) for name, silo in honest.items()} for way in READ}
    found = {}
    for way, own in models.items():
        weights = {"": coordinator.best_weights, **own}
        detectors = {
            name: trained_detector(experiment, dataset.shape, weights, name) for name in dataset.silos
        }
        scored = evaluate_models(dataset, detectors, experiment.detection).scored
        metrics = unite([scored[name] for name in honest]).metrics(())
        found[way] = (100 * (metrics.ap or 0.0), 100 * (metrics.auc or 0.0))
    return found


def taken(silo: Remembering, way: str) -> Arrays:
    """The weights that a silo scores with."""
    if way == "own":
        return silo.trained
    rounds = [silo.seen[number] for number in sorted(silo.seen)]
    if way == "canaries":
        return max(rounds, key=lambda found: found[0])[1]
    kept = rounds[0]
    for offered in rounds[1:]:
        if offered[0] >= kept[0]:
            kept = offered
    return kept[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--detector", choices=tuple(ATTACKS), default="behaviour")
    parser.add_argument("--hosts", type=int, default=80)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--attacks", nargs="*", choices=tuple(SHARE))
    parser.add_argument("--defences", nargs="*", choices=RUNS, default=RUNS)
    given = parser.parse_args()
    attacks = ("", *(given.attacks or ATTACKS[given.detector]))
    others = NETWORK if given.detector == "euler" else WITH_ROWS
    chosen = [name for name in given.defences if name not in others]
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        with tempfile.TemporaryDirectory() as scratch:
            for name in chosen:
                experiment = company(Path(scratch), given.hosts, seed, given.detector, name)
                dataset = load_dataset(experiment)
                for attack in attacks:
                    for way, figures in play(experiment, dataset, name, attack).items():
                        found.setdefault((way, attack), []).append(figures)
                        ap, auc = figures
                        print(f"seed {seed} {way:11} {attack or 'clean':9} {ap:5.1f} {auc:5.1f}", flush=True)
    print(f"{given.detector}, {given.hosts} hosts, {given.seeds} seeds: AP / AUC, mean")
    for way in dict.fromkeys(way for way, _ in found):
        means = {a: np.mean(found[way, a], axis=0) for a in attacks if (way, a) in found}
        told = (f"{a or 'clean'} {ap:5.1f} / {auc:5.1f}" for a, (ap, auc) in means.items())
        print(f"{way:11} {'   '.join(told)}")


if __name__ == "__main__":
    main()
