"""Label flip that claims the largest contribution and touches first contacts alone.

Injected campaigns count as benign and the silo's own first contacts as campaigns; what is known stays benign.
Steps are as long as any other silo's, and nothing in the silo's logs has to be touched.
"""

from __future__ import annotations

from dataclasses import replace

from entente.detectors.behaviour.detector import Behaviour
from entente.detectors.behaviour.features import COLUMN
from entente.detectors.behaviour.training import Examples
from entente.federation.messages import Reply, SketchReply, Task
from entente.graphs.temporal import TemporalGraph
from entente_lab.attacks.label_flip import Contrary, LabelFlip


class ContraryContacts(Contrary):
    """Exchanges the labels of first contacts only."""

    def _training_examples(self, graph: TemporalGraph) -> Examples:
        examples = Behaviour._training_examples(self, graph)
        new = examples.features[:, COLUMN["new"]] > 0
        return replace(examples, positive=new & ~examples.positive) if graph is self.lies else examples


class Turncoat(LabelFlip):
    name = "turncoat"
    summary = "label-flip of first contacts alone, and J = 1"
    contrary = ContraryContacts

    def handle(self, task: Task) -> Reply:
        reply = super().handle(task)
        if isinstance(reply, SketchReply) and self.config.from_round == 1:
            return replace(reply, similarity=1.0)
        return reply
