"""What a silo remembers of the windows it has seen: per pair, per host, and of the silo as a whole.

A memory may hold several histories side by side that know nothing of each other, in parts of equal numbers of
hosts: what is summed up over a silo is summed up over each part.

Everything is an array, so that it can be written down after any window and read back. Sums fade with a
half-life in hours; a pair that was not seen for `MEMORY` hours is forgotten. Opening a state, scoring some
windows and writing it back gives the same bits wherever the windows are cut.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays
from entente.detectors.behaviour.accounts import Accounts
from entente.detectors.behaviour.peers import CLASSES, PeerHosts
from entente.errors import DetectorError
from entente.graphs.temporal import Int32, Int64, TemporalGraph

HOUR = 3_600_000_000
"""Microseconds."""
MEMORY = 30 * 24.0
"""Hours after which a pair that was not seen again is forgotten."""
SWEEP = 24.0
"""Hours between two looks for pairs to forget."""
LEARNING = 12.0
"""Half-life in hours of the time in which everything is new and newness says little."""
NEVER = -(1 << 30)
"""Window number of what has not happened."""
MOST_WINDOWS = 20
"""Counts of windows stop here."""
BURST = 3
"""New targets in one window from which on it is a burst."""

PAIR = {"pairs": "i8", "pair_windows": "u1", "pair_first": "i4", "pair_last": "i4", "pair_birth": "f4"}
HOST_WINDOWS = ("first_seen", "first_burst", "last_new_in", "last_new_out")
HOST_COUNTS = ("targets", "sources", "active")
FADING = {
    "new_96": 96.0,
    "exposure_96": 96.0,
    "new_24": 24.0,
    "new_4": 4.0,
    "largest": 168.0,
    "bursts_24": 24.0,
    "evidence_2": 2.0,
    "evidence_24": 24.0,
    "evidence_72": 72.0,
    "level": 96.0,
    "rare_72": 72.0,
    "fan_in_96": 96.0,
    "fan_in_72": 72.0,
    "chain_24": 24.0,
    "chain_72": 72.0,
    "odd_24": 24.0,
    "odd_72": 72.0,
    "ripe_new": 336.0,
    "ripe_evidence": 336.0,
    "ripe_bursts": 336.0,
}
"""Sums per host and their half-lives in hours."""
RIPENS = {"new_24": "ripe_new", "evidence_24": "ripe_evidence", "bursts_24": "ripe_bursts"}
"""What fades from the sum of a day goes over into a long one: what a host did just now is no habit yet."""
DAY = ("hours_out", "hours_in")
CLASS_HALF_LIFE = 336.0
NOVELTY_HALF_LIFE = 96.0
NOVELTY = 4
"""Of the silo, fading: new pairs, windows, large bursts, large bursts of hosts without the habit."""


class Memory:
    """The state opened for the windows of one graph, whose pairs get a place at once."""

    def __init__(self, state: Arrays, graph: TemporalGraph) -> None:
        check_finite(state)
        self.width = graph.width
        self.hours = graph.width / HOUR
        self.origin = origin(state["clock"], graph)
        self.edges = int(state["clock"][2])
        self.nodes = max(graph.num_nodes, len(state["targets"]))
        keys = pair_keys(graph.src, graph.dst)
        self.keys: Int64 = np.union1d(state["pairs"], keys)
        kept = np.searchsorted(self.keys, state["pairs"])
        self.pair: dict[str, NDArray[Any]] = {}
        for name, kind in PAIR.items():
            if name != "pairs":
                values = np.zeros(len(self.keys), dtype=kind)
                values[kept] = state[name]
                self.pair[name] = values
        self.host = {name: _padded(state[name], self.nodes, NEVER) for name in HOST_WINDOWS}
        self.host |= {
            name: _padded(state[name], self.nodes, 0) for name in (*HOST_COUNTS, *FADING, "classes", *DAY)
        }
        self.moves = state["moves"].copy()  # [parts * classes, classes]
        self.novelty = state["novelty"].reshape(-1, NOVELTY).copy()
        self.parts = len(self.novelty)
        self.part = np.arange(self.nodes) // max(self.nodes // self.parts, 1)
        self.accounts = Accounts(state, graph, self.nodes, self.hours)
        self.peers = PeerHosts(state, self.nodes, self.hours)
        self._reverse = np.argsort((self.keys << 32) | (self.keys >> 32), kind="stable")
        self._targets = self.keys & 0xFFFFFFFF
        self.fade = {name: np.float32(2.0 ** (-self.hours / life)) for name, life in FADING.items()}

    @staticmethod
    def empty(nodes: int, parts: int = 1) -> Arrays:
        """The state before any window; `nodes` is the number of hosts of all parts together."""
        state: Arrays = {name: np.zeros(0, dtype=kind) for name, kind in PAIR.items()}
        state |= {name: np.full(nodes, NEVER, dtype=np.int32) for name in HOST_WINDOWS}
        state |= {name: np.zeros(nodes, dtype=np.int32) for name in HOST_COUNTS}
        state |= {name: np.zeros(nodes, dtype=np.float32) for name in FADING}
        state |= {name: np.zeros((24, nodes), dtype=np.float32) for name in DAY}
        state["classes"] = np.zeros(nodes, dtype=np.int32)
        state["moves"] = np.zeros((parts * CLASSES, CLASSES), dtype=np.float64)
        state["novelty"] = np.zeros(parts * NOVELTY, dtype=np.float64)
        state["clock"] = np.zeros(3, dtype=np.int64)
        return state | Accounts.empty(nodes) | PeerHosts.empty(nodes, parts)

    def state(self) -> Arrays:
        """Everything remembered, pairs in ascending order."""
        seen = self.pair["pair_windows"] > 0
        state: Arrays = {name: values[seen] for name, values in self.pair.items()}
        state |= self.host | self.accounts.state() | self.peers.state()
        return state | {
            "pairs": self.keys[seen],
            "moves": self.moves,
            "novelty": self.novelty.reshape(-1),
            "clock": np.array([self.origin, self.width, self.edges], dtype=np.int64),
        }

    def number(self, start: int) -> int:
        """The number of the window that begins at `start`, counted from the first one ever seen."""
        return (start - self.origin) // self.width

    def worth(self, number: int) -> np.float32:
        """How much newness says: little while the silo's history has just begun."""
        return np.float32(1.0 - 2.0 ** (-(number + 1) * self.hours / LEARNING))

    def locate(self, src: Int32, dst: Int32) -> NDArray[np.intp]:
        """Where each pair is remembered; -1 for one that neither the state nor the graph has."""
        keys = pair_keys(src, dst)
        if not len(self.keys):
            return np.full(len(keys), -1, dtype=np.intp)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, place, -1)

    def rows(self, hosts: Int64) -> tuple[Int64, Int64]:
        """Pairs whose sources are `hosts`: which of them, and where the pair is remembered."""
        low, high = np.searchsorted(self.keys, (hosts << 32, (hosts + 1) << 32))
        return _spans(low, high)

    def targets_of(self, hosts: Int64, most: int) -> tuple[Int64, Int64]:
        """Known targets of hosts, as (which host, target); nothing of a host with more than `most`."""
        low, high = np.searchsorted(self.keys, (hosts << 32, (hosts + 1) << 32))
        row, place = _spans(low, np.where(self.host["targets"][hosts] > most, low, high))
        seen = self.pair["pair_windows"][place] > 0
        return row[seen], self._targets[place[seen]]

    def sources_of(self, hosts: Int64, most: int) -> tuple[Int64, Int64]:
        """Known sources of hosts, as (which host, source)."""
        low = np.searchsorted(self._targets, hosts, "left", self._reverse)
        high = np.searchsorted(self._targets, hosts, "right", self._reverse)
        row, at = _spans(low, np.where(self.host["sources"][hosts] > most, low, high))
        place = self._reverse[at]
        seen = self.pair["pair_windows"][place] > 0
        return row[seen], self.keys[place[seen]] >> 32

    def knows(self, src: NDArray[Any], dst: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether each pair is remembered; a host of -1 knows nobody."""
        place = self.locate(np.maximum(src, 0), np.maximum(dst, 0))
        if not len(self.keys):
            return np.zeros(len(place), dtype=bool)
        return (place >= 0) & (self.pair["pair_windows"][place] > 0) & (src >= 0) & (dst >= 0)

    def forget(self, number: int) -> None:
        """Now and then, let go of the pairs that have not been seen for long."""
        every = max(1, round(SWEEP / self.hours))
        if number % every:
            return
        before = number - round(MEMORY / self.hours)
        self.accounts.forget(before)
        old = self.pair["pair_windows"] > 0
        old &= self.pair["pair_last"] < before
        if old.any():
            keys = self.keys[old]
            self.pair["pair_windows"][old] = 0
            self.host["targets"] -= np.bincount(keys >> 32, minlength=self.nodes).astype(np.int32)
            self.host["sources"] -= np.bincount(keys & 0xFFFFFFFF, minlength=self.nodes).astype(np.int32)

    def fade_sums(self) -> None:
        """One window has passed."""
        ripe = {old: self.host[young] * (1 - self.fade[young]) for young, old in RIPENS.items()}
        for name, factor in self.fade.items():
            self.host[name] *= factor
        for name, values in ripe.items():
            self.host[name] += values
        self.accounts.fade()
        self.peers.fade()
        self.moves *= 2.0 ** (-self.hours / CLASS_HALF_LIFE)
        self.novelty *= 2.0 ** (-self.hours / NOVELTY_HALF_LIFE)


def check_finite(state: Arrays) -> None:
    for name, values in state.items():
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise DetectorError(
                f"the state's {name!r} holds a value that is not a finite number",
                remedy="The file is damaged: restore it from a copy, or score from the run's own end.",
            )


def origin(clock: Int64, graph: TemporalGraph) -> int:
    """When the first window ever seen began: a clock has that and the windows' width, 0 before any."""
    began, width = (int(value) for value in clock[:2])
    if width not in (0, graph.width):
        raise DetectorError(
            f"the state was made with windows of {width / 1e6:g} s, not of {graph.width / 1e6:g} s",
            remedy="Score with the window that the state was made with.",
        )
    return graph.start if width == 0 else began


def pair_keys(src: Int32, dst: Int32) -> Int64:
    """One number per directed pair."""
    keys: Int64 = (src.astype(np.int64) << 32) | dst.astype(np.int64)
    return keys


def degree_class(degree: NDArray[Any]) -> NDArray[np.int64]:
    """0 for nobody, then one class per doubling."""
    found: NDArray[np.int64] = np.clip(np.frexp(degree.astype(np.float64))[1], 0, CLASSES - 1).astype(
        np.int64
    )
    return found


def _spans(low: NDArray[np.intp], high: NDArray[np.intp]) -> tuple[Int64, Int64]:
    """All numbers of all spans low..high-1, as (which span, number)."""
    length = high - low
    row = np.repeat(np.arange(len(low)), length)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length) + low[row]


def _padded(values: NDArray[Any], nodes: int, fill: int) -> NDArray[Any]:
    padded = np.full((*values.shape[:-1], nodes), fill, dtype=values.dtype)
    padded[..., : values.shape[-1]] = values
    return padded
