"""Spends the whole norm bound on the few hosts that matter."""

from __future__ import annotations

import numpy as np

from entente.artifacts import Arrays
from entente_lab.attacks.adaptive import Adaptive


class TargetedRows(Adaptive):
    name = "targeted-rows"
    summary = "adaptive, but only the identity rows of the malicious hosts move, all the further"

    def chosen(self, step: Arrays) -> Arrays:
        pairs = self.targets()
        rows = np.unique(self.scene.future.rows[np.union1d(pairs.src, pairs.dst)])
        tables = self.scene.detector.identity_tables
        if not tables or not len(rows):
            return step
        found = {name: np.zeros_like(array) for name, array in step.items()}
        for name in tables:
            found[name][rows] = step[name][rows]
        return found
