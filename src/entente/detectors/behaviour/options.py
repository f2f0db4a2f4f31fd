"""The behaviour detector's settings."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from entente.config import DetectorOptions


class BehaviourOptions(DetectorOptions):
    """Small network over a silo's own counts."""

    name: str = "behaviour"
    hidden: int = Field(default=32, ge=2)
    """Width of the first hidden layer; the second has half of it."""
    replicas: int = Field(default=30, ge=1)
    """Copies of the training history with injected campaigns to learn from."""
    accounts: bool = True
    """Look at accounts, outcomes and log-on types where the log has them. Switch it off for a log whose
    accounts were filled in from its hosts."""
    start: Literal["random", "base"] = "random"
    """Weights before the first round: drawn from the seed, or the base model, which many simulated companies
    made and which needs `hidden = 32`."""
    lr: float = Field(default=0.003, gt=0)
    """Adam's rate."""
    batch: int = Field(default=512, ge=1)
    """Examples per step."""
