"""Entente with every switch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from entente.federation.aggregators.base import Contribution, Credit, SketchSettings, Vector
from entente.federation.aggregators.entente import Entente, EntenteOptions, EntenteSettings
from entente.federation.aggregators.streaming import moved

SKETCH = {"m", "labels", "iterations"}


class LabEntenteOptions(EntenteOptions):
    """Settings of lab-entente."""

    moved: ClassVar[dict[str, str]] = {}

    rule: str = "lab-entente"
    c1: float = Field(default=0.8, ge=0)
    """Weight of the sketch similarity J in a contribution r."""
    c2: float = Field(default=0.2, ge=0)
    """Weight of S * D in a contribution r."""
    omega: float = Field(default=5.0, gt=0)
    """Upper bound of the distance D."""
    adaptive_factor: float = Field(default=1.0, gt=0)
    """Adaptive M = this times the median over the last five rounds of the median norm over silos."""
    scope: Literal["model", "component", "tables"] = "model"
    """Bound the whole update; ENC, TEMP and DEC apart (the paper's Algorithm 4); or identity tables apart."""
    reduction: Literal["mean", "sum"] = "mean"
    """Divide the sum of contributions by K (the paper's equation) or not (its Algorithm 4)."""
    acs: bool = True
    """Adaptive contribution scaling; off = r is c1 * J + c2 throughout."""
    sketch: bool = True
    """Use the sketch similarity; off = J is 1 for every silo."""
    m: int = Field(default=5, ge=1)
    """Edges per new node of the Barabási–Albert reference graph."""
    labels: Literal["degree", "log-degree", "relative-degree"] = "log-degree"
    """First labels of the Weisfeiler–Lehman sketch."""
    iterations: int = Field(default=3, ge=0)
    """Weisfeiler–Lehman iterations."""

    similarity: Literal["plain", "relative"] = "plain"
    """J as it is, or over the median J of the round's silos and at most 1, so that J does not vanish in r."""
    normalised: bool = False
    """Divide the contributions of a round by their mean: they weigh silos and no longer shorten the step."""

    row_shrinkage: float = Field(default=0.0, ge=0, le=1)
    """With rows = "holders": how far a row's mean is drawn from its holders' back to that over all silos."""

    def settings(self) -> EntenteSettings:
        given: dict[str, Any] = self.model_dump(
            exclude={"rule", "sketch", "similarity", "normalised", "row_shrinkage", *SKETCH}
        )
        sketch = SketchSettings(self.m, self.labels, self.iterations) if self.sketch else None
        return EntenteSettings(**given, sketch=sketch)


class LabEntente(Entente):
    """A relative J needs the J of all: updates are held until the round's end, and the records have no r."""

    name = "lab-entente"
    summary = "Entente with every switch (lab)."
    Options = LabEntenteOptions
    config: LabEntenteOptions

    def begin(self, current: Vector) -> None:
        super().begin(current)
        self._held: list[Contribution] = []
        self._total = 0.0

    def add(self, contribution: Contribution) -> Credit:
        if self.config.similarity == "relative":
            self._held.append(replace(contribution, vector=contribution.vector.copy()))
            plain = self._sum.measure(contribution.vector)
            return Credit(contribution.similarity, max(0.0, plain.cosine), plain.norm, 0.0, plain.norm, False)
        return self._counted(contribution)

    def finish(self) -> Vector:
        middle = float(np.median([one.similarity for one in self._held])) if self._held else 0.0
        for one in self._held:
            relative = min(1.0, one.similarity / middle) if middle > 0 else 1.0
            self._counted(replace(one, similarity=relative))
        count, current = len(self._norms), self._sum.current
        found = super().finish()
        if not self.config.normalised or self._total <= 0:
            return found
        step = (found.astype(np.float64) - current) * (count / self._total)
        return moved(current, step)

    def _row_factors(self, holders: NDArray[np.int32]) -> NDArray[np.float64]:
        kept = 1.0 - self.config.row_shrinkage
        return 1.0 + kept * (super()._row_factors(holders) - 1.0)

    def influence(self, silos: int, clip: float | None) -> float | None:
        """A relative J and a mean over the round let one silo change what the others' updates count for."""
        changed = self.config.similarity == "relative" or self.config.normalised
        return None if changed else super().influence(silos, clip)

    def _counted(self, contribution: Contribution) -> Credit:
        credit = super().add(contribution)
        self._total += credit.r
        return credit
