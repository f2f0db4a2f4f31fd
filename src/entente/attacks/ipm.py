"""Inner-product manipulation: a small step against the honest mean."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from entente.attacks.base import Attacker, difference, flat, moved, unflat
from entente.federation.messages import TrainTask, Update


class Ipm(Attacker):
    name = "ipm"
    summary = "send minus `strength` times the mean of estimated honest updates"

    def craft(self, task: TrainTask, update: Update) -> Update:
        own = difference(update.weights, task.weights)
        seen = np.stack([flat(own), *(flat(s) for s in self.shadows(task, 2))])
        crafted = -self.config.strength * seen.mean(axis=0)
        return replace(update, weights=moved(task.weights, unflat(crafted, own)))
