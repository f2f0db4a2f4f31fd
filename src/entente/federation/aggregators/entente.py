"""Entente: contributions scaled by ACS, updates held by a norm bound.

    r^k     = c1 * J^k + c2 * S^k * D^k
    NB(D)   = D / max(1, |D| / M)
    w_{i+1} = w_i + (1/K) * sum over k of r^k * NB(w^k - w_i)

S^k = max(0, cos(w^k, w_i)) and D^k = min(omega, |w^k - w_i|) are computed here from the weights, never
taken from a silo. K is the number of updates accepted in the round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays
from entente.config import Aggregation
from entente.federation.aggregators.base import Aggregator, Contribution, Credit, Layout, Vector
from entente.federation.aggregators.streaming import Float64, Summation, moved, pieces

REMEMBERED_ROUNDS = 5


class Entente(Aggregator):
    name = "entente"
    summary = "Adaptive contribution scaling within a norm bound (the paper's rule)."
    needs_similarity = True
    bounded = True

    def __init__(self, config: Aggregation, layout: Layout) -> None:
        super().__init__(config, layout)
        parts = tuple(layout.component_spans().values())
        self._groups = parts if config.scope == "component" else ((slice(0, layout.size),),)
        self._recent: Float64 = np.empty((0, len(self._groups)))  # median norms of the last rounds

    @property
    def largest_contribution(self) -> float:
        """No r exceeds this, whatever a silo sends."""
        return self.config.c1 + self.config.c2 * (self.config.omega if self.config.acs else 1.0)

    def begin(self, current: Vector) -> None:
        self._sum = Summation(current, self._groups)
        self._bounds = self._round_bounds()
        self._norms: list[tuple[float, ...]] = []
        self._holders = {
            name: np.zeros(self.layout.shapes[self.layout.names.index(name)][0], dtype=np.int32)
            for name in self.layout.tables
            if self.config.rows == "holders"
        }

    def add(self, contribution: Contribution) -> Credit:
        geometry = self._sum.measure(contribution.vector)
        similarity = min(1.0, max(0.0, contribution.similarity)) if self.config.sketch else 1.0
        cosine, distance = max(0.0, geometry.cosine), min(self.config.omega, geometry.norm)
        scaling = cosine * distance if self.config.acs else 1.0
        r = self.config.c1 * similarity + self.config.c2 * scaling
        shrink = [
            min(1.0, bound / norm) if norm > 0 else 1.0
            for bound, norm in zip(self._bounds, geometry.norms, strict=True)
        ]
        self._sum.add(contribution.vector, [r * factor for factor in shrink])
        self._norms.append(geometry.norms)
        self._count_holders(contribution.vector)
        return Credit(similarity, cosine, distance, r, geometry.norm, clipped=min(shrink) < 1.0)

    def finish(self) -> Vector:
        if not self._norms:
            return self._sum.current.copy()
        mean = self.config.reduction == "mean"
        step = self._sum.step(len(self._norms) if mean else 1.0)
        if self._holders and mean:
            self._average_over_holders(step)
        medians = np.median(np.array(self._norms), axis=0)
        self._recent = np.concatenate((self._recent, medians[None]))[-REMEMBERED_ROUNDS:]
        return moved(self._sum.current, step)

    # ---- the bound -------------------------------------------------------------------------

    @property
    def bound(self) -> float | None:
        return math.hypot(*self._round_bounds()) if self.bounded else None

    def _round_bounds(self) -> list[float]:
        """M per group: the constant, or less where recent norms say that less is enough."""
        if not self.bounded:
            return [math.inf] * len(self._groups)
        constant = float(self.config.bound)
        if not self.config.adaptive or not len(self._recent):
            return [constant] * len(self._groups)
        typical = self.config.adaptive_factor * np.median(self._recent, axis=0)
        return [min(constant, float(value)) if value > 0 else constant for value in typical]

    def influence(self, silos: int, clip: float | None) -> float | None:
        if self.config.adaptive:
            return None  # M then depends on every silo's earlier norms
        constant = float(self.config.bound) * math.sqrt(len(self._groups)) if self.bounded else math.inf
        mean = self.config.reduction == "mean"
        if mean and self.config.rows == "holders":
            # A silo may hold rows alone, so only the ball that the whole step is cut to is certain.
            return 2.0 * self.largest_contribution * constant if self.bounded else None
        longest = self.largest_contribution * min(constant, math.inf if clip is None else clip)
        return 2.0 * longest / (silos if mean else 1) if math.isfinite(longest) else None

    # ---- rows = "holders" ------------------------------------------------------------------

    def _count_holders(self, vector: Vector) -> None:
        """A silo holds an identity row if its training moved it."""
        spans = self.layout.spans()
        for name, holders in self._holders.items():
            width = self.layout.sizes[self.layout.names.index(name)] // max(1, len(holders))
            for piece in pieces(slice(0, len(holders))):
                part = slice(spans[name].start + piece.start * width, spans[name].start + piece.stop * width)
                held = vector[part] != self._sum.current[part]
                holders[piece] += held.reshape(-1, width).any(axis=1)

    def _average_over_holders(self, step: Float64) -> None:
        """Divide each identity row by its holders instead of K, and keep the step inside the same bound."""
        spans = self.layout.spans()
        for name, holders in self._holders.items():
            rows = step[spans[name]].reshape(len(holders), -1)
            rows *= (len(self._norms) / np.maximum(holders, 1))[:, None]
        for bound, group in zip(self._bounds, self._groups, strict=True):
            length = math.sqrt(sum(float(np.add.reduce(step[span] ** 2)) for span in group))
            allowed = self.largest_contribution * bound
            if length > allowed:
                for span in group:
                    step[span] *= allowed / length

    def state(self) -> Arrays:
        return {"norms": self._recent.copy()} if len(self._recent) else {}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        if "norms" in state:
            self._recent = np.array(state["norms"], dtype=np.float64)
