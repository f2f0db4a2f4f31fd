"""Campaigns with one dimension taken away, for the ablation of what the injection teaches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from entente.detectors.behaviour import detector
from entente.detectors.behaviour.injection.campaigns import Campaigns, Recipe
from entente_lab.bench.behaviour.shared import replaced


@dataclass(frozen=True, slots=True)
class Narrowed(Recipe):
    """A recipe that names what is changed in the drawing itself: examples are shared by their recipe."""

    targets: str = ""
    """`uniform`: every target is drawn among all hosts."""
    pace: float | None = None
    """No quick campaign lasts longer than so many hours."""


@contextmanager
def recipe_of(changes: Mapping[str, Any]) -> Iterator[None]:
    """While the block runs, campaigns are drawn with these changes: fields of `Narrowed`."""
    narrowed = partial(Narrowed, **changes)
    recipe = narrowed()
    with ExitStack() as stack:
        stack.enter_context(replaced(detector, "Recipe", narrowed))
        if recipe.targets == "uniform":
            stack.enter_context(replaced(Campaigns, "_target", _any_host))
        if recipe.pace is not None:
            stack.enter_context(replaced(Campaigns, "_moments", _hurried(recipe.pace)))
        yield


def _any_host(self: Campaigns, rng: np.random.Generator, source: int, kind: int, power: float) -> int:
    return int(rng.choice(self.history.hosts))


def _hurried(hours: float) -> Any:
    moments = Campaigns._moments

    def within(
        self: Campaigns, rng: np.random.Generator, source: int, begin: int, length: int, size: int
    ) -> Any:
        return moments(self, rng, source, begin, min(length, max(1, round(hours / self.history.hours))), size)

    return within
