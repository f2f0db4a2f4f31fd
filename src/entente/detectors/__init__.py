"""What a silo trains. A new detector is one new file here: `Detector` subclasses with a `name` are found."""

from __future__ import annotations

import inspect
import pkgutil
from functools import cache
from importlib import import_module
from typing import Any

from entente.detectors.base import Detector, GraphShape
from entente.errors import DetectorError

__all__ = ["available", "create"]


@cache
def available() -> dict[str, type[Detector]]:
    """Every detector by name, in alphabetical order."""
    found: dict[str, type[Detector]] = {}
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        for _, item in inspect.getmembers(import_module(module.name), inspect.isclass):
            if (
                issubclass(item, Detector)
                and item.__module__ == module.name
                and not inspect.isabstract(item)
                and "name" in vars(item)
            ):
                found[item.name] = item
    return dict(sorted(found.items()))


def create(config: Any, shape: GraphShape, seed: int) -> Detector:
    """The detector that `config.name` names, with weights drawn from `seed`.

    A detector class is called as `cls(config, shape, seed)`; it sees sizes, never data.
    """
    detectors = available()
    if config.name not in detectors:
        raise DetectorError(
            f"there is no detector {config.name!r}", remedy=f"Choose one of: {', '.join(detectors)}."
        )
    make: Any = detectors[config.name]
    detector: Detector = make(config, shape, seed)
    return detector
