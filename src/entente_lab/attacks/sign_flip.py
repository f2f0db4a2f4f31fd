"""Push the global model the other way."""

from __future__ import annotations

from entente.federation.messages import TrainTask, Update
from entente_lab.attacks.base import Attacker, difference, sent


class SignFlip(Attacker):
    name = "sign-flip"
    summary = "send the honest update turned round, gamma times as long"

    def craft(self, task: TrainTask, update: Update) -> Update:
        return sent(task, update, difference(update.weights, task.weights), -self.config.gamma)
