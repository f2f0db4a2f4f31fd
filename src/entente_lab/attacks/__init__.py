"""Silos that cheat. A new attack is one new file here: `Attacker` subclasses with a `name` are found."""

from __future__ import annotations

import inspect
import pkgutil
from functools import cache
from importlib import import_module
from typing import Any

from entente.config import Attack, Experiment
from entente.detectors.base import Detector
from entente.errors import ConfigError
from entente.graphs.temporal import TemporalGraph
from entente.runtime.assembly import Dataset, make_detector
from entente.runtime.participants import HONEST, Participants
from entente_lab.attacks.base import Attacker, Scene

__all__ = ["attackers", "available", "corrupt"]


@cache
def available() -> dict[str, type[Attacker]]:
    """Every attack by name, in alphabetical order."""
    found: dict[str, type[Attacker]] = {}
    for module in pkgutil.iter_modules(__path__):
        for _, item in inspect.getmembers(import_module(f"{__name__}.{module.name}"), inspect.isclass):
            if issubclass(item, Attacker) and "name" in vars(item):
                found[item.name] = item
    return dict(sorted(found.items()))


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
    attacks = available()
    if config.name not in attacks:
        raise ConfigError(
            f"there is no attack {config.name!r}", remedy=f"Choose one of: {', '.join(attacks)}."
        )
    scene = Scene(silo, detector, graph, hosts, seed, future, tuple(sorted(config.silos)), later)
    return attacks[config.name](config, scene)


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
        data.own_hosts,
        experiment.seed,
        future=data.test,
        later=data.later,
    )
