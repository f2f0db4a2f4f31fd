"""Campaigns with one dimension taken away, for the ablation of what the injection teaches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np

from entente.detectors.behaviour import detector
from entente.detectors.behaviour.injection.campaigns import Campaigns, Recipe
from entente_lab.bench.behaviour.shared import replaced


@contextmanager
def recipe_of(changes: Mapping[str, Any]) -> Iterator[None]:
    """While the block runs, campaigns are drawn with these changes.

    Besides the recipe's own fields: `targets = "uniform"` draws every target among all hosts, and `pace`
    lets no quick campaign last longer than so many hours.
    """
    own = dict(changes)
    targets, pace = own.pop("targets", None), own.pop("pace", None)
    with ExitStack() as stack:
        stack.enter_context(replaced(detector, "Recipe", partial(Recipe, **own)))
        if targets == "uniform":
            stack.enter_context(replaced(Campaigns, "_target", _any_host))
        if pace is not None:
            stack.enter_context(replaced(Campaigns, "_moments", _hurried(pace)))
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
