"""Who may connect to the coordinator, and how much of it one visitor may hold.

A port on the internet meets connections that say nothing, and certificates that are valid but not meant
for it. Neither may keep a silo out. When a limit is reached the oldest connection goes, not the newest:
an honest handshake takes milliseconds, so the oldest is the one that says nothing.
"""

from __future__ import annotations

import json
import socket
import threading
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REVOKED = "revoked.json"
"""In the coordinator's kit: names and serial numbers (decimal text) of certificates that are refused."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one visitor may hold of the coordinator."""

    handshake: float = 20.0
    """Seconds for the whole TLS handshake."""
    idle: float = 90.0
    """Seconds without a byte; FLARE's heartbeats come every `policy.HEARTBEAT` seconds."""
    waiting: int = 32
    """Connections of one address that are still in the handshake."""
    waiting_in_all: int = 512
    held: int = 16
    """Connections of one certificate name. A silo needs two, and as many again while it reconnects."""
    frame: int = 16 << 20
    """Bytes of one frame; FLARE cuts messages into frames of one megabyte."""
    rate: int = 500
    """Frames of one connection that are read in a second; a gigabyte a second needs more, a silo does not."""
    frames: int = 100
    """Frames of one connection that have been read and not yet worked on."""
    frame_bytes: int = 64 << 20
    """Bytes of these frames."""
    unsent: int = 64 << 20
    """Bytes for one connection that its other end has not taken yet."""


@dataclass(frozen=True, slots=True)
class Holder:
    """What a certificate says of its holder."""

    name: str
    serial: str

    @classmethod
    def of(cls, certificate: Mapping[str, Any] | None) -> Holder:
        """Of a verified certificate as `ssl` shows it."""
        table = certificate or {}
        names = [v for part in table.get("subject", ()) for k, v in part if k == "commonName"]
        return cls(names[0] if len(names) == 1 else "", str(int(str(table.get("serialNumber", "0")), 16)))


@dataclass(frozen=True, slots=True)
class Admission:
    """The names a port is for, and the certificates that are refused although they are valid."""

    names: frozenset[str]
    revoked_file: Path

    def revoked(self) -> Revoked:
        return read_revoked(self.revoked_file)

    def refusal(self, identity: Holder) -> str | None:
        """Why the holder of this certificate is not let in; None if it is."""
        if identity.name not in self.names:
            return "its name has no business at this port"
        return self.revoked().refusal(identity)


@dataclass(frozen=True, slots=True)
class Revoked:
    """Certificates that are refused: all of a name, or one by its serial number."""

    names: frozenset[str] = frozenset()
    serials: Mapping[str, str] = field(default_factory=dict)
    """Serial number -> the name it was issued for."""

    def refusal(self, identity: Holder) -> str | None:
        if identity.serial in self.serials:
            return f"its certificate (serial {identity.serial}) is revoked"
        return "its name is revoked" if identity.name in self.names else None


def read_revoked(path: Path) -> Revoked:
    """The list of revoked certificates; one that cannot be read is a ValueError, never an empty list."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        return Revoked(frozenset(table["names"]), dict(table["serials"]))
    except FileNotFoundError:
        return Revoked()
    except (OSError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"not a list of revoked certificates ({error!r})") from error


class Queue:
    """Sockets by owner, oldest first; beyond the limits the oldest is shut down."""

    def __init__(self, per_owner: int, in_all: int | None = None) -> None:
        self._per_owner = per_owner
        self._in_all = in_all
        self._lock = threading.Lock()
        self._sockets: dict[socket.socket, str] = {}  # in order of arrival
        self._of: dict[str, list[socket.socket]] = defaultdict(list)

    def enter(self, owner: str, connection: socket.socket) -> None:
        with self._lock:
            if len(self._of[owner]) >= self._per_owner:
                self._drop(self._of[owner][0])
            elif self._in_all is not None and len(self._sockets) >= self._in_all:
                self._drop(next(iter(self._sockets)))
            self._sockets[connection] = owner
            self._of[owner].append(connection)

    def leave(self, connection: socket.socket) -> None:
        with self._lock:
            self._forget(connection)

    def drop(self, connections: Collection[socket.socket]) -> None:
        with self._lock:
            for connection in connections:
                self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        self._forget(connection)
        try:
            connection.shutdown(socket.SHUT_RDWR)  # whoever reads from it wakes up and closes it
        except OSError:
            return

    def _forget(self, connection: socket.socket) -> None:
        owner = self._sockets.pop(connection, None)
        if owner is not None:
            self._of[owner].remove(connection)
            if not self._of[owner]:
                del self._of[owner]
