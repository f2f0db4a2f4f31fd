"""Euler with every switch."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from entente.config import DetectorOptions
from entente.detectors.euler.detector import Euler
from entente.detectors.euler.options import EulerOptions


class LabEulerOptions(EulerOptions):
    """Settings of lab-euler."""

    moved: ClassVar[dict[str, str]] = {}

    name: str = "lab-euler"
    temporal: Literal["gru", "lstm", "none"] = "gru"
    """Recurrent layer over each host's snapshots."""
    decoder: Literal["inner", "mlp"] = "mlp"
    """The paper's inner product has no weights to send but cannot tell a → b from b → a; mlp can."""
    task: Literal["detection", "prediction"] = "prediction"
    """Score an edge from its own window (detection, as in the paper) or from the one before it."""
    dropout: float = Field(default=0.25, ge=0, lt=1)
    """Share of units dropped after each graph layer in training."""
    edge_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Share of each window's edges hidden from the encoder, drawn anew each epoch (published code: 0.8)."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Adam's weight decay."""
    validation_edges: float = Field(default=0.05, gt=0, lt=1)
    """Share of each training window's edges held out to validate a round."""
    negatives: int = Field(default=1, ge=1)
    """Sampled non-edges per edge."""
    advance: Literal["visits", "windows"] = "visits"
    """When a host's state moves on: in windows in which it has an edge, or in all windows (published)."""


class LabEuler(Euler):
    name: ClassVar[str] = "lab-euler"
    summary: ClassVar[str] = "Euler with every switch (lab)."
    Options: ClassVar[type[DetectorOptions]] = LabEulerOptions
