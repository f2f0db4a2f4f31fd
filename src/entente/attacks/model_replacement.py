"""Scale the poisoned update so that, under plain averaging, it becomes the global model."""

from __future__ import annotations

from dataclasses import replace

from entente.attacks.base import difference, moved
from entente.attacks.replay import Replay
from entente.federation.messages import TrainTask, Update


class ModelReplacement(Replay):
    name = "model-replacement"
    summary = (
        "replay, scaled by `strength` = the number of silos, so that averaging returns the attacker's model"
    )

    def craft(self, task: TrainTask, update: Update) -> Update:
        step = difference(update.weights, task.weights)
        return replace(update, weights=moved(task.weights, step, self.config.strength))
