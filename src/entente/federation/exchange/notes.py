"""Notes and packets: how many, how coarse, how long they count."""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from entente.errors import RefusedError

NOTES = 16
"""In every packet: real ones as far as there are any, the others on nobody."""
PSEUDONYM = 16
"""Bytes."""
STEP = math.log(10.0)
LEVELS = 3
"""A host stands out by ten, a hundred or a thousand times its usual odds; nothing finer is said."""
LASTS = 86_400_000_000
"""Microseconds after which a note counts for nothing; until then it fades."""
LATE = 2 * 3_600_000_000
"""Microseconds for which an edge waits for a note on its source."""
SEALED = 12 + NOTES * (PSEUDONYM + 1) + 16
"""Bytes of a packet's content: nonce, notes, tag."""
SILO = re.compile(r"[^\x00-\x1f\x7f]{1,100}")
LATEST = 1 << 62


@dataclass(frozen=True, slots=True)
class Note:
    """One host, by its pseudonym of the day, and how far it stands out."""

    pseudonym: bytes
    level: int

    @property
    def odds(self) -> float:
        """Log odds above what is usual for the host, rounded down."""
        return self.level * STEP


@dataclass(frozen=True, slots=True)
class Packet:
    """What one silo says after one window; the notes are sealed, and the rest is bound to them."""

    silo: str
    window: int  # start, microseconds
    width: int
    sealed: bytes

    def as_dict(self) -> dict[str, Any]:
        return {"silo": self.silo, "window": self.window, "width": self.width, "sealed": self.sealed.hex()}

    @classmethod
    def from_dict(cls, given: Any) -> Packet:
        """What `as_dict` gave; RefusedError for anything else."""
        if not isinstance(given, Mapping) or set(given) != {"silo", "window", "width", "sealed"}:
            raise RefusedError("is not a packet of the exchange")
        silo, sealed = given["silo"], given["sealed"]
        if not isinstance(silo, str) or not SILO.fullmatch(silo):
            raise RefusedError("is a packet without a silo's name")
        for name in ("window", "width"):
            value = given[name]
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < LATEST:
                raise RefusedError(f"is a packet whose {name} is no time")
        if not isinstance(sealed, str) or not re.fullmatch(rf"[0-9a-f]{{{2 * SEALED}}}", sealed):
            raise RefusedError("is a packet of another size")
        return cls(silo, given["window"], given["width"], bytes.fromhex(sealed))


def level_of(above: float) -> int:
    """The level of a host that stands out by these log odds."""
    return min(LEVELS, max(1, math.floor(above / STEP + 1e-9)))


def filled(notes: Iterable[Note]) -> tuple[Note, ...]:
    """The first NOTES notes, and as many on nobody as are missing: whoever reads them cannot tell which."""
    found = list(notes)[:NOTES]
    while len(found) < NOTES:
        found.append(Note(secrets.token_bytes(PSEUDONYM), 1 + secrets.randbelow(LEVELS)))
    secrets.SystemRandom().shuffle(found)
    return tuple(found)
