"""Silos that cheat; plug-ins of the group `entente_lab.attacks`."""

from __future__ import annotations

from typing import Any

from entente.config import Experiment
from entente.detectors.base import Detector
from entente.graphs.temporal import TemporalGraph
from entente.registry import Registry
from entente.runtime.assembly import Dataset, make_detector
from entente.runtime.participants import HONEST, Participants
from entente_lab.attacks.base import Attacker, Scene
from entente_lab.attacks.options import Attack

__all__ = ["Attack", "attackers", "available", "corrupt"]


ATTACKS = Registry("entente_lab.attacks", "attack", "entente_lab.attacks.base:Attacker")


def available() -> dict[str, type[Attacker]]:
    """Every attack by name, sorted; those that cannot be imported are left out."""
    return ATTACKS.available()


def corrupt(
    config: Attack,
    silo: str,
    detector: Detector,
    graph: TemporalGraph,
    hosts: int,
    seed: int,
    *,
    future: TemporalGraph,
    later: TemporalGraph | None = None,
) -> Attacker:
    """The silo `silo` under the experiment's attack; `future` holds the malicious edges it will use."""
    kind: type[Attacker] = ATTACKS.load(config.name)
    scene = Scene(silo, detector, graph, hosts, seed, future, tuple(sorted(config.silos)), later)
    return kind(config, scene)


def attackers(attack: Attack | None) -> Participants:
    """The participants of a run under `attack`; honest ones without it."""
    if attack is None:
        return HONEST
    return Participants(f"{__name__}:play", attack.silos, {"attack": attack.model_dump(mode="json")})


def play(experiment: Experiment, dataset: Dataset, name: str, *, attack: dict[str, Any]) -> Attacker:
    """One attacking silo; `attackers` names this function to the runtime."""
    data, detector = dataset.silos[name], make_detector(experiment, dataset.shape)
    return corrupt(
        Attack.model_validate(attack),
        name,
        detector,
        data.train,
        data.hosts.own_hosts,
        experiment.seed,
        future=data.test,
        later=data.later,
    )
