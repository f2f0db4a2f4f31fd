"""Entente with every switch."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from entente.federation.aggregators.base import SketchSettings
from entente.federation.aggregators.entente import Entente, EntenteOptions, EntenteSettings

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
    labels: Literal["degree", "log-degree"] = "log-degree"
    """First labels of the Weisfeiler–Lehman sketch."""
    iterations: int = Field(default=3, ge=0)
    """Weisfeiler–Lehman iterations."""

    def settings(self) -> EntenteSettings:
        given: dict[str, Any] = self.model_dump(exclude={"rule", "sketch", *SKETCH})
        sketch = SketchSettings(self.m, self.labels, self.iterations) if self.sketch else None
        return EntenteSettings(**given, sketch=sketch)


class LabEntente(Entente):
    name = "lab-entente"
    summary = "Entente with every switch (lab)."
    Options = LabEntenteOptions
