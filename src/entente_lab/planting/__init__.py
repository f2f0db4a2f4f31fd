"""Campaigns and benign work planted into an event table, to measure detectors with.

These generators test; they never train. They share no code with the campaigns that a detector injects
into its own training data, were written down (docs/planting.md) before anything was measured with them,
and no module of the product imports them.

    attacked = planted(events, "slow-chains", seed=1, since=train_end_us)
    attacked.events    # the columns of `events`, sorted by time, label 0 or 1
    attacked.contacts  # what was planted: time, src, dst, user, campaign, label
    noisy = planted(attacked.events, "admin-bursts", seed=1)
"""

from entente_lab.planting.base import Planted
from entente_lab.planting.benign import AdminBursts, BenignPivots, NoisyAccounts
from entente_lab.planting.malicious import Sessions, SlowChains, SlowOperator
from entente_lab.planting.run import KINDS, planted

__all__ = [
    "KINDS",
    "AdminBursts",
    "BenignPivots",
    "NoisyAccounts",
    "Planted",
    "Sessions",
    "SlowChains",
    "SlowOperator",
    "planted",
]
