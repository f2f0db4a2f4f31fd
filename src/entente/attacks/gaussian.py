"""Noise instead of learning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from entente.attacks.base import Attacker, difference, moved, norm
from entente.federation.messages import TrainTask, Update


class Gaussian(Attacker):
    name = "gaussian"
    summary = "send noise gamma times as long as the honest update"

    def craft(self, task: TrainTask, update: Update) -> Update:
        rng = self.scene.rng(task.round)
        noise = {n: rng.standard_normal(a.shape).astype(np.float32) for n, a in sorted(task.weights.items())}
        length = norm(difference(update.weights, task.weights)) / norm(noise)
        return replace(update, weights=moved(task.weights, noise, self.config.gamma * length))
