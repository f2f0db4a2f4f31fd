"""What every method of one cell has in common, made once: drawn examples and features of edges.

Neither depends on weights, so neither depends on the aggregation rule, on who cheats or on noise. The
functions are those of the product, called through a table that is keyed by the content of what they are
given; the figures stay those of `entente train`, bit for bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from entente.detectors.baselines import evidence
from entente.detectors.behaviour import detector, features, training
from entente.detectors.behaviour.accounts import Accounts


@dataclass(slots=True)
class Shared:
    """How often work was done and how often it was there already."""

    made: int = 0
    reused: int = 0


@contextmanager
def shared_work() -> Iterator[Shared]:
    """While the block runs, examples and features of the same content are made once."""
    told = Shared()
    drawn: dict[str, Any] = {}
    described: dict[str, Any] = {}

    def draw_examples(*given: Any, **named: Any) -> Any:
        key = content((given, named))
        _count(told, key in drawn)
        if key not in drawn:
            drawn[key] = draw(*given, **named)
        return drawn[key]

    def describe(memory: Any, graph: Any, *more: Any) -> Any:
        if any(item is not None for item in more):
            return plain(memory, graph, *more)
        key = content((vars(memory), graph))
        _count(told, key in described)
        if key not in described:
            found = plain(memory, graph)
            described[key] = found, deepcopy(vars(memory))
            return found
        found, after = described[key]
        vars(memory).update(deepcopy(after))
        return found

    draw, plain = training.draw_examples, features.describe
    with (
        replaced(detector, "draw_examples", draw_examples),
        replaced(detector, "describe", describe),
        replaced(evidence, "describe", describe),
    ):
        yield told


@contextmanager
def without_features(columns: list[int]) -> Iterator[None]:
    """While the block runs, the network sees nothing but the centre of these columns."""
    draw, scale = detector.draw_examples, features.scaled  # type: ignore[attr-defined]

    def draw_examples(*given: Any, **named: Any) -> Any:
        examples = draw(*given, **named)
        return replace(examples, features=_blanked(examples.features, columns))

    def scaled(raw: Any) -> Any:
        return _blanked(scale(raw), columns)

    with replaced(detector, "draw_examples", draw_examples), replaced(detector, "scaled", scaled):
        yield


@contextmanager
def replaced(module: ModuleType | type, name: str, function: Callable[..., Any]) -> Iterator[None]:
    """Another function under a name of a module, while the block runs."""
    before = getattr(module, name)
    setattr(module, name, function)
    try:
        yield
    finally:
        setattr(module, name, before)


def content(value: Any) -> str:
    """Digest of a value: arrays, generators, dataclasses and plain values in any nesting."""
    digest = hashlib.blake2b(digest_size=16)
    _add(digest, value)
    return digest.hexdigest()


def _add(digest: Any, value: Any) -> None:
    digest.update(type(value).__name__.encode() + b"\0")
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype} {value.shape}".encode())
        digest.update(
            str(value.tolist()).encode() if value.dtype.hasobject else np.ascontiguousarray(value).data
        )
    elif isinstance(value, np.random.Generator):
        digest.update(repr(value.bit_generator.state).encode())
    elif is_dataclass(value) and not isinstance(value, type):
        _add(digest, [getattr(value, field.name) for field in fields(value)])
    elif isinstance(value, dict):
        _add(digest, sorted(value.items()))
    elif isinstance(value, Accounts):
        _add(digest, vars(value))
    elif isinstance(value, (list, tuple)):
        for item in value:
            _add(digest, item)
    else:
        digest.update(repr(value).encode())


def _blanked(table: Any, columns: list[int]) -> Any:
    changed = table.copy()
    changed[:, columns] = 0.0
    return changed


def _count(told: Shared, known: bool) -> None:
    told.reused += known
    told.made += not known
