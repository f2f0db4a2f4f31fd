"""FedAVG-N: the mean weighted by each silo's share of the hosts."""

from __future__ import annotations

from entente.federation.aggregators.base import Contribution
from entente.federation.aggregators.fedavg import WeightedMean


class FedAvgN(WeightedMean):
    """Shares are the silos' own word, each held in [0, 1]; over the silos present they sum to 1."""

    name = "fedavg-n"
    summary = "Mean weighted by n^k / n; every silo reveals its share of the hosts."
    needs_share = True

    def weight(self, contribution: Contribution) -> float:
        return min(1.0, max(0.0, contribution.share))

    def influence(self, silos: int, clip: float | None) -> float | None:
        # One silo may claim all the weight, so only the ball that every mean lies in is certain.
        return None if clip is None else 2.0 * clip
