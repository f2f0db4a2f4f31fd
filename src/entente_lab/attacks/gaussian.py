"""Noise instead of learning."""

from __future__ import annotations

import numpy as np

from entente.federation.messages import TrainTask, Update
from entente_lab.attacks.base import Attacker, difference, norm, sent, stretched


class Gaussian(Attacker):
    name = "gaussian"
    summary = "send noise gamma times as long as the honest update"

    def craft(self, task: TrainTask, update: Update) -> Update:
        rng = self.scene.rng(task.round)
        noise = {n: rng.standard_normal(a.shape).astype(np.float32) for n, a in sorted(task.weights.items())}
        length = norm(difference(update.weights, task.weights))
        return sent(task, update, stretched(noise, length), self.config.gamma)
