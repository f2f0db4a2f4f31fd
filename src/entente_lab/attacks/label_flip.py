"""Teach the opposite: train on one's own examples with the labels exchanged."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from entente.detectors.behaviour.detector import Behaviour
from entente.detectors.behaviour.training import Examples
from entente.graphs.temporal import TemporalGraph
from entente_lab.attacks.base import Attacker, Scene
from entente_lab.attacks.options import Attack


class Contrary(Behaviour):
    """Of the history `lies`, it takes campaigns for everyday traffic and everyday traffic for campaigns."""

    lies: TemporalGraph | None = None

    def _training_examples(self, graph: TemporalGraph) -> Examples:
        examples = super()._training_examples(graph)
        return replace(examples, positive=~examples.positive) if graph is self.lies else examples


class LabelFlip(Attacker):
    """The behaviour detector has labels to exchange; others learn the edges of a shuffled graph."""

    name = "label-flip"
    summary = "train on exchanged labels (behaviour) or on edges whose targets are shuffled (other detectors)"
    contrary: ClassVar[type[Contrary]] = Contrary

    def __init__(self, config: Attack, scene: Scene) -> None:
        own = scene.detector
        if isinstance(own, Behaviour):
            scene = replace(scene, detector=self.contrary(own.config, own.shape, scene.seed))
        super().__init__(config, scene)
        if isinstance(scene.detector, Contrary):
            scene.detector.lies = self.poisoned

    def poison(self, graph: TemporalGraph) -> TemporalGraph:
        if isinstance(self.scene.detector, Behaviour):
            return replace(graph)  # the same edges under another name
        return replace(graph, dst=self.scene.rng().permutation(graph.dst), context=None)
