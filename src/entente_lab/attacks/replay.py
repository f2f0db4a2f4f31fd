"""The paper's attack: replayed malicious edges in the training graph, and a scaled update."""

from __future__ import annotations

from entente.federation.messages import TrainTask, Update
from entente.graphs.temporal import TemporalGraph
from entente_lab.attacks.base import Attacker, scaled
from entente_lab.attacks.poison import inject


class Replay(Attacker):
    name = "replay"
    summary = "train on replayed malicious edges (p), send gamma times the update (the paper's attack)"

    def poison(self, graph: TemporalGraph) -> TemporalGraph:
        return inject(graph, self.targets(), self.config.p, self.scene.rng())

    def craft(self, task: TrainTask, update: Update) -> Update:
        return scaled(self.config, task, update)
