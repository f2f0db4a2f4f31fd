"""Entente-UB: Entente without the norm bound, as the paper's ablation."""

from __future__ import annotations

from entente.federation.aggregators.entente import ContributionScaling


class EntenteUnbounded(ContributionScaling):
    name = "entente-ub"
    summary = "Entente without its norm bound (ablation; one silo can move the model as far as it likes)."
