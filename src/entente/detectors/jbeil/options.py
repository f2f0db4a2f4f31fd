"""Jbeil's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from entente.config import DetectorOptions


@dataclass(frozen=True, slots=True)
class JbeilSettings:
    """Every setting of the model. Users set some of them (`JbeilOptions`), the lab all."""

    memory: int
    embedding: int
    neighbours: int
    batch: int
    lr: float
    time: int = 100
    """Width of the time encoding."""
    layers: int = 2
    """Attention layers, hence hops."""
    heads: int = 2
    """Attention heads."""
    dropout: float = 0.1
    """Share of units dropped in training."""
    validation_events: float = 0.15
    """Share of the training events, the last ones, that validate a round."""
    hidden_hosts: float = 0.0
    """Share of hosts hidden from training (inductive: 0.3); the same hosts in every silo."""


class JbeilOptions(DetectorOptions):
    """TGN over single events."""

    moved: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("time", "layers", "heads", "dropout", "validation_events", "hidden_hosts"),
        'moved to the lab: an option of name = "lab-jbeil".',
    )

    name: str = "jbeil"
    memory: int = Field(default=100, ge=1)
    """Width of a host's memory."""
    embedding: int = Field(default=100, ge=1)
    """Width of a host's embedding."""
    neighbours: int = Field(default=10, ge=1)
    """Most recent neighbours that attention looks at."""
    batch: int = Field(default=200, ge=1)
    """Events per batch."""
    lr: float = Field(default=0.003, gt=0)
    """Adam's rate (paper: 0.003 on Pivoting, 0.01 on LANL)."""

    device: Literal["auto", "cpu", "cuda"] = "cpu"
    """Where it computes; auto = a GPU where there is one. Another device rounds differently: other bits."""

    def settings(self) -> JbeilSettings:
        """The model's settings, those that cannot be set included."""
        return JbeilSettings(**self.model_dump(exclude={"name", "device"}))
