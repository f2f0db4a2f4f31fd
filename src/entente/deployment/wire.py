"""A message of the federation as FLARE carries it: JSON text and safetensors bytes, nothing else.

FLARE would serialise arrays by itself; plain bytes keep its object decoders out of what silos send,
and make the size known before anything is parsed.
"""

from __future__ import annotations

import json
from typing import Any

from entente.artifacts import Arrays, array_bytes, arrays_of
from entente.errors import RefusedError
from entente.federation.messages import Message, pack, unpack

TASK = "entente"
"""FLARE's name for every task of the protocol; what is asked is in the message."""
MODEL = "entente-model"
"""FLARE's name for the delivery of the finished model; the message is a validation task."""

FACTS_LIMIT = 4_000_000


def encode(message: Message) -> dict[str, Any]:
    """The content of a FLARE message."""
    facts, arrays = pack(message)
    return {"facts": json.dumps(facts), "arrays": array_bytes(arrays)}


def decode(content: Any, limit: int) -> Message:
    """The message in what arrived; RefusedError if it is over-sized, damaged or not a message."""
    facts, blob = content.get("facts"), content.get("arrays")
    if not isinstance(facts, str) or not isinstance(blob, bytes | bytearray | memoryview):
        raise RefusedError("is not a message of this federation")
    size = len(facts) + len(blob)
    if len(facts) > FACTS_LIMIT or size > limit:
        raise RefusedError(f"is over-sized: {size} bytes, the limit is {limit}")
    try:
        table = json.loads(facts)
    except (ValueError, RecursionError) as error:
        raise RefusedError("is damaged: its facts are not JSON") from error
    if not isinstance(table, dict):
        raise RefusedError("is damaged: its facts are not an object")
    return unpack(table, _arrays(bytes(blob)) if blob else {})


def size(content: Any) -> int:
    """Bytes of a message, for the record."""
    return len(content["facts"]) + len(content["arrays"])


def _arrays(blob: bytes) -> Arrays:
    try:
        return arrays_of(blob)
    except ValueError as error:
        raise RefusedError(f"is damaged: its arrays are {error}") from error
