"""What a silo trains or scores with; plug-ins of the group `entente.detectors`."""

from __future__ import annotations

from typing import Any

from entente.config import DetectorOptions
from entente.detectors.base import Detector, GraphShape
from entente.registry import DETECTORS

__all__ = ["available", "baseline", "create", "find", "reference_baselines"]


def available() -> dict[str, type[Detector]]:
    """Every detector by name, sorted; those that cannot be imported are left out."""
    return DETECTORS.available()


def find(name: str) -> type[Detector]:
    """The detector of that name."""
    return DETECTORS.load(name)


def reference_baselines() -> tuple[str, ...]:
    """The baselines that every run is compared with."""
    return tuple(name for name, kind in available().items() if kind.reference)


def create(config: DetectorOptions, shape: GraphShape, seed: int) -> Detector:
    """The detector that `config.name` names, with weights drawn from `seed`.

    A detector class is called as `cls(config, shape, seed)`; it sees sizes, never data.
    """
    make: Any = find(config.name)
    detector: Detector = make(config, shape, seed)
    return detector


def baseline(name: str, shape: GraphShape, seed: int = 0) -> Detector:
    """A detector with its default options, by name."""
    return create(find(name).Options(name=name), shape, seed)
