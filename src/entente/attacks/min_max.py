"""Go as far from the honest mean as the honest updates' own distances allow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from entente.attacks.base import Attacker, difference, flat, moved, unflat
from entente.federation.messages import TrainTask, Update

Vectors = NDArray[np.float64]


class MinMax(Attacker):
    name = "min-max"
    summary = "furthest point whose largest distance to an honest update is no larger than theirs"

    def craft(self, task: TrainTask, update: Update) -> Update:
        own = difference(update.weights, task.weights)
        seen = np.stack([flat(own), *(flat(s) for s in self.shadows(task, 2))])
        mean = seen.mean(axis=0)
        direction = -mean / max(float(np.linalg.norm(mean)), 1e-12)
        low, high = 0.0, 2.0 * float(np.linalg.norm(seen, axis=1).max()) + 1.0
        limit = max(self.spread(point, seen) for point in seen)
        for _ in range(30):
            middle = (low + high) / 2
            inside = self.spread(mean + middle * direction, seen) <= limit
            low, high = (middle, high) if inside else (low, middle)
        return replace(update, weights=moved(task.weights, unflat(mean + low * direction, own)))

    def spread(self, point: Vectors, seen: Vectors) -> float:
        return float(np.linalg.norm(seen - point, axis=1).max())


class MinSum(MinMax):
    name = "min-sum"
    summary = "furthest point whose summed squared distance to honest updates is no larger than theirs"

    def spread(self, point: Vectors, seen: Vectors) -> float:
        return float(((seen - point) ** 2).sum())
