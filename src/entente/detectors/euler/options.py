"""Euler's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from entente.config import DetectorOptions


@dataclass(frozen=True, slots=True)
class EulerSettings:
    """Every setting of the model. Users set some of them (`EulerOptions`), the lab all."""

    encoder: str
    hidden: int
    embedding: int
    lr: float
    identities: str
    temporal: str = "gru"
    """Recurrent layer over each host's snapshots: gru, lstm or none."""
    decoder: str = "mlp"
    """The paper's inner product has no weights to send but cannot tell a → b from b → a; mlp can."""
    task: str = "prediction"
    """Score an edge from its own window (detection, as in the paper) or from the one before it."""
    dropout: float = 0.25
    """Share of units dropped after each graph layer in training."""
    edge_dropout: float = 0.0
    """Share of each window's edges hidden from the encoder, drawn anew each epoch (published code: 0.8)."""
    weight_decay: float = 0.0
    """Adam's weight decay."""
    validation_edges: float = 0.05
    """Share of each training window's edges held out to validate a round."""
    negatives: int = 1
    """Sampled non-edges per edge."""
    advance: str = "visits"
    """When a host's state moves on: in windows in which it has an edge, or in all windows (published)."""


class EulerOptions(DetectorOptions):
    """GCN + GRU over snapshots."""

    moved: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (
            *("temporal", "decoder", "task", "dropout", "edge_dropout", "weight_decay"),
            *("validation_edges", "negatives", "advance"),
        ),
        'moved to the lab: an option of name = "lab-euler".',
    )

    name: str = "euler"
    encoder: Literal["gcn", "sage", "gat"] = "gcn"
    """Graph layer, used twice."""
    hidden: int = Field(default=32, ge=1)
    """Width of both graph layers and of the recurrent layer."""
    embedding: int = Field(default=16, ge=1)
    """Width of the final projection."""
    lr: float = Field(default=0.03, gt=0)
    """Adam's rate (paper: 0.01 LANL, 0.005 OpTC)."""
    identities: Literal["trained", "local", "fixed"] = "trained"
    """A host's row: trained and sent, trained and kept in the silo, or a random unit vector for everybody."""

    batch_edges: int | None = Field(default=None, ge=1000)
    """Edges trained on at once, about 2 GB of memory per million; all where unset."""
    device: Literal["auto", "cpu", "cuda"] = "cpu"
    """Where it computes; auto = a GPU where there is one. Another device rounds differently: other bits."""

    def settings(self) -> EulerSettings:
        """The model's settings, those that cannot be set included."""
        return EulerSettings(**self.model_dump(exclude={"name", "device", "batch_edges"}))
