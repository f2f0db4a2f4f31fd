"""Coordinate-wise median of the updates."""

from __future__ import annotations

import numpy as np

from entente.federation.aggregators.base import Vector
from entente.federation.aggregators.stacked import Stacked
from entente.federation.aggregators.streaming import Float64


class Median(Stacked):
    name = "median"
    summary = "Median of the silos' values, weight by weight."

    def step(self, vectors: list[Vector]) -> Float64:
        step = np.empty(self.layout.size)
        for piece in self.pieces():
            step[piece] = np.median(self.deltas(vectors, piece), axis=0)
        return step
