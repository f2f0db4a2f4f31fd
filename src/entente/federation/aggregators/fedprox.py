"""FedProx: FedAVG over silos that train with a proximal term."""

from __future__ import annotations

from entente.federation.aggregators.fedavg import FedAvg


class FedProx(FedAvg):
    """mu travels in every training task; the detector adds mu/2 * |w - w_i|^2 to its loss."""

    name = "fedprox"
    summary = "FedAVG, with training held near the global model by mu/2 * |w - w_i|^2."

    @property
    def proximal(self) -> float:
        return self.config.mu
