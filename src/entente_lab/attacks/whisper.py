"""Nothing about the update stands out: it is as long as a trained one, as a whole and in shared weights.

What a silo's own hosts would take of the length is spent on the rows of the malicious hosts instead.
"""

from __future__ import annotations

import math

from entente.artifacts import Arrays
from entente.federation.messages import TrainTask, Update
from entente_lab.attacks.base import difference, norm, sent, stretched
from entente_lab.attacks.targeted_rows import TargetedRows


class Whisper(TargetedRows):
    name = "whisper"
    summary = (
        "J = 1, trained on replayed edges; what its rows moved is spent on the malicious hosts' rows alone"
    )

    def craft(self, task: TrainTask, update: Update) -> Update:
        step = difference(update.weights, task.weights)
        return sent(task, update, self.whispered(step))

    def whispered(self, step: Arrays) -> Arrays:
        """The trained step with the length of its identity rows moved to those of the malicious hosts."""
        tables = self.scene.detector.identity_tables
        shared = {name: a for name, a in step.items() if name not in tables}
        left = (self.config.strength * norm(step)) ** 2 - norm(shared) ** 2
        rows = {name: a for name, a in self.chosen(step).items() if name in tables}
        return shared | stretched(rows, math.sqrt(max(0.0, left)))
