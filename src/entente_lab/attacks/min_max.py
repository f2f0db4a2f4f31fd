"""Go as far from the honest mean as the honest updates' own distances allow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from entente.federation.messages import TrainTask, Update
from entente_lab.attacks.base import Attacker, sent, unflat

Vectors = NDArray[np.float64]
HALVINGS = 40


class MinMax(Attacker):
    name = "min-max"
    summary = "furthest point whose largest distance to an honest update is no larger than theirs"

    def craft(self, task: TrainTask, update: Update) -> Update:
        return sent(task, update, unflat(self.furthest(self.estimate(task, update)), task.weights))

    def furthest(self, seen: Vectors) -> Vectors:
        """The mean, moved against itself until `spread` would exceed that of the worst honest update."""
        mean: Vectors = seen.mean(axis=0)
        length = float(np.linalg.norm(mean))
        if length == 0:
            return mean
        direction = -mean / length
        limit = max(self.spread(point, seen) for point in seen)
        low, high = 0.0, 2.0 * float(np.linalg.norm(seen, axis=1).sum())
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            inside = self.spread(mean + middle * direction, seen) <= limit
            low, high = (middle, high) if inside else (low, middle)
        point: Vectors = mean + low * direction
        return point

    def spread(self, point: Vectors, seen: Vectors) -> float:
        return float(np.linalg.norm(seen - point, axis=1).max())


class MinSum(MinMax):
    name = "min-sum"
    summary = "furthest point whose summed squared distance to honest updates is no larger than theirs"

    def spread(self, point: Vectors, seen: Vectors) -> float:
        return float(((seen - point) ** 2).sum())
