"""Centred clipping: updates count by how they differ from the last step, and only so far."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from entente.artifacts import Arrays
from entente.config import AggregationOptions
from entente.federation.aggregators.base import NORM_BOUND, Aggregator, Contribution, Credit, Layout, Vector
from entente.federation.aggregators.fedavg import credit_of
from entente.federation.aggregators.streaming import Float64, Summation, moved, pieces


class CentredClippingOptions(AggregationOptions):
    """Settings of centred-clipping."""

    rule: str = "centred-clipping"
    radius: float = Field(default=1.0, gt=0)
    """Radius around the momentum."""


class CentredClipping(Aggregator):
    """v <- v + mean over silos of clip(update - v, radius); w_{i+1} = w_i + v. v is kept between rounds.

    No silo moves v by more than radius / K in a round.
    """

    name = "centred-clipping"
    summary = "The last step, corrected by each update within a radius."
    Options = CentredClippingOptions
    config: CentredClippingOptions

    def __init__(
        self, config: CentredClippingOptions, layout: Layout, norm_bound: float = NORM_BOUND
    ) -> None:
        super().__init__(config, layout, norm_bound)
        self._centre: Float64 = np.zeros(layout.size)

    def begin(self, current: Vector) -> None:
        self._current = current
        self._sum = Summation(current)
        self._correction: Float64 = np.zeros(self.layout.size)
        self._silos = 0

    def add(self, contribution: Contribution) -> Credit:
        geometry = self._sum.measure(contribution.vector)
        square = 0.0
        for piece in self._pieces():
            delta = contribution.vector[piece].astype(np.float64) - self._current[piece]
            delta -= self._centre[piece]
            square += float(np.add.reduce(delta * delta))
        distance = math.sqrt(square)
        scale = min(1.0, self.config.radius / distance) if distance > 0 else 1.0
        for piece in self._pieces():
            delta = contribution.vector[piece].astype(np.float64) - self._current[piece]
            self._correction[piece] += scale * (delta - self._centre[piece])
        self._silos += 1
        return replace(credit_of(geometry, contribution, scale), clipped=scale < 1.0)

    def finish(self) -> Vector:
        if not self._silos:
            return self._current.copy()
        self._centre = self._centre + self._correction / self._silos
        return moved(self._current, self._centre)

    def _pieces(self) -> list[slice]:
        return pieces(slice(0, self.layout.size))

    def state(self) -> Arrays:
        return {"centre": self._centre.copy()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._centre = np.array(state["centre"], dtype=np.float64)
