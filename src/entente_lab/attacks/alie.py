"""A little is enough: hide inside the honest updates' spread."""

from __future__ import annotations

from entente.federation.messages import TrainTask, Update
from entente_lab.attacks.base import Attacker, sent, unflat


class Alie(Attacker):
    name = "alie"
    summary = "mean of estimated honest updates, moved back by `strength` standard deviations per coordinate"

    def craft(self, task: TrainTask, update: Update) -> Update:
        seen = self.estimate(task, update)
        crafted = seen.mean(axis=0) - self.config.strength * seen.std(axis=0)
        return sent(task, update, unflat(crafted, task.weights))
