"""What a baseline remembers of the windows it has seen: counts by pair, source and target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.detectors.base import Candidates, State
from entente.errors import DetectorError
from entente.graphs.temporal import Float32, Int32, Int64, TemporalGraph

Float64 = NDArray[np.float64]

NEVER = np.iinfo(np.int64).min
DECAY = 0.5
"""Share of a window's counts that MIDAS-R carries into the next one."""

PAIR_STATE = {"pairs": "i8", "pair_windows": "i8", "pair_last": "i8", "pair_events": "f8", "pair_now": "f8"}
NODE_STATE = {
    "sources": "i8",
    "source_events": "f8",
    "source_now": "f8",
    "target_events": "f8",
    "target_now": "f8",
}


def pair_keys(src: Int32, dst: Int32) -> Int64:
    """One number per directed pair."""
    keys: Int64 = (src.astype(np.int64) << 32) | dst.astype(np.int64)
    return keys


@dataclass(frozen=True, slots=True, eq=False)
class PairWindow:
    """The pairs to be scored in one window; `place` is where a pair is counted, or -1 where it never was."""

    start: int
    src: Int32
    dst: Int32
    place: NDArray[np.intp]
    keys: Int64


class Counts:
    """Exact counts up to a window, by pair and by node; opened from a state and written back as one.

    The pairs that `graph` will bring are given a place at once, so that each window costs only its edges.
    """

    def __init__(self, state: State, graph: TemporalGraph) -> None:
        missing = (PAIR_STATE.keys() | NODE_STATE.keys() | {"windows"}) - state.keys()
        if missing:
            raise DetectorError(
                f"the state lacks {', '.join(sorted(missing))}", remedy="Use a state of the same rule."
            )
        if len(state["sources"]) > graph.num_nodes:
            raise DetectorError("the state knows more hosts than the graph has")
        known = state["pairs"]
        self.keys = np.union1d(known, pair_keys(graph.src, graph.dst))
        old = np.searchsorted(self.keys, known)
        self.windows = int(state["windows"][0])
        self.pair = {
            name: np.full(len(self.keys), NEVER if name == "pair_last" else 0, dtype=kind)
            for name, kind in PAIR_STATE.items()
            if name != "pairs"
        }
        for name, values in self.pair.items():
            values[old] = state[name]
        self.node = {name: _padded(state[name], graph.num_nodes, kind) for name, kind in NODE_STATE.items()}

    @staticmethod
    def empty(nodes: int) -> State:
        """The state before any window."""
        state = {name: np.zeros(0, dtype=kind) for name, kind in PAIR_STATE.items()}
        state |= {name: np.zeros(nodes, dtype=kind) for name, kind in NODE_STATE.items()}
        return state | {"windows": np.zeros(1, dtype=np.int64)}

    def state(self) -> State:
        """Everything counted so far, pairs in ascending order."""
        seen = self.pair["pair_windows"] > 0
        kept = {name: values[seen] for name, values in self.pair.items()}
        return kept | self.node | {"pairs": self.keys[seen], "windows": np.array([self.windows], np.int64)}

    def locate(self, keys: Int64) -> NDArray[np.intp]:
        """Where each pair is counted; -1 for a pair that neither the state nor the graph has."""
        if not len(self.keys):
            return np.full(len(keys), -1, dtype=np.intp)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, place, -1)

    def of_pair(self, name: str, window: PairWindow) -> NDArray[Any]:
        """A pair's count before this window; zero (or never) for a pair without a place."""
        values = self.pair[name]
        if not len(values):
            return np.full(len(window.src), NEVER if name == "pair_last" else 0, dtype=PAIR_STATE[name])
        found: NDArray[Any] = np.where(
            window.place < 0, NEVER if name == "pair_last" else 0, values[window.place]
        )
        return found

    def decay(self) -> None:
        """Open a window: what MIDAS-R counts as current fades, then the window's events come on top."""
        self.windows += 1
        for values in (self.pair["pair_now"], self.node["source_now"], self.node["target_now"]):
            values *= DECAY

    def add_events(self, window: PairWindow, weight: Float32) -> None:
        """Count a window's events by pair, source and target."""
        heavy = weight.astype(np.float64)
        for name in ("pair_events", "pair_now"):
            np.add.at(self.pair[name], window.place, heavy)
        nodes = len(self.node["sources"])
        for end, of_node in (("source", window.src), ("target", window.dst)):
            counts = np.bincount(of_node, heavy, nodes)
            self.node[f"{end}_events"] += counts
            self.node[f"{end}_now"] += counts

    def close(self, window: PairWindow, time: Int64) -> None:
        """Close a window: its pairs have been seen once more, its new pairs are new sources of targets."""
        place, first = np.unique(window.place, return_index=True)
        new = self.pair["pair_windows"][place] == 0
        self.node["sources"] += np.bincount(window.dst[first[new]], minlength=len(self.node["sources"]))
        self.pair["pair_windows"][place] += 1
        np.maximum.at(self.pair["pair_last"], window.place, time)


def window_of(counts: Counts, start: int, src: Int32, dst: Int32) -> PairWindow:
    keys = pair_keys(src, dst)
    return PairWindow(start, src, dst, counts.locate(keys), keys)


def slices(graph: TemporalGraph, candidates: Candidates | None) -> Int64:
    """Offsets by window of what is to be scored."""
    if candidates is None:
        return graph.offsets
    return np.searchsorted(candidates.window, np.arange(graph.num_windows + 1)).astype(np.int64)


def _padded(values: NDArray[Any], nodes: int, kind: str) -> NDArray[Any]:
    padded = np.zeros(nodes, dtype=kind)
    padded[: len(values)] = values
    return padded
