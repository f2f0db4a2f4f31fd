"""What the files of a run folder hold, as versioned values. `RunFolder` reads and writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from pydantic import Field, ValidationError

from entente.artifacts import checksum, read_json, write_json
from entente.detection.metrics import Metrics
from entente.detectors.base import GraphShape
from entente.errors import StorageError
from entente.federation.records import PrivacyRecord, Record
from entente.graphs.identity import Collisions

Kind = TypeVar("Kind", bound=Record)
OTHER_VERSION = "Read it with the version of entente that wrote it, or make the run again."


class StoredRecord(Record):
    """A record in a file of its own: JSON with its version and a checksum of the rest."""

    VERSION: ClassVar[int]

    def store(self, path: Path) -> None:
        table = self.to_json() | {"version": self.VERSION}
        write_json(path, table | {"sha256": checksum(table)})

    @classmethod
    def load(cls, path: Path) -> Self:
        """StorageError if the file is of another version, incomplete, or changed since it was written."""
        table = read_json(path)
        if not isinstance(table, dict):
            raise StorageError("is not a JSON object", where=path)
        version, recorded = table.pop("version", None), table.pop("sha256", None)
        if version != cls.VERSION:
            said = "no version" if version is None else f"version {version!r}"
            raise StorageError(
                f"has {said}, this version of entente reads {cls.VERSION}", where=path, remedy=OTHER_VERSION
            )
        if recorded != checksum(table | {"version": version}):
            raise StorageError("was changed or damaged: its checksum is not the recorded one", where=path)
        return parse(cls, table, path)

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


class RunRecord(StoredRecord):
    """run.json: what a run began with, so that it goes on with nothing else."""

    VERSION = 1

    events: str | None
    """Fingerprint of the event directory; None where the coordinator has none."""
    silos: str | None
    """Fingerprint of the table host,silo."""


class TrainingRecord(Record):
    """How training ended: for all silos together, or for one that trained alone."""

    stopped: str | None
    best_round: int | None = None
    rounds: int | None = None
    privacy: PrivacyRecord | None = None


class ModelCard(StoredRecord):
    """model.json: what is needed to load model.safetensors and to score with it.

    `models` names the silos that have a model of their own; "" is one model for all. `training` has the same
    keys. A coordinator's card has no thresholds: each silo learns its own.
    """

    VERSION = 1

    detector: str
    shape: GraphShape
    models: tuple[str, ...] = ()
    training: dict[str, TrainingRecord]
    thresholds: dict[str, float] = Field(default_factory=dict)
    collisions: dict[str, Collisions] = Field(default_factory=dict)
    stand_ins: dict[str, str] = Field(default_factory=dict)
    """Silo -> what played it instead of the silo itself, for instance the attack lab."""
    weights_sha256: str = ""

    @property
    def best_round(self) -> int | None:
        """The best round of the one model for all; None where silos trained alone."""
        return self.training[""].best_round if "" in self.training else None

    @property
    def privacy(self) -> PrivacyRecord | None:
        return self.training[""].privacy if "" in self.training else None


class RunMetrics(StoredRecord):
    """metrics.json: the figures of the test windows."""

    VERSION = 1

    overall: Metrics
    per_silo: dict[str, Metrics]
    baselines: dict[str, Metrics] = Field(default_factory=dict)
    short_history: dict[str, int] = Field(default_factory=dict)
    """Silo -> test windows that a baseline scored, since the history before them was too short."""


def parse(cls: type[Kind], table: Any, where: Path, line: int | None = None) -> Kind:
    """A record from JSON; StorageError with the fields that are wrong."""
    try:
        return cls.model_validate(table)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in e['loc']) or 'record'}: {e['msg']}" for e in error.errors()[:3]
        )
        raise StorageError(
            f"is not a record that this version of entente reads ({problems})",
            where=where,
            line=line,
            remedy=OTHER_VERSION,
        ) from error
