"""The key that silos share and the coordinator does not have: pseudonyms, links, sealed packets."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from entente.errors import RefusedError
from entente.federation.exchange.notes import LEVELS, PSEUDONYM, Note, Packet, filled

VERSION = "entente exchange 1"
DAY = 86_400_000_000
NONCE = 12
LINK = 8
"""Bytes of a link id."""


class ExchangeKey:
    """Three keys out of the silos' shared secret, one for each use."""

    def __init__(self, secret: bytes) -> None:
        names, links, seals = (
            HKDF(SHA256(), 32, None, f"{VERSION} {use}".encode()).derive(secret)
            for use in ("names", "links", "seals")
        )
        self._names, self._links, self._seals = names, links, ChaCha20Poly1305(seals)

    def pseudonym(self, host: str, window: int) -> bytes:
        """The host's pseudonym on the day (UTC) of the window: another one every day."""
        return _digest(self._names, f"{window // DAY}\0{host}")[:PSEUDONYM]

    def link(self, host: str) -> str:
        """The id under which silos find each other's alerts about the host; never sent."""
        return _digest(self._links, host)[:LINK].hex()

    def seal(self, silo: str, window: int, width: int, notes: Sequence[Note]) -> Packet:
        """A packet with these notes, of which the first NOTES count, filled up."""
        nonce = secrets.token_bytes(NONCE)
        content = b"".join(note.pseudonym + bytes([note.level]) for note in filled(notes))
        return Packet(
            silo, window, width, nonce + self._seals.encrypt(nonce, content, _header(silo, window, width))
        )

    def open(self, packet: Packet) -> tuple[Note, ...]:
        """The notes of a packet; RefusedError unless a silo with this key sealed exactly this packet."""
        header = _header(packet.silo, packet.window, packet.width)
        try:
            content = self._seals.decrypt(packet.sealed[:NONCE], packet.sealed[NONCE:], header)
        except (InvalidTag, ValueError) as error:
            raise RefusedError("was not sealed by a silo of this federation, or was changed") from error
        size = PSEUDONYM + 1
        rows = [content[place : place + size] for place in range(0, len(content), size)]
        notes = tuple(Note(row[:-1], row[-1]) for row in rows)
        if not all(1 <= note.level <= LEVELS for note in notes):
            raise RefusedError("has a note of an unknown level")
        return notes


def _header(silo: str, window: int, width: int) -> bytes:
    return f"{VERSION}\0{silo}\0{window}\0{width}".encode("utf-8", "surrogatepass")


def _digest(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256)
