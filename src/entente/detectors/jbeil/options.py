"""Jbeil's settings."""

from __future__ import annotations

from pydantic import Field

from entente.config import DetectorOptions


class JbeilOptions(DetectorOptions):
    """TGN over single events."""

    name: str = "jbeil"
    memory: int = Field(default=100, ge=1)
    """Width of a host's memory."""
    time: int = Field(default=100, ge=1)
    """Width of the time encoding."""
    embedding: int = Field(default=100, ge=1)
    """Width of a host's embedding."""
    layers: int = Field(default=2, ge=1, le=3)
    """Attention layers, hence hops."""
    heads: int = Field(default=2, ge=1)
    """Attention heads."""
    neighbours: int = Field(default=10, ge=1)
    """Most recent neighbours that attention looks at."""
    batch: int = Field(default=200, ge=1)
    """Events per batch."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Share of units dropped in training."""
    lr: float = Field(default=0.003, gt=0)
    """Adam's rate (paper: 0.003 on Pivoting, 0.01 on LANL)."""
    validation_events: float = Field(default=0.15, gt=0, lt=1)
    """Share of the training events, the last ones, that validate a round."""
    hidden_hosts: float = Field(default=0.0, ge=0, lt=1)
    """Share of hosts hidden from training (inductive: 0.3); the same hosts in every silo."""
