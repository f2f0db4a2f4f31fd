"""What the events of an edge say besides their number: accounts, kinds, ports, outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.errors import GraphError
from entente.logs.edges.schema import LISTED as COLUMNS
from entente.logs.edges.schema import TOP

__all__ = ["COLUMNS", "NAMED", "NOTHING", "TOP", "Codes", "EdgeContext", "Frequent", "most_frequent"]

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float32 = NDArray[np.float32]

NOTHING = -1
"""In codes, counts and sums: there is no such value."""
NAMED = tuple(name for name in COLUMNS if name != "port")
"""Event columns of text, which become codes."""


@dataclass(frozen=True, slots=True, eq=False)
class Frequent:
    """One event column over the events of each edge: its most frequent values, and how many differ."""

    values: NDArray[Any]  # what the codes stand for: names, or port numbers
    top: Int32  # [edges, <= TOP]: codes, most frequent first, ties by name; NOTHING where there are fewer
    distinct: Int32  # [edges]: how many different values; 0 where no event of the edge has one

    def of(self, edge: int) -> tuple[Any, ...]:
        """The most frequent values of one edge."""
        codes = self.top[edge]
        return tuple(self.values[codes[codes != NOTHING]].tolist())

    def __getitem__(self, chosen: Any) -> Frequent:
        return Frequent(self.values, self.top[chosen], self.distinct[chosen])

    def compact(self) -> Frequent:
        """With only the values that these edges have, in their own order."""
        used = np.unique(self.top[self.top != NOTHING])
        used = used[np.argsort(self.values[used], kind="stable")]
        code = np.full(len(self.values) + 1, NOTHING, dtype=np.int32)  # the last entry is NOTHING's
        code[used] = np.arange(len(used), dtype=np.int32)
        widest = min(TOP, int(self.distinct.max(initial=0)))
        return Frequent(self.values[used], code[self.top[:, :widest]], self.distinct)


@dataclass(frozen=True, slots=True, eq=False)
class EdgeContext:
    """The context of edges, one entry per edge; a column that no event has is None."""

    last_time: Int64  # of the edge's last event, microseconds
    bytes: Int64 | None = None  # NOTHING where no event of the edge has a number of bytes
    failures: Int32 | None = None  # events that failed; NOTHING where no event has an outcome
    user: Frequent | None = None
    kind: Frequent | None = None
    logon: Frequent | None = None
    port: Frequent | None = None

    def __len__(self) -> int:
        return len(self.last_time)

    def __getitem__(self, chosen: Any) -> EdgeContext:
        """The context of the chosen edges: a slice, a mask or numbers of edges."""
        return self._each(lambda part: part[chosen])

    def compact(self) -> EdgeContext:
        """With only the names that these edges have: what other edges, or later ones, say is not told."""
        return replace(self._each(_compact), last_time=self.last_time)

    def followed_by(self, later: EdgeContext) -> EdgeContext:
        """The context of these edges and then of others, which may have other names."""
        parts: dict[str, Any] = {}
        for field in fields(self):
            one, two = getattr(self, field.name), getattr(later, field.name)
            if one is None and two is None:
                parts[field.name] = None
            elif isinstance(one, Frequent) or isinstance(two, Frequent):
                parts[field.name] = _frequent(one, len(self), two, len(later))
            else:
                nothing = [np.full(len(part), NOTHING) for part in (self, later)]
                both = (nothing[0] if one is None else one, nothing[1] if two is None else two)
                parts[field.name] = np.concatenate(both)
        return EdgeContext(**parts)

    def strengths(self, by: str) -> Float32:
        """What the edges weigh by their kilobytes or by their different users; none weighs nothing."""
        if (self.bytes if by == "bytes" else self.user) is None:
            raise GraphError(
                f"no event of the log has {by}", remedy='Set graph.weight = "events", which every log has.'
            )
        if by == "bytes":
            assert self.bytes is not None
            return np.maximum(self.bytes / 1024, 1 / 1024).astype(np.float32)
        assert self.user is not None
        return np.maximum(self.user.distinct, 1).astype(np.float32)

    def _each(self, change: Callable[[Any], Any]) -> EdgeContext:
        parts: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        changed: dict[str, Any] = {name: None if p is None else change(p) for name, p in parts.items()}
        return EdgeContext(**changed)


def _frequent(one: Frequent | None, edges: int, two: Frequent | None, more: int) -> Frequent:
    """One column of edges followed by the same column of others."""
    empty = np.empty(0, dtype=np.str_)
    parts = [
        part or Frequent(empty, np.full((count, 0), NOTHING, dtype=np.int32), np.zeros(count, dtype=np.int32))
        for part, count in ((one, edges), (two, more))
    ]
    values = np.unique(np.concatenate([part.values for part in parts if len(part.values)] or [empty]))
    top = np.full((edges + more, max(part.top.shape[1] for part in parts)), NOTHING, dtype=np.int32)
    for part, rows in zip(parts, (slice(0, edges), slice(edges, None)), strict=True):
        code = np.append(np.searchsorted(values, part.values), NOTHING).astype(np.int32)
        top[rows, : part.top.shape[1]] = code[part.top]
    return Frequent(values, top, np.concatenate([part.distinct for part in parts]))


def _compact(part: Any) -> Any:
    if isinstance(part, Frequent):
        return part.compact() if part.distinct.any() else None
    return part if (part != NOTHING).any() else None


class Codes:
    """Text -> numbers, in the order of appearance."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}

    def encode(self, names: Iterable[str]) -> Int32:
        number = self._number
        return np.array([number.setdefault(name, len(number)) for name in names], dtype=np.int32)

    def __len__(self) -> int:
        return len(self._number)

    def __iter__(self) -> Iterator[str]:
        return iter(self._number)

    def array(self) -> NDArray[np.str_]:
        return np.array(list(self._number), dtype=np.str_)


def most_frequent(edge: Int64, rank: Int64, edges: int) -> tuple[Int32, Int32]:
    """Per edge the TOP most frequent ranks, ties to the lower one, and how many ranks differ.

    `edge` and `rank` describe one event each; a rank of NOTHING is left out.
    """
    known = rank != NOTHING
    top = np.full((edges, TOP), NOTHING, dtype=np.int32)
    if not known.any():
        return top, np.zeros(edges, dtype=np.int32)
    ranks = int(rank.max()) + 1
    pairs, count = np.unique(edge[known] * ranks + rank[known], return_counts=True)
    owner, value = np.divmod(pairs, ranks)
    distinct = np.bincount(owner, minlength=edges)
    order = np.lexsort((-count, owner))  # stable: the lower rank first among equals
    place = np.arange(len(order)) - np.repeat(np.cumsum(distinct) - distinct, distinct)
    order, place = order[place < TOP], place[place < TOP]
    top[owner[order], place] = value[order]
    return top, distinct.astype(np.int32)
