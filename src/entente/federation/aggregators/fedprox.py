"""FedProx: FedAVG over silos that train with a proximal term."""

from __future__ import annotations

from pydantic import Field

from entente.federation.aggregators.fedavg import FedAvg, FedAvgOptions


class FedProxOptions(FedAvgOptions):
    """Settings of fedprox."""

    rule: str = "fedprox"
    mu: float = Field(default=0.05, ge=0)
    """Weight of the proximal term."""


class FedProx(FedAvg):
    """mu travels in every training task; the detector adds mu/2 * |w - w_i|^2 to its loss."""

    name = "fedprox"
    summary = "FedAVG, with training held near the global model by mu/2 * |w - w_i|^2."
    Options = FedProxOptions
    config: FedProxOptions

    @property
    def proximal(self) -> float:
        return self.config.mu
