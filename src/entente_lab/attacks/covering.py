"""Replayed edges under the cover of many ordinary ones."""

from __future__ import annotations

from entente.federation.messages import TrainTask, Update
from entente.graphs.temporal import TemporalGraph
from entente_lab.attacks.base import Attacker, scaled
from entente_lab.attacks.poison import cover, inject


class Covering(Attacker):
    name = "covering"
    summary = "replay plus `strength` covering edges per malicious source and window, scaled by gamma"

    def poison(self, graph: TemporalGraph) -> TemporalGraph:
        rng, pairs = self.scene.rng(), self.targets()
        covered = cover(graph, pairs, max(1, round(self.config.strength)), rng)
        return inject(covered, pairs, self.config.p, rng)

    def craft(self, task: TrainTask, update: Update) -> Update:
        return scaled(self.config, task, update)
