"""Entente-UB: Entente without the norm bound, as the paper's ablation."""

from __future__ import annotations

from entente.federation.aggregators.entente import ContributionScaling
from entente.federation.aggregators.fedavg import StepLimitOptions


class UnboundedOptions(StepLimitOptions):
    """Settings of entente-ub."""

    rule: str = "entente-ub"


class EntenteUnbounded(ContributionScaling):
    name = "entente-ub"
    summary = (
        "Entente without its norm bound (ablation; what one silo can do is limited by the others' steps)."
    )
    Options = UnboundedOptions
    config: UnboundedOptions

    @property
    def step_limit(self) -> float:
        return self.config.step_limit
