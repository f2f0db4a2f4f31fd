"""The features of an edge: what the silo's memory says about pair, source, target and their window.

A feature is a count, an age or a sum that fades, bounded, on a logarithmic scale, minus a constant, over a
constant. The constants are the same for every silo and every log: nothing is estimated, sent or poisoned.
An edge's features know the windows before its own and its own window, nothing later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from entente.detectors.base import Candidates
from entente.detectors.behaviour.memory import Memory
from entente.detectors.behaviour.window import Window
from entente.graphs.temporal import Float32, TemporalGraph

Kind = Literal["plain", "count", "ratio"]
"""As it is; log(1 + x); log(x)."""

RANGE = 5.0
"""A scaled feature lies within plus and minus this."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One column: raw value -> bounded, logarithm, centred, scaled."""

    name: str
    family: str
    kind: Kind
    centre: float
    spread: float
    bound: float | None = None


FEATURES = (
    Feature("new", "pair", "plain", 0.5, 0.5),
    Feature("pair_windows", "pair", "count", 1.0, 1.0, 10),
    Feature("pair_rest", "pair", "count", 2.4, 1.1, 24),
    Feature("pair_age", "pair", "count", 1.6, 1.5, 24),
    Feature("birth", "pair", "ratio", -2.0, 2.25),
    Feature("reverse", "pair", "count", 0.0, 0.25, 10),
    Feature("b_sources", "target", "count", 3.4, 1.85),
    Feature("b_unknown", "target", "plain", 0.0, 0.15),
    Feature("b_age", "target", "count", 3.1, 0.25, 24),
    Feature("b_new_now", "target", "count", 0.3, 0.4),
    Feature("b_now", "target", "count", 1.4, 0.75),
    Feature("b_fan_in", "target", "count", 2.7, 1.5),
    Feature("b_targets", "target", "count", 1.0, 1.0),
    Feature("a_targets", "source", "count", 1.9, 0.9),
    Feature("a_unknown", "source", "plain", 0.0, 0.2),
    Feature("a_age", "source", "count", 3.1, 0.3, 24),
    Feature("a_active", "source", "count", 2.5, 0.75),
    Feature("a_sources", "source", "count", 1.0, 1.3),
    Feature("a_old", "source", "count", 1.4, 0.75),
    Feature("new_now", "burst", "count", 0.8, 1.15),
    Feature("targets_now", "burst", "count", 1.3, 1.0),
    Feature("usual", "burst", "ratio", -3.4, 0.9),
    Feature("surprise", "burst", "count", 1.25, 1.7),
    Feature("largest", "burst", "count", 0.75, 0.7),
    Feature("new_share", "burst", "plain", 0.4, 0.5),
    Feature("bursts", "burst", "count", 0.2, 0.5),
    Feature("new_24", "burst", "count", 1.4, 1.15),
    Feature("onset", "onset", "count", 3.3, 1.2, 168),
    Feature("burst_age", "onset", "count", 1.5, 1.8, 168),
    Feature("fresh_new", "onset", "ratio", 0.6, 1.1),
    Feature("fresh_evidence", "onset", "ratio", 0.6, 1.2),
    Feature("others_day", "peers", "ratio", 3.0, 3.0),
    Feature("peers_day", "peers", "ratio", -2.5, 2.5),
    Feature("others_burst", "peers", "ratio", 4.0, 3.0),
    Feature("peers_burst", "peers", "ratio", -1.5, 2.5),
    Feature("now", "evidence", "count", 0.4, 0.8),
    Feature("evidence_2", "evidence", "count", 0.5, 0.9),
    Feature("evidence_24", "evidence", "count", 0.6, 0.95),
    Feature("evidence_72", "evidence", "count", 0.7, 0.95),
    Feature("relative", "evidence", "ratio", 0.9, 1.6),
    Feature("level", "evidence", "ratio", -2.5, 1.1),
    Feature("rare_72", "evidence", "count", 0.8, 1.2),
    Feature("chain_a", "pivot", "count", 0.4, 0.45),
    Feature("chain_b", "pivot", "count", 0.4, 0.3),
    Feature("chain_a_72", "pivot", "count", 0.5, 0.5),
    Feature("rest_in", "pivot", "count", 3.2, 1.25, 72),
    Feature("rest_out", "pivot", "count", 2.6, 1.3, 72),
    Feature("fan_in_a", "pivot", "count", 0.8, 1.0),
    Feature("odd", "class", "plain", 1.75, 1.0),
    Feature("odd_new", "class", "plain", 0.4, 0.5),
    Feature("odd_24", "class", "count", 1.75, 1.35),
    Feature("odd_72", "class", "count", 2.0, 1.25),
    Feature("hour_a", "habit", "ratio", 0.1, 0.5),
    Feature("hour_b", "habit", "ratio", 0.0, 0.4),
    Feature("others", "silo", "ratio", -0.2, 1.0),
    Feature("silo_large", "silo", "count", 0.7, 0.8),
    Feature("silo_sudden", "silo", "count", 0.4, 0.6),
    Feature("kin_out", "kin", "plain", 0.5, 0.8),
    Feature("kin_in", "kin", "plain", 0.5, 0.8),
    Feature("kin_b", "kin", "plain", 0.2, 0.5),
    Feature("has_user", "account", "plain", 0.5, 0.5),
    Feature("u_new", "account", "plain", 0.05, 0.3),
    Feature("u_unknown", "account", "plain", 0.02, 0.2),
    Feature("u_share", "account", "ratio", -0.7, 1.3),
    Feature("u_hosts", "account", "count", 1.1, 0.8),
    Feature("u_spread", "account", "count", 0.2, 0.5),
    Feature("u_main", "account", "ratio", -0.7, 1.3),
    Feature("a_accounts", "account", "count", 1.0, 0.6),
    Feature("has_outcome", "outcome", "plain", 0.5, 0.5),
    Feature("failed", "outcome", "count", 0.05, 0.3),
    Feature("a_failures", "outcome", "count", 0.3, 0.6),
    Feature("has_logon", "outcome", "plain", 0.5, 0.5),
    Feature("logon_odd", "outcome", "plain", 0.8, 1.0),
)
NAMES = tuple(feature.name for feature in FEATURES)
COLUMN = {name: number for number, name in enumerate(NAMES)}

_CENTRE = np.array([feature.centre for feature in FEATURES], dtype=np.float32)
_SPREAD = np.array([feature.spread for feature in FEATURES], dtype=np.float32)


def describe(
    memory: Memory, graph: TemporalGraph, candidates: Candidates | None = None
) -> tuple[Float32, Float32]:
    """Raw values [pairs, features] of the graph's edges and of `candidates`; `memory` moves past its end."""
    own = _Pairs.of(memory, graph, graph.src, graph.dst, graph.offsets)
    asked = None
    if candidates is not None:
        offsets = np.searchsorted(candidates.window, np.arange(graph.num_windows + 1)).astype(np.int64)
        asked = _Pairs.of(memory, graph, candidates.src, candidates.dst, offsets)
    for t in range(graph.num_windows):
        part = own.window(t)
        accounts = memory.accounts
        window = Window(memory, graph.start + t * graph.width, own.src[part], own.dst[part], own.place[part])
        own.fill(window, part, accounts.values(part, own.src[part]))
        if asked is not None:
            span = asked.window(t)
            asked.fill(window, span, accounts.masked(span.stop - span.start))
        accounts.learn(part, own.src[part], window.number, window.worth)
        window.close()
    nothing = np.zeros((0, len(NAMES)), dtype=np.float32)
    return own.table.T, nothing if asked is None else asked.table.T


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """Pairs to be described, by window, and the table that is filled for them."""

    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    offsets: NDArray[np.int64]
    place: NDArray[np.intp]
    reverse: NDArray[np.intp]
    table: Float32  # [features, pairs]

    @classmethod
    def of(
        cls,
        memory: Memory,
        graph: TemporalGraph,
        src: NDArray[np.int32],
        dst: NDArray[np.int32],
        offsets: NDArray[np.int64],
    ) -> _Pairs:
        table = np.zeros((len(NAMES), len(src)), dtype=np.float32)
        return cls(src, dst, offsets, memory.locate(src, dst), memory.locate(dst, src), table)

    def window(self, t: int) -> slice:
        return slice(int(self.offsets[t]), int(self.offsets[t + 1]))

    def fill(self, window: Window, part: slice, context: dict[str, NDArray[Any]]) -> None:
        if part.stop > part.start:
            values = window.values(self.src[part], self.dst[part], self.place[part], self.reverse[part])
            for name, column in (values | context).items():
                self.table[COLUMN[name], part] = column


def scaled(raw: Float32) -> Float32:
    """What the network sees of raw values."""
    table = np.array(raw, dtype=np.float32)
    for number, feature in enumerate(FEATURES):
        column = table[:, number]
        if feature.bound is not None:
            np.clip(column, 0, feature.bound, out=column)
        if feature.kind == "count":
            np.log1p(column, out=column)
        elif feature.kind == "ratio":
            np.log(np.maximum(column, 1e-4, out=column), out=column)
    table -= _CENTRE
    table /= _SPREAD
    np.clip(table, -RANGE, RANGE, out=table)
    return np.nan_to_num(table, copy=False)  # masked: as if it were usual
