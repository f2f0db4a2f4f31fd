"""What the coordinator records of a round: one `RoundRecord` per line of rounds.jsonl."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A value that is stored as JSON; unknown or missing fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class RoundScore(Record):
    """How good a global model is on the silos' held-out edges, as they say; `silos` of them said so."""

    ap: float
    auc: float
    silos: int = 0


class SiloRecord(Record):
    """One silo in one round. A refused silo has only the reason; a validation has no contribution."""

    refused: str | None = None
    j: float | None = None
    s: float | None = None
    d: float | None = None
    r: float | None = None
    norm: float | None = None
    shared: float | None = None
    clipped: bool | None = None
    ap: float | None = None
    auc: float | None = None
    edges: int | None = None
    bytes_up: int | None = None
    bytes_down: int | None = None
    seconds: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {"refused": self.refused} | self.model_dump(exclude_none=True)


class Surplus(Record):
    """A reply that was refused beside an accepted one, or in a name that nobody has."""

    silo: str
    reason: str


class PrivacyRecord(Record):
    """What the noise of one release guarantees, together with all releases before it."""

    mechanism: str
    guarantee: str
    epsilon: float | None = None
    delta: float | None = None
    sigma: float | None = None
    randomness: str | None = None
    releases: int | None = None
    sensitivity: float | None = None
    deviation: float | None = None


class BootstrapRecord(Record):
    """What the coordinator learnt before the first round, and in words what did not stay secret."""

    hosts: int | None
    masked: bool
    similarity: dict[str, float]
    share: dict[str, float]
    notes: tuple[str, ...]


class RoundRecord(Record):
    """One round of training, or the last validation. `silo` is set where a silo trains alone."""

    kind: Literal["train", "validate"]
    id: int
    round: int
    attempt: int
    validation: RoundScore | None
    silos: dict[str, SiloRecord]
    surplus: tuple[Surplus, ...] = ()
    loss: float | None = None
    bound: float | None = None
    aggregated: bool | None = None
    warnings: tuple[str, ...] = ()
    privacy: PrivacyRecord | None = None
    bootstrap: BootstrapRecord | None = None
    silo: str = ""

    @property
    def trained(self) -> bool:
        return self.kind == "train"

    @property
    def accepted(self) -> dict[str, SiloRecord]:
        return {name: silo for name, silo in self.silos.items() if silo.refused is None}

    @property
    def refused(self) -> dict[str, str]:
        """Silo -> why its answer was not used."""
        return {name: silo.refused for name, silo in self.silos.items() if silo.refused is not None}

    def to_json(self) -> dict[str, Any]:
        """The object of rounds.jsonl."""
        optional = {"privacy", "bootstrap", "silo"} | (
            set() if self.trained else {"loss", "bound", "aggregated", "warnings"}
        )
        table = self.model_dump(mode="json", exclude=optional)
        table["silos"] = {name: silo.to_json() for name, silo in self.silos.items()}
        if self.aggregated:
            table["privacy"] = self.privacy.model_dump(exclude_none=True) if self.privacy else None
        if self.bootstrap is not None:
            table["bootstrap"] = self.bootstrap.model_dump(mode="json")
        if self.silo:
            table["silo"] = self.silo
        return table
