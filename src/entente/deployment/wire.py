"""A message of the federation as FLARE carries it: one bundle of bytes, nothing else.

FLARE would serialise arrays by itself; plain bytes keep its object decoders out of what silos send,
and make the size known before anything is parsed.
"""

from __future__ import annotations

from typing import Any

from entente.artifacts import decode_bundle, encode_bundle
from entente.errors import RefusedError
from entente.federation.messages import Message, pack, unpack

TASK = "entente"
"""FLARE's name for every task of the protocol; what is asked is in the message."""
MODEL = "entente-model"
"""FLARE's name for the delivery of the finished model; the message is a validation task."""

BUNDLE = "bundle"
FACTS_LIMIT = 4_000_000


def encode(message: Message) -> dict[str, Any]:
    """The content of a FLARE message."""
    return {BUNDLE: encode_bundle(*pack(message))}


def decode(content: Any, limit: int) -> Message:
    """The message in what arrived; RefusedError if it is over-sized, damaged or not a message."""
    data = content.get(BUNDLE)
    if not isinstance(data, bytes | bytearray | memoryview):
        raise RefusedError("is not a message of this federation")
    if len(data) > limit:
        raise RefusedError(f"is over-sized: {len(data)} bytes, the limit is {limit}")
    try:
        bundle = decode_bundle(bytes(data), FACTS_LIMIT)
    except ValueError as error:
        raise RefusedError(f"is damaged: {error}") from error
    return unpack(*bundle)


def size(content: Any) -> int:
    """Bytes of a message, for the record."""
    return len(content[BUNDLE])
