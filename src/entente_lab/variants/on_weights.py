"""The paper's first form of its update, on weights instead of differences:

    w_{i+1} = (1/K) * sum over k of r^k * w^k

The contributions r do not add up to K: with J around 0.05 and short updates r is about 0.1, so every round
multiplies the model by about 0.1, and after a few rounds nothing is left of it. The paper's later form, which
adds r times the update to w_i, does not have this fault; `entente` is that one.
"""

from __future__ import annotations

import numpy as np

from entente.federation.aggregators.base import Contribution, Credit, Vector
from entente.federation.aggregators.entente import ContributionScaling
from entente.registry import AGGREGATORS


class EntenteOnWeights(ContributionScaling):
    name = "entente-on-weights"
    summary = "The paper's update on weights, w = (1/K) Σ r·w: it shrinks the model every round."

    def begin(self, current: Vector) -> None:
        super().begin(current)
        self._contributions: list[float] = []

    def add(self, contribution: Contribution) -> Credit:
        credit = super().add(contribution)
        self._contributions.append(credit.r)
        return credit

    def finish(self) -> Vector:
        if not self._contributions:
            return super().finish()
        current = self._sum.current
        # (1/K) Σ r w^k = (1/K) Σ r (w^k - w_i) + (mean r) w_i, and the parent adds w_i once.
        return (super().finish() + (np.mean(self._contributions) - 1.0) * current).astype(np.float32)

    def influence(self, silos: int, clip: float | None) -> float | None:
        return None  # r also scales w_i, whose norm nothing bounds


def offer_rules() -> None:
    """Let experiments of this process name the rule; it breaks the promises that plug-ins are tested for."""
    AGGREGATORS.offer(EntenteOnWeights)
