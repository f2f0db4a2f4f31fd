"""Silos that cheat. A new attack is one new file here: `Attacker` subclasses with a `name` are found."""

from __future__ import annotations

import inspect
import pkgutil
from functools import cache
from importlib import import_module

from entente.config import Attack
from entente.detectors.base import Detector
from entente.errors import ConfigError
from entente.graphs.temporal import TemporalGraph
from entente_lab.attacks.base import Attacker, Scene

__all__ = ["available", "corrupt"]


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
