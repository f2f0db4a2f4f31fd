"""Rules that have to see all updates of a round together: K models in memory, not two."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from entente.federation.aggregators.base import Aggregator, Contribution, Credit, Vector
from entente.federation.aggregators.fedavg import credit_of
from entente.federation.aggregators.streaming import Float64, Summation, moved, pieces


class Stacked(Aggregator):
    """Keeps the round's updates; a rule says what step they make."""

    def begin(self, current: Vector) -> None:
        self._sum = Summation(current)
        self._vectors: list[Vector] = []

    def add(self, contribution: Contribution) -> Credit:
        geometry = self._sum.measure(contribution.vector)
        self._vectors.append(contribution.vector.copy())
        return credit_of(geometry, contribution)

    def finish(self) -> Vector:
        if not self._vectors:
            return self._sum.current.copy()
        return moved(self._sum.current, self.step(self._vectors))

    @abstractmethod
    def step(self, vectors: list[Vector]) -> Float64:
        """The step from w_i that the updates make together."""

    def deltas(self, vectors: list[Vector], piece: slice) -> Float64:
        """The same piece of every update, one row per silo."""
        stack = np.array([vector[piece] for vector in vectors], dtype=np.float64)
        return stack - self._sum.current[piece]

    def pieces(self) -> list[slice]:
        return pieces(slice(0, self.layout.size))

    def mean_of(self, vectors: list[Vector], weights: Float64) -> Float64:
        """The weighted mean update, added up row by row in the order of the silos."""
        step = np.empty(self.layout.size)
        total = float(np.add.reduce(weights))
        for piece in self.pieces():
            step[piece] = np.add.reduce(self.deltas(vectors, piece) * weights[:, None], axis=0) / total
        return step
