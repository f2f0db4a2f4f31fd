"""Euler's settings."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from entente.config import DetectorOptions


class EulerOptions(DetectorOptions):
    """GCN + GRU over snapshots."""

    name: str = "euler"
    encoder: Literal["gcn", "sage", "gat"] = "gcn"
    """Graph layer, used twice."""
    temporal: Literal["gru", "lstm", "none"] = "gru"
    """Recurrent layer over each host's snapshots."""
    decoder: Literal["inner", "mlp"] = "mlp"
    """The paper's inner product has no weights to send but cannot tell a → b from b → a; mlp can."""
    task: Literal["detection", "prediction"] = "prediction"
    """Score an edge from its own window (detection, as in the paper) or from the one before it."""
    hidden: int = Field(default=32, ge=1)
    """Width of both graph layers and of the recurrent layer."""
    embedding: int = Field(default=16, ge=1)
    """Width of the final projection."""
    dropout: float = Field(default=0.25, ge=0, lt=1)
    """Share of units dropped after each graph layer in training."""
    edge_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Share of each window's edges hidden from the encoder, drawn anew each epoch (published code: 0.8)."""
    lr: float = Field(default=0.03, gt=0)
    """Adam's rate (paper: 0.01 LANL, 0.005 OpTC)."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Adam's weight decay."""
    validation_edges: float = Field(default=0.05, gt=0, lt=1)
    """Share of each training window's edges held out to validate a round."""
    negatives: int = Field(default=1, ge=1)
    """Sampled non-edges per edge."""
    identities: Literal["trained", "fixed"] = "trained"
    """A host's row: trained and sent, or a random unit vector, the same in every silo."""
    advance: Literal["visits", "windows"] = "visits"
    """When a host's state moves on: in windows in which it has an edge, or in all windows (published)."""
