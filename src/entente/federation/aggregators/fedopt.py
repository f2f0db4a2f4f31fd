"""FedOpt: the mean update is a gradient for an optimiser on the coordinator's side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from entente.artifacts import Arrays
from entente.config import AggregationOptions
from entente.federation.aggregators.base import NORM_BOUND, Layout, Vector
from entente.federation.aggregators.fedavg import WeightedMean
from entente.federation.aggregators.streaming import moved

FIRST_MOMENT, SECOND_MOMENT, STEADINESS = 0.9, 0.99, 1e-3


class FedOptOptions(AggregationOptions):
    """Settings of fedopt."""

    rule: str = "fedopt"
    server: Literal["adam", "yogi"] = "adam"
    """The coordinator's optimiser."""
    server_lr: float = Field(default=0.01, gt=0)
    """Its rate."""


class FedOpt(WeightedMean):
    """FedAdam or FedYogi: w_{i+1} = w_i + rate * m / (sqrt(v) + 0.001), moments kept between rounds."""

    name = "fedopt"
    summary = "A server optimiser (Adam or Yogi) applied to the mean update."
    Options = FedOptOptions
    config: FedOptOptions

    def __init__(self, config: FedOptOptions, layout: Layout, norm_bound: float = NORM_BOUND) -> None:
        super().__init__(config, layout, norm_bound)
        self._first = np.zeros(layout.size)
        self._second = np.full(layout.size, STEADINESS**2)

    def finish(self) -> Vector:
        if not self._weights:
            return self._sum.current.copy()
        mean = self.mean()
        square = mean * mean
        self._first = FIRST_MOMENT * self._first + (1 - FIRST_MOMENT) * mean
        if self.config.server == "adam":
            self._second = SECOND_MOMENT * self._second + (1 - SECOND_MOMENT) * square
        else:
            self._second = self._second - (1 - SECOND_MOMENT) * square * np.sign(self._second - square)
        step = self.config.server_lr * self._first / (np.sqrt(self._second) + STEADINESS)
        return moved(self._sum.current, step)

    def state(self) -> Arrays:
        return {"first": self._first.copy(), "second": self._second.copy()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._first = np.array(state["first"], dtype=np.float64)
        self._second = np.array(state["second"], dtype=np.float64)
