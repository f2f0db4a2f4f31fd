"""Several silos share the malicious edges out among them, each update looking more ordinary."""

from __future__ import annotations

from entente.federation.messages import TrainTask, Update
from entente.graphs.temporal import TemporalGraph
from entente_lab.attacks.base import Attacker, scaled
from entente_lab.attacks.poison import Pairs, inject


class DistributedBackdoor(Attacker):
    name = "distributed-backdoor"
    summary = "colluding silos replay a share of the malicious edges each, scaled by gamma"

    def targets(self) -> Pairs:
        return super().targets().part(self.scene.place, len(self.scene.colluders))

    def poison(self, graph: TemporalGraph) -> TemporalGraph:
        return inject(graph, self.targets(), self.config.p, self.scene.rng())

    def craft(self, task: TrainTask, update: Update) -> Update:
        return scaled(self.config, task, update)
