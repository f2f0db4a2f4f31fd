"""What an attack may be told."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from entente.config import Section, read_toml, validation_problems
from entente.errors import ConfigError


class Attack(Section):
    """Silos that cheat, for the attack lab."""

    name: str
    """See `entente attacks`."""
    silos: tuple[str, ...]
    """Which silos cheat."""
    from_round: int = Field(default=1, ge=1)
    """First round in which they do."""
    p: float = Field(default=1.0, ge=0, le=1)
    """Probability that a training snapshot is poisoned."""
    gamma: float = Field(default=1.0)
    """Factor on the update."""
    scaling: Literal["update", "weights"] = "update"
    """gamma scales w - w_i (update) or w itself (weights)."""
    strength: float = Field(default=1.0)
    """Attack-specific strength; see `entente attacks`."""


def load_attack(path: Path) -> Attack:
    """Read an attack file (TOML)."""
    try:
        return Attack.model_validate(read_toml(path))
    except ValidationError as error:
        raise ConfigError(validation_problems(error), where=path) from error
