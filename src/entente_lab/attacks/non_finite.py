"""Bytes that are no numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from entente.federation.messages import TrainTask, Update
from entente_lab.attacks.base import Attacker


class NonFinite(Attacker):
    name = "non-finite"
    summary = "send NaN in odd rounds and infinity in even ones"

    def craft(self, task: TrainTask, update: Update) -> Update:
        value = np.nan if task.round % 2 else np.inf
        weights = {name: np.full_like(array, value) for name, array in update.weights.items()}
        return replace(update, weights=weights)
