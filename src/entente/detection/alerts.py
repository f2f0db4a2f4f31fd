"""The alert: one edge of one window that a silo raised, with what an analyst needs to act on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Literal
from uuid import UUID, uuid5

from entente.detection.explanations import Severity
from entente.detection.roles import Role
from entente.errors import StorageError

NAMESPACE = UUID("0b6a2f1e-6a52-5d0b-9f0e-6d1c3c3b7a11")
"""All ids of alerts and incidents derive from this and their contents: the same alert, the same id."""

Direction = Literal["internal", "outbound", "inbound"]
"""Between own hosts of the silo, out of it, or into it."""
EVIDENCE = 5
"""Events that an alert shows."""


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """One event of an alert's edge, and where it stands."""

    time: int
    log: str | None = None  # file, topic or peer
    line: int | None = None  # in that log, from 1
    user: str | None = None
    kind: str | None = None
    port: int | None = None

    @property
    def place(self) -> str:
        """Log and line, as far as they are known."""
        return ":".join(str(part) for part in (self.log, self.line) if part is not None)


@dataclass(frozen=True, slots=True)
class Alert:
    """One edge of one window that a silo raised. Times are microseconds.

    Accounts, kinds and ports are the most frequent ones of the edge's events, where the log has them.

    >>> alert = entente.Alert(0, 1800, "pc-7", "dc-1", 0.9, 0.5, "high", "north", ("never seen before",))
    >>> alert.silos
    ('north',)
    >>> entente.Alert.from_dict(alert.as_dict()) == alert
    True
    """

    start: int  # of the window
    end: int
    src: str
    dst: str
    score: float
    threshold: float
    severity: Severity
    silo: str  # that raised it; of two, the one that owns the source
    explanation: tuple[str, ...]
    direction: Direction = "internal"
    also: tuple[str, ...] = ()  # other silos that raised the same edge
    first: int | None = None  # event of the edge in the window
    last: int | None = None
    events: int | None = None
    failures: int | None = None  # of the events; None where the log does not say
    users: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()  # in the log's own words
    logons: tuple[str, ...] = ()  # Windows logon types
    ports: tuple[int, ...] = ()
    service: str | None = None  # that is usual on the first of these ports
    technique: str | None = None  # ATT&CK id that the log's own words suggest; a hint, not a finding
    technique_reason: str | None = None
    rarity: int | None = None  # 1 in so many edges of the validation windows scores as high
    incident: str | None = None  # id of the incident that the alert belongs to
    source_role: Role | None = None  # None: the silo had not met the host before
    target_role: Role | None = None
    evidence: tuple[EvidenceRow, ...] = ()  # the edge's first events
    model: str | None = None  # that scored the edge
    model_before: str | None = None  # whose place that model took while the service ran
    elsewhere: tuple[str, ...] = ()  # what other silos let know of the two hosts
    link: str | None = None  # other silos' alerts about the same source have the same one
    raised: bool = True  # False: no alert, but an edge that belongs to the incident of others

    @property
    def id(self) -> str:
        """The same edge in the same window has the same id, whatever its score."""
        key = f"{self.start}\0{self.src}\0{self.dst}".encode("utf-8", errors="surrogatepass")
        return str(uuid5(NAMESPACE, key.hex()))

    @property
    def time(self) -> int:
        """Of the first event, or of the window's start where events are not known."""
        return self.start if self.first is None else self.first

    @property
    def until(self) -> int:
        """Time of the last event, or the window's end where events are not known."""
        return self.end if self.last is None else self.last

    @property
    def silos(self) -> tuple[str, ...]:
        """All silos that raised the edge."""
        return (self.silo, *self.also)

    def as_dict(self) -> dict[str, Any]:
        values = {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}
        return {"id": self.id, "time": self.time, **values}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Alert:
        """What `as_dict` gave; StorageError when a field is missing."""
        try:
            known: dict[str, Any] = {
                field.name: tuple(value) if isinstance(value, list) else value
                for field in fields(cls)
                if (value := values.get(field.name, field.default)) is not MISSING
            }
            known["evidence"] = tuple(EvidenceRow(**row) for row in known["evidence"] or ())
            return cls(**known)
        except TypeError as error:
            raise StorageError(
                f"is not an alert ({error})", remedy="Write alerts again with `entente detect`."
            ) from error


def in_order(alert: Alert) -> tuple[int, float, str, str]:
    """Sort key: by window, the highest score first."""
    return (alert.start, -alert.score, alert.src, alert.dst)
