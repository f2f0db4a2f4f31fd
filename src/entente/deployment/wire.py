"""A message of the federation as FLARE carries it: one bundle of bytes, nothing else.

FLARE would serialise arrays by itself; plain bytes keep its object decoders out of what silos send,
and make the size known before anything is parsed. An update is sent as the rows that training changed:
a silo moves only the identity rows of its own hosts, and the coordinator knows all others. Same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays, decode_bundle, encode_bundle
from entente.errors import RefusedError
from entente.federation.messages import Message, pack, unpack

TASK = "entente"
"""FLARE's name for every task of the protocol; what is asked is in the message."""
MODEL = "entente-model"
"""FLARE's name for the delivery of the finished model; the message is a validation task."""

BUNDLE = "bundle"
FACTS_LIMIT = 4_000_000


ROWS, VALUES = "rows:", "values:"
"""Before the name of a weight of which only some rows are sent: which ones, and what is in them."""


def encode(message: Message, base: Mapping[str, NDArray[Any]] | None = None) -> dict[str, Any]:
    """The content of a FLARE message; `base` are the weights that its reader has."""
    facts, arrays = pack(message)
    return {BUNDLE: encode_bundle(facts, _changed_rows(arrays, base) if base else arrays)}


def decode(content: Any, limit: int, base: Mapping[str, NDArray[Any]] | None = None) -> Message:
    """The message in what arrived; RefusedError if it is over-sized, damaged or not a message."""
    data = content.get(BUNDLE)
    if not isinstance(data, bytes | bytearray | memoryview):
        raise RefusedError("is not a message of this federation")
    if len(data) > limit:
        raise RefusedError(f"is over-sized: {len(data)} bytes, the limit is {limit}")
    try:
        facts, arrays = decode_bundle(bytes(data), FACTS_LIMIT)
        return unpack(facts, _all_rows(arrays, base or {}))
    except ValueError as error:
        raise RefusedError(f"is damaged: {error}") from error


def _changed_rows(arrays: Mapping[str, NDArray[Any]], base: Mapping[str, NDArray[Any]]) -> Arrays:
    """`arrays`, each table as its changed rows where that is shorter."""
    sent: Arrays = {}
    for name, array in arrays.items():
        known = base.get(name)
        sent[name] = array
        if known is None or array.ndim != 2 or known.shape != array.shape or known.dtype != array.dtype:
            continue
        rows = np.flatnonzero((_bits(array) != _bits(known)).any(axis=1)).astype(np.int32)
        if len(rows) * (array.shape[1] * array.itemsize + rows.itemsize) < array.nbytes:
            del sent[name]
            sent[ROWS + name], sent[VALUES + name] = rows, array[rows]
    return sent


def _all_rows(arrays: Mapping[str, NDArray[Any]], base: Mapping[str, NDArray[Any]]) -> Arrays:
    """What `_changed_rows` was given; ValueError if the rows do not fit the table they are of."""
    whole = {name: array for name, array in arrays.items() if not name.startswith((ROWS, VALUES))}
    for name in [name.removeprefix(ROWS) for name in arrays if name.startswith(ROWS)]:
        rows, values, known = arrays[ROWS + name], arrays.get(VALUES + name), base.get(name)
        if known is None or values is None or known.ndim != 2 or name in whole:
            raise ValueError("it has rows of a table that there is not")
        if rows.dtype != np.int32 or rows.ndim != 1 or values.dtype != known.dtype:
            raise ValueError("its rows are of another kind than the table")
        if values.shape != (len(rows), known.shape[1]) or not _ascending(rows, len(known)):
            raise ValueError("its rows do not fit the table")
        whole[name] = known.copy()
        whole[name][rows] = values
    return whole


def _bits(array: NDArray[Any]) -> NDArray[Any]:
    """Numbers as bytes: 0 and -0 differ, and a NaN is itself."""
    return np.ascontiguousarray(array).view(np.uint8)


def _ascending(rows: NDArray[Any], count: int) -> bool:
    return bool(len(rows) == 0 or (rows[0] >= 0 and rows[-1] < count and (np.diff(rows) > 0).all()))


def size(content: Any) -> int:
    """Bytes of a message, for the record."""
    return len(content[BUNDLE])
