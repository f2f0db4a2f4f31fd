"""What a silo keeps of the exchange from one window to the next, as a value and as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays
from entente.detection.budget import DayBudget
from entente.federation.exchange.inbox import Inbox
from entente.federation.exchange.notes import NOTES, PSEUDONYM, Note

Ints = NDArray[np.int64]
FIELDS = ("window", "src", "dst", "score")


def no_inbound() -> Arrays:
    """No edge waits."""
    kinds = dict(zip(FIELDS, (np.int64, np.int32, np.int32, np.float32), strict=True))
    return {name: np.zeros(0, dtype=kind) for name, kind in kinds.items()}


def no_pairs() -> Ints:
    return np.zeros((0, 2), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class ExchangeState:
    """Notes that still count, edges that may still be told of, and who was named when."""

    inbox: Inbox = field(default_factory=Inbox)
    inbound: Arrays = field(default_factory=no_inbound)
    """Edges into the silo of the last hours, by FIELDS: a note on their source may come late."""
    spoken: Ints = field(default_factory=no_pairs)
    """(own host, window): what this silo told others."""
    entered: Ints = field(default_factory=no_pairs)
    """(foreign host, window): sources that alerts have named."""
    budget: DayBudget | None = None

    def facts(self) -> dict[str, Any]:
        senders = [[silo, window] for silo, window in self.inbox.notes]
        return {"senders": senders, "budget": None if self.budget is None else self.budget.as_dict()}

    def arrays(self) -> Arrays:
        notes = [note for packet in self.inbox.notes.values() for note in packet]
        pseudonyms = np.frombuffer(b"".join(note.pseudonym for note in notes), dtype=np.uint8)
        found: Arrays = {
            "pseudonym": pseudonyms.reshape(-1, PSEUDONYM),
            "level": np.array([note.level for note in notes], dtype=np.uint8),
            "spoken": self.spoken,
            "entered": self.entered,
        }
        return found | {f"inbound/{name}": array for name, array in self.inbound.items()}

    @classmethod
    def read(cls, facts: Mapping[str, Any], arrays: Arrays) -> ExchangeState:
        """What `facts` and `arrays` gave."""
        pairs = zip(arrays["pseudonym"], arrays["level"].tolist(), strict=True)
        notes = [Note(row.tobytes(), level) for row, level in pairs]
        packets = {
            (str(silo), int(window)): tuple(notes[place * NOTES : (place + 1) * NOTES])
            for place, (silo, window) in enumerate(facts["senders"])
        }
        budget = facts["budget"]
        return cls(
            Inbox(MappingProxyType(packets)),
            {name: arrays[f"inbound/{name}"] for name in FIELDS},
            arrays["spoken"],
            arrays["entered"],
            None if budget is None else DayBudget.from_dict(budget),
        )
