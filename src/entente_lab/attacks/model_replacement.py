"""Scale the poisoned update so that, under plain averaging, it becomes the global model."""

from __future__ import annotations

from entente.federation.messages import TrainTask, Update
from entente_lab.attacks.base import difference, sent
from entente_lab.attacks.replay import Replay


class ModelReplacement(Replay):
    name = "model-replacement"
    summary = "replay, scaled by `strength` = number of silos: averaging returns the attacker's model"

    def craft(self, task: TrainTask, update: Update) -> Update:
        return sent(task, update, difference(update.weights, task.weights), self.config.strength)
