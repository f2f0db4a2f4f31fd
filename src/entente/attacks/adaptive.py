"""Knows the rule: poisons, claims J = 1 and stays just under the norm bound, every round."""

from __future__ import annotations

from dataclasses import replace

from entente.attacks.base import difference, moved, norm
from entente.attacks.replay import Replay
from entente.federation.messages import Reply, SketchReply, Task, TrainTask, Update


class Adaptive(Replay):
    name = "adaptive"
    summary = "replay with J = 1 and every update stretched to 99 % of the norm bound `strength`"

    def handle(self, task: Task) -> Reply:
        reply = super().handle(task)
        return replace(reply, similarity=1.0) if isinstance(reply, SketchReply) else reply

    def craft(self, task: TrainTask, update: Update) -> Update:
        step = difference(update.weights, task.weights)
        length = norm(step)
        factor = 0.99 * self.config.strength / length if length > 0 else 1.0
        return replace(update, weights=moved(task.weights, step, factor))
