"""Krum and Multi-Krum: trust the updates that lie closest to their neighbours."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from pydantic import Field

from entente.config import AggregationOptions
from entente.federation.aggregators.base import Vector
from entente.federation.aggregators.stacked import Stacked
from entente.federation.aggregators.streaming import Float64


class KrumOptions(AggregationOptions):
    """Settings of krum."""

    rule: str = "krum"
    byzantine: int = Field(default=1, ge=0)
    """How many silos are assumed to cheat."""


class MultiKrumOptions(KrumOptions):
    """Settings of multi-krum."""

    rule: str = "multi-krum"
    multi: int = Field(default=0, ge=0)
    """How many updates are averaged; 0 = K - byzantine - 2, at least 1."""


class NearestUpdates(Stacked):
    """Averages the updates with the smallest distance to their K - f - 2 nearest others.

    f is `byzantine`. With fewer than 2f + 3 silos the published guarantee does not hold; at least one
    neighbour and one update are used all the same. Ties go to the silo whose name comes first.
    """

    config: KrumOptions

    @abstractmethod
    def chosen(self, silos: int) -> int:
        """How many updates are averaged."""

    def step(self, vectors: list[Vector]) -> Float64:
        best = np.argsort(self._scores(vectors), kind="stable")[: self.chosen(len(vectors))]
        picked = [vectors[index] for index in np.sort(best)]
        return self.mean_of(picked, np.ones(len(picked)))

    def _scores(self, vectors: list[Vector]) -> Float64:
        silos = len(vectors)
        squares = np.zeros((silos, silos))
        for piece in self.pieces():
            rows = self.deltas(vectors, piece)
            for one in range(silos - 1):
                apart = rows[one + 1 :] - rows[one]
                squares[one, one + 1 :] += np.add.reduce(apart * apart, axis=1)
        squares += squares.T
        near = max(1, min(silos - 1, silos - self.config.byzantine - 2))
        ordered = np.sort(squares, axis=1)[:, 1 : near + 1]  # the first is the distance to itself
        scores: Float64 = np.add.reduce(ordered, axis=1)
        return scores

    def influence(self, silos: int, clip: float | None) -> float | None:
        return None if clip is None else 2.0 * clip


class MultiKrum(NearestUpdates):
    name = "multi-krum"
    summary = "Mean of the updates closest to their neighbours."
    Options = MultiKrumOptions
    config: MultiKrumOptions

    def chosen(self, silos: int) -> int:
        wanted = self.config.multi or silos - self.config.byzantine - 2
        return max(1, min(silos, wanted))


class Krum(NearestUpdates):
    name = "krum"
    summary = "The one update closest to its neighbours."
    Options = KrumOptions

    def chosen(self, silos: int) -> int:
        return 1
