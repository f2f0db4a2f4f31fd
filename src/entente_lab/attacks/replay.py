"""The paper's attack: replayed malicious edges in the training graph, and a scaled update."""

from __future__ import annotations

from entente.federation.messages import TrainTask, Update
from entente.graphs.temporal import TemporalGraph
from entente_lab.attacks.base import Attacker, scaled
from entente_lab.attacks.poison import inject, poisoned_windows


class Replay(Attacker):
    name = "replay"
    summary = "train on replayed malicious edges (p), send gamma times the update (the paper's attack)"

    def poison(self, graph: TemporalGraph) -> TemporalGraph:
        return inject(graph, self.targets(), self.config.p, self.scene.rng())

    @property
    def poisoned_windows(self) -> int:
        return int(poisoned_windows(self.scene.graph, self.config.p, self.scene.rng()).sum())

    def craft(self, task: TrainTask, update: Update) -> Update:
        return scaled(self.config, task, update)
