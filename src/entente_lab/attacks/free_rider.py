"""Take the model, give nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from entente.federation.messages import TrainTask, Update
from entente_lab.attacks.base import Attacker


class FreeRider(Attacker):
    name = "free-rider"
    summary = "return the global model with noise of `strength` thousandths, and claim perfect validation"

    def craft(self, task: TrainTask, update: Update) -> Update:
        rng = self.scene.rng(task.round)
        size = self.config.strength / 1000
        weights = {
            name: (a + size * rng.standard_normal(a.shape)).astype(np.float32)
            for name, a in sorted(task.weights.items())
        }
        return replace(update, weights=weights, ap=1.0, auc=1.0, loss=0.0)
