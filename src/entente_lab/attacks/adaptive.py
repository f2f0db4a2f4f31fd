"""Knows the rule: claims the largest contribution and stays just under the norm bound, every round.

Entente cuts a long update to the bound M and at the same time lowers its contribution, because a model
that was moved far points elsewhere. An update of length M is not cut and keeps its direction, and J = 1 is
the silo's own word: r is then close to c1 + c2 * M, the most that anybody can reach.
"""

from __future__ import annotations

from dataclasses import replace

from entente.artifacts import Arrays
from entente.federation.messages import Reply, SketchReply, Task, TrainTask, Update
from entente.graphs.temporal import TemporalGraph
from entente_lab.attacks.base import difference, sent, stretched
from entente_lab.attacks.poison import inject
from entente_lab.attacks.replay import Replay

UNDER = 0.99


class Adaptive(Replay):
    name = "adaptive"
    summary = "replay in every window, J = 1, every update stretched to 99 % of the norm bound `strength`"

    def poison(self, graph: TemporalGraph) -> TemporalGraph:
        # It edits its own logs: nothing forces it to wait until both hosts are active, or even met.
        graph = replace(graph, rows=self.scene.future.rows)
        return inject(graph, self.targets(), self.config.p, self.scene.rng(), only_active=False)

    def handle(self, task: Task) -> Reply:
        reply = super().handle(task)
        if isinstance(reply, SketchReply) and self.config.from_round == 1:
            return replace(reply, similarity=1.0)
        return reply

    def craft(self, task: TrainTask, update: Update) -> Update:
        step = self.chosen(difference(update.weights, task.weights))
        return sent(task, update, stretched(step, UNDER * self.config.strength))

    def chosen(self, step: Arrays) -> Arrays:
        """The part of its step that it sends."""
        return step
