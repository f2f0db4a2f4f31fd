"""Jbeil with every switch."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from entente.config import DetectorOptions
from entente.detectors.jbeil.detector import Jbeil
from entente.detectors.jbeil.options import JbeilOptions


class LabJbeilOptions(JbeilOptions):
    """Settings of lab-jbeil."""

    moved: ClassVar[dict[str, str]] = {}

    name: str = "lab-jbeil"
    time: int = Field(default=100, ge=1)
    """Width of the time encoding."""
    layers: int = Field(default=2, ge=1, le=3)
    """Attention layers, hence hops."""
    heads: int = Field(default=2, ge=1)
    """Attention heads."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Share of units dropped in training."""
    validation_events: float = Field(default=0.15, gt=0, lt=1)
    """Share of the training events, the last ones, that validate a round."""
    hidden_hosts: float = Field(default=0.0, ge=0, lt=1)
    """Share of hosts hidden from training (inductive: 0.3); the same hosts in every silo."""


class LabJbeil(Jbeil):
    name: ClassVar[str] = "lab-jbeil"
    summary: ClassVar[str] = "Jbeil with every switch (lab)."
    Options: ClassVar[type[DetectorOptions]] = LabJbeilOptions
