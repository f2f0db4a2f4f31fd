"""FedAVG-N: the mean weighted by each silo's share of the hosts."""

from __future__ import annotations

from entente.federation.aggregators.base import Contribution
from entente.federation.aggregators.fedavg import StepLimitOptions, WeightedMean


class FedAvgNOptions(StepLimitOptions):
    """Settings of fedavg-n."""

    rule: str = "fedavg-n"


class FedAvgN(WeightedMean):
    """Shares are the silos' own word: this rule trusts it, up to ten times the median of the others."""

    name = "fedavg-n"
    summary = "Mean weighted by n^k / n; every silo reveals its share of the hosts."
    needs_share = True
    Options = FedAvgNOptions
    config: FedAvgNOptions

    @property
    def step_limit(self) -> float:
        return self.config.step_limit

    def weight(self, contribution: Contribution) -> float:
        return min(1.0, max(0.0, contribution.share))

    def influence(self, silos: int, clip: float | None) -> float | None:
        # One silo may claim all the weight, so only the ball that every mean lies in is certain.
        return None if clip is None else 2.0 * clip
