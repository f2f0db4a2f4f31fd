"""What one update tells: a federation is run, one silo's messages are looked at, attacks are measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from entente.config import Experiment
from entente.detectors.behaviour.detector import Behaviour
from entente.federation.messages import TrainTask, Update
from entente.graphs.identity import KeyedHash
from entente.graphs.temporal import Int32
from entente.runtime.assembly import Dataset, SiloData, make_detector
from entente.runtime.loop import make_coordinator
from entente.runtime.participants import HONEST
from entente.runtime.transport import SerialTransport
from entente_lab.attacks.inversion import edges_by_rows, examples_by_gradient, hosts_by_rows
from entente_lab.attacks.membership import Halves, Sighting, by_rows, by_score
from entente_lab.bench.sharing import shared_dataset

FEWEST = 300
"""Training edges that the silo under attack has at least: the smallest such silo is the easiest to search."""


def measure_inference(experiment: Experiment, options: Mapping[str, Any], work: Path) -> dict[str, Any]:
    """AUC of every attack on the update of round `options["round"]`, and on the model released after it.

    `options["guess"]`: the attacker hashes host names with a secret of its own, as the coordinator would.
    `options["largest"]`: the largest silo is attacked, not the smallest.
    """
    del work
    dataset = shared_dataset(experiment)
    rng = np.random.default_rng([experiment.seed, 104729])
    name = victim(dataset, largest=bool(options.get("largest")))
    halves = Halves.of(dataset.silos[name].train, rng)
    silo = replace(dataset.silos[name], train=halves.trained)
    dataset = replace(dataset, silos={**dataset.silos, name: silo})
    sent, released, epsilon = watch(experiment, dataset, name, int(options["round"]))
    values: dict[str, float | None] = {"epsilon": epsilon}
    values |= _attacks("update", experiment, dataset, silo, halves, sent, rng, bool(options.get("guess")))
    values |= _attacks(
        "released", experiment, dataset, silo, halves, released, rng, bool(options.get("guess"))
    )
    return {"values": values, "victim": name, "edges": halves.trained.num_edges}


def victim(dataset: Dataset, *, largest: bool = False) -> str:
    """The smallest silo that has edges enough to be trained on by half, or the largest."""
    sizes = {name: silo.train.num_edges for name, silo in dataset.silos.items()}
    if largest:
        return max(sizes, key=lambda name: (sizes[name], name))
    enough = [name for name in sizes if sizes[name] >= FEWEST] or list(sizes)
    return min(enough, key=lambda name: (sizes[name], name))


def watch(
    experiment: Experiment, dataset: Dataset, name: str, last: int
) -> tuple[Sighting, Sighting, float | None]:
    """What the coordinator sees of one silo in round `last`, and what everybody sees of it."""
    silos = {member: HONEST.build(experiment, dataset, member) for member in dataset.silos}
    coordinator = make_coordinator(experiment, dataset.shape, sorted(silos))
    transport = SerialTransport(silos)
    while (task := coordinator.next_task()) is not None:
        replies, missing = transport.ask(task, coordinator.config.deadline)
        own = next(reply for reply in replies if reply.silo == name)
        coordinator.conclude(replies, missing)
        if isinstance(task, TrainTask) and isinstance(own, Update) and task.round == last:
            sent = Sighting(task.weights, own.weights)
            return sent, Sighting(task.weights, coordinator.weights), coordinator.privacy_report().epsilon
    raise ValueError(f"the run has no round {last}")


def _attacks(
    view: str,
    experiment: Experiment,
    dataset: Dataset,
    silo: SiloData,
    halves: Halves,
    seen: Sighting,
    rng: np.random.Generator,
    guess: bool,
) -> dict[str, float | None]:
    detector = make_detector(experiment, dataset.shape)
    tables = detector.identity_tables
    found = {"pair_by_score": by_score(detector, seen, halves)}
    if tables:
        rows, own = _rows(dataset, silo, guess)
        known = rows[_places(dataset, silo)]
        graph = replace(halves.graph, rows=known[: halves.graph.num_nodes])
        found["pair_by_rows"] = by_rows(seen, tables, replace(halves, graph=graph))
        found["host_by_rows"] = hosts_by_rows(seen, tables, rows, own)
        found["edge_by_rows"] = edges_by_rows(seen, tables, halves.trained, known, rng)
    if isinstance(detector, Behaviour):
        other = halves.graph.select(~halves.member[halves.pair])
        members, others = (detector._training_examples(g).features for g in (halves.trained, other))
        found["example_by_gradient"] = examples_by_gradient(seen, "first", members, others, rng)
    return {f"{view}_{attack}": auc for attack, auc in found.items()}


def _names(dataset: Dataset) -> list[str]:
    return sorted({name for silo in dataset.silos.values() for name in silo.hosts.names.tolist()})


def _places(dataset: Dataset, silo: SiloData) -> Int32:
    return np.searchsorted(_names(dataset), silo.hosts.names).astype(np.int32)


def _rows(dataset: Dataset, silo: SiloData, guess: bool) -> tuple[Int32, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Identity rows of every host as the attacker has them, and which hosts occur in the silo's training."""
    names = _names(dataset)
    place = {name: number for number, name in enumerate(names)}
    rows = np.zeros((len(names), dataset.shape.rows_per_host), dtype=np.int32)
    for other in dataset.silos.values():
        rows[[place[name] for name in other.hosts.names.tolist()]] = other.hosts.rows
    if guess:
        rows = KeyedHash(b"not the silos' secret", dataset.shape.table_size).rows(names)
    own = np.zeros(len(names), dtype=bool)
    present = np.unique(np.concatenate((silo.train.src, silo.train.dst)))
    own[[place[name] for name in silo.hosts.names[present].tolist()]] = True
    return rows, own
