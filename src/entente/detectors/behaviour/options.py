"""The behaviour detector's settings."""

from __future__ import annotations

from pydantic import Field, model_validator

from entente.config import DetectorOptions

BASE_HIDDEN = 64
"""Width of the base model's first hidden layer."""


class BehaviourOptions(DetectorOptions):
    """Small network over a silo's own counts."""

    name: str = "behaviour"
    hidden: int = Field(default=64, ge=2)
    """Width of the first hidden layer; the second has half of it. The base model has 64."""
    replicas: int = Field(default=12, ge=1)
    """Copies of the training history with injected campaigns to learn from."""
    accounts: bool = True
    """Look at accounts, outcomes and log-on types where the log has them. Switch it off for a log whose
    accounts were filled in from its hosts."""
    base: bool = True
    """Begin with the base model, which many simulated networks made, and keep every score near its own.
    Without it weights are drawn from the seed, and what is trained alone decides."""
    lr: float = Field(default=0.001, gt=0)
    """Adam's rate."""
    batch: int = Field(default=512, ge=1)
    """Examples per step."""

    @model_validator(mode="after")
    def _fits_the_base_model(self) -> BehaviourOptions:
        if self.base and self.hidden != BASE_HIDDEN:
            raise ValueError(f"hidden must be {BASE_HIDDEN} with the base model; set base = false")
        return self
