"""FedAVG: the plain mean of the silos' models."""

from __future__ import annotations

from pydantic import Field

from entente.config import AggregationOptions
from entente.federation.aggregators.base import Aggregator, Contribution, Credit, Vector
from entente.federation.aggregators.streaming import Float64, Geometry, Summation, moved


class StepLimitOptions(AggregationOptions):
    """Settings of a rule that has no bound of its own on what one silo can do."""

    step_limit: float = Field(default=20.0, ge=0)
    """Refuse an update that is longer than this times the round's median; 0 = never (the paper's tables)."""


class FedAvgOptions(StepLimitOptions):
    """Settings of fedavg."""

    rule: str = "fedavg"


class WeightedMean(Aggregator):
    """w_{i+1} = w_i + sum of weight * update over the sum of weights; rules differ in the weight."""

    def weight(self, contribution: Contribution) -> float:
        return 1.0

    def begin(self, current: Vector) -> None:
        self._sum = Summation(current)
        self._weights = 0.0

    def add(self, contribution: Contribution) -> Credit:
        geometry = self._sum.measure(contribution.vector)
        weight = self.weight(contribution)
        self._sum.add(contribution.vector, (weight,))
        self._weights += weight
        return credit_of(geometry, contribution, weight)

    def mean(self) -> Float64:
        """The mean update; zero when no weight was given."""
        return self._sum.step(self._weights or 1.0)

    def finish(self) -> Vector:
        return moved(self._sum.current, self.mean())


class FedAvg(WeightedMean):
    name = "fedavg"
    summary = "Mean of the silos' models, every silo counting the same."
    Options = FedAvgOptions
    config: StepLimitOptions

    @property
    def step_limit(self) -> float:
        return self.config.step_limit

    def influence(self, silos: int, clip: float | None) -> float | None:
        return None if clip is None else 2.0 * clip / silos


def credit_of(geometry: Geometry, contribution: Contribution, weight: float = 1.0) -> Credit:
    """What a rule without contribution scaling has to say of an update."""
    return Credit(contribution.similarity, max(0.0, geometry.cosine), geometry.norm, weight, geometry.norm)
