"""What a silo remembers after its last window, as a value and as a sealed directory."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from entente.artifacts import Arrays, check_sealed, encode_bundle, read_bundle, sealed_directory
from entente.detection.budget import DayBudget
from entente.detection.history import Edges
from entente.detection.thresholds import Calibration
from entente.errors import StorageError
from entente.graphs.hosts import HostTable
from entente.runs.exchange import ExchangeState

VERSION = 1
STATE, HOSTS = "state.safetensors", "hosts.parquet"
HISTORY = ("history/window", "history/src", "history/dst")
DETECTOR, EXCHANGE = "detector/", "exchange/"


def no_edges() -> Edges:
    """The history of a silo that has seen nothing yet."""
    return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class SiloState:
    """Enough for `detect` to go on from the last window that was scored."""

    until: int
    """End of that window, microseconds."""
    hosts: HostTable
    detector: Arrays | None = None
    """The detector's temporal state; None before the first window."""
    history: Edges = field(default_factory=no_edges)
    """The edges seen last, with which alerts explain themselves."""
    calibration: Calibration | None = None
    """How benign validation edges scored; None where nothing was validated."""
    budget: DayBudget | None = None
    """What the last day has left of `detection.alerts_per_day`, where that is set."""
    model: str | None = None
    """The model that scored the last window."""
    exchange: ExchangeState | None = None
    """What the silo was told and has said, where the federation exchanges it."""

    def store(self, path: Path) -> None:
        """Replace the directory `path`, whole or not at all."""
        calibration = None if self.calibration is None else self.calibration.as_dict()
        budget = None if self.budget is None else self.budget.as_dict()
        facts: dict[str, Any] = {"version": VERSION, "until": self.until, "model": self.model}
        facts |= {"calibration": calibration, "budget": budget}
        arrays = {f"{DETECTOR}{name}": array for name, array in (self.detector or {}).items()}
        if self.exchange is not None:
            facts["exchange"] = self.exchange.facts()
            arrays |= {f"{EXCHANGE}{name}": array for name, array in self.exchange.arrays().items()}
        arrays |= dict(zip(HISTORY, self.history, strict=True))
        with sealed_directory(path) as folder:
            (folder / STATE).write_bytes(encode_bundle(facts, arrays))
            parquet.write_table(self.hosts.to_arrow(), folder / HOSTS)

    @classmethod
    def load(cls, path: Path) -> SiloState:
        """StorageError if the directory is damaged or of another version."""
        check_sealed(path)
        facts, arrays = read_bundle(path / STATE)
        if facts.get("version") != VERSION or not (path / HOSTS).is_file():
            raise StorageError(
                "is a state of another version of entente",
                where=path,
                remedy="Train again with this version, and begin with a new --state folder.",
            )
        try:
            return cls._of(facts, arrays, parquet.read_table(path / HOSTS))
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
            OSError,
            pa.ArrowException,
        ) as error:
            raise StorageError(f"is not a silo's state ({error!r})", where=path) from error

    @classmethod
    def _of(cls, facts: dict[str, Any], arrays: Arrays, hosts: pa.Table) -> SiloState:
        calibration, budget, said = facts["calibration"], facts["budget"], facts.get("exchange")
        window, src, dst = (arrays[name] for name in HISTORY)
        return cls(
            until=int(facts["until"]),
            hosts=HostTable.from_arrow(hosts),
            detector=_under(DETECTOR, arrays),
            history=(window, src, dst),
            calibration=None if calibration is None else Calibration.from_dict(calibration),
            budget=None if budget is None else DayBudget.from_dict(budget),
            model=facts.get("model"),
            exchange=None if said is None else ExchangeState.read(said, _under(EXCHANGE, arrays)),
        )


def _under(prefix: str, arrays: Arrays) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
