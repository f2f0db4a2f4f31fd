"""Push the global model the other way."""

from __future__ import annotations

from dataclasses import replace

from entente.attacks.base import Attacker, difference, moved
from entente.federation.messages import TrainTask, Update


class SignFlip(Attacker):
    name = "sign-flip"
    summary = "send the honest update turned round, gamma times as long"

    def craft(self, task: TrainTask, update: Update) -> Update:
        step = difference(update.weights, task.weights)
        return replace(update, weights=moved(task.weights, step, -self.config.gamma))
