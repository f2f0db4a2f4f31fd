"""A sum of which the coordinator learns the total alone.

Every two silos agree on a secret (X25519) from which HKDF derives one 64-bit mask; the silo whose
name comes first adds it, the other subtracts it, all modulo 2^64. Masks cancel in the total and hide
each term. Keys serve for one sum: used twice, two sums over different silos would differ by a count.

Assumed: the keys are the silos' own (in a deployment each is signed, and checked before it is used:
`federation.agreement`) and at least two other silos do not tell the coordinator their masks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from entente.errors import FederationError, RefusedError

MODULUS = 1 << 64
FEWEST_SILOS = 3
"""With two silos each can subtract its own count from the total; with one the total is the count."""


class Mask:
    """One silo's part in one sum; the key pair lives in memory and is forgotten after use."""

    def __init__(self) -> None:
        self._private: X25519PrivateKey | None = X25519PrivateKey.generate()
        self.public_key = self._private.public_key().public_bytes_raw().hex()

    def apply(self, value: int, name: str, keys: Mapping[str, str]) -> int:
        """`value` masked towards all other silos in `keys`; FederationError if that would not hide it."""
        private, self._private = self._private, None
        if private is None:
            raise FederationError("this key has masked a count already; a new sum needs a new key")
        if keys.get(name) != self.public_key:
            raise FederationError(f"the key list does not hold the key that {name!r} sent")
        if len(keys) < 2:
            raise FederationError("the key list names no other silo: the count would travel unmasked")
        context = _context(keys)
        total = value
        for other, key in keys.items():
            if other == name:
                continue
            mask = _pair_mask(private, check_key(key), context, *sorted((name, other)))
            total += mask if name < other else -mask
        return total % MODULUS


def total(masked: Iterable[int]) -> int:
    """The sum of all masked values; right only if every silo of the key list is among them."""
    return sum(masked) % MODULUS


def check_key(key: str) -> bytes:
    """The 32 bytes of a public key written in hexadecimal; RefusedError for anything else."""
    try:
        raw = bytes.fromhex(key)
    except ValueError:
        raw = b""
    if len(raw) != 32 or key != raw.hex() or not any(raw):
        raise RefusedError("public key is not 32 bytes in hexadecimal")
    return raw


def _context(keys: Mapping[str, str]) -> bytes:
    """Binds masks to the whole key list: silos that were shown different lists get a sum of noise."""
    digest = hashlib.sha256()
    for name in sorted(keys):
        digest.update(len(name.encode()).to_bytes(8, "big") + name.encode() + bytes.fromhex(keys[name]))
    return digest.digest()


def _pair_mask(private: X25519PrivateKey, key: bytes, context: bytes, first: str, second: str) -> int:
    try:
        secret = private.exchange(X25519PublicKey.from_public_bytes(key))
    except ValueError as error:
        raise FederationError(f"no secret can be agreed on between {first!r} and {second!r}") from error
    info = b"entente secure sum\0" + first.encode() + b"\0" + second.encode()
    return int.from_bytes(HKDF(SHA256(), 8, salt=context, info=info).derive(secret), "big")
