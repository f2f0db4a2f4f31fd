"""A little is enough: hide inside the honest updates' spread."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from entente.attacks.base import Attacker, difference, flat, moved, unflat
from entente.federation.messages import TrainTask, Update


class Alie(Attacker):
    name = "alie"
    summary = "mean of estimated honest updates, moved by `strength` standard deviations per coordinate"

    def craft(self, task: TrainTask, update: Update) -> Update:
        own = difference(update.weights, task.weights)
        seen = np.stack([flat(own), *(flat(s) for s in self.shadows(task, 2))])
        crafted = seen.mean(axis=0) - self.config.strength * seen.std(axis=0)
        return replace(update, weights=moved(task.weights, unflat(crafted, own)))
