"""Inner-product manipulation: a step against the honest mean."""

from __future__ import annotations

from entente.federation.messages import TrainTask, Update
from entente_lab.attacks.base import Attacker, sent, unflat


class Ipm(Attacker):
    name = "ipm"
    summary = "send minus `strength` times the mean of estimated honest updates"

    def craft(self, task: TrainTask, update: Update) -> Update:
        mean = self.estimate(task, update).mean(axis=0)
        return sent(task, update, unflat(mean, task.weights), -self.config.strength)
