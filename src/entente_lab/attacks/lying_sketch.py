"""Lie about the own graph to weigh more, and replay."""

from __future__ import annotations

from dataclasses import replace

from entente.federation.messages import CountReply, Reply, SketchReply, Task
from entente_lab.attacks.replay import Replay


class LyingSketch(Replay):
    name = "lying-sketch"
    summary = "claim J = 1 and `strength` times the hosts, then replay"

    def handle(self, task: Task) -> Reply:
        reply = super().handle(task)
        if self.config.from_round > 1:  # honest when the federation began
            return reply
        if isinstance(reply, SketchReply):
            return replace(reply, similarity=1.0)
        if isinstance(reply, CountReply):
            # Masks are added modulo 2**64, so a lie passes through the secure sum unchanged.
            extra = round((self.config.strength - 1) * self.scene.hosts)
            return replace(reply, count=(reply.count + extra) % 2**64)
        return reply
