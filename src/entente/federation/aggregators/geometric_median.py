"""Geometric median: the point with the least sum of distances to all updates."""

from __future__ import annotations

import numpy as np

from entente.federation.aggregators.base import Vector
from entente.federation.aggregators.stacked import Stacked
from entente.federation.aggregators.streaming import Float64

MOST_ITERATIONS = 200
CLOSE_ENOUGH = 1e-9


class GeometricMedian(Stacked):
    """Weiszfeld's iteration from the coordinate-wise median, which no minority can carry far away."""

    name = "geometric-median"
    summary = "The point with the least total distance to all updates."

    def step(self, vectors: list[Vector]) -> Float64:
        point = np.empty(self.layout.size)
        for piece in self.pieces():
            point[piece] = np.median(self.deltas(vectors, piece), axis=0)
        distances = self._distances(vectors, point)
        # Keeps a weight finite where the point falls on an update.
        least = max(CLOSE_ENOUGH * float(np.median(distances)), 1e-30)
        for _ in range(MOST_ITERATIONS):
            moved = self.mean_of(vectors, 1.0 / np.maximum(distances, least))
            travelled = float(np.sqrt(np.add.reduce((moved - point) ** 2)))
            point, distances = moved, self._distances(vectors, moved)
            if travelled <= CLOSE_ENOUGH * (1e-12 + float(np.median(distances))):
                break
        return point

    def _distances(self, vectors: list[Vector], point: Float64) -> Float64:
        squares = np.zeros(len(vectors))
        for piece in self.pieces():
            apart = self.deltas(vectors, piece) - point[piece]
            squares += np.add.reduce(apart * apart, axis=1)
        return np.sqrt(squares)

    def influence(self, silos: int, clip: float | None) -> float | None:
        return None if clip is None else 2.0 * clip
