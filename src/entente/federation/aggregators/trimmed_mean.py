"""Coordinate-wise mean without the largest and smallest values."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from entente.config import AggregationOptions
from entente.federation.aggregators.base import Vector
from entente.federation.aggregators.stacked import Stacked
from entente.federation.aggregators.streaming import Float64


class TrimmedMeanOptions(AggregationOptions):
    """Settings of trimmed-mean."""

    rule: str = "trimmed-mean"
    trim: float = Field(default=0.2, ge=0, lt=0.5)
    """Share cut at each end."""


class TrimmedMean(Stacked):
    """Cuts ceil(trim * K) values at each end, but leaves at least the middle one or two."""

    name = "trimmed-mean"
    summary = "Mean of the silos' values, weight by weight, the extremes left out."
    Options = TrimmedMeanOptions
    config: TrimmedMeanOptions

    def step(self, vectors: list[Vector]) -> Float64:
        silos = len(vectors)
        cut = min(int(np.ceil(self.config.trim * silos)), (silos - 1) // 2)
        step = np.empty(self.layout.size)
        for piece in self.pieces():
            ordered = np.sort(self.deltas(vectors, piece), axis=0)
            step[piece] = ordered[cut : silos - cut].mean(axis=0)
        return step
