"""What injection knows of a silo: its training windows, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entente.detectors.behaviour.memory import HOUR, pair_keys
from entente.graphs.context import NOTHING
from entente.graphs.temporal import TemporalGraph

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Contacts:
    """Contacts to be drawn into a history, in windows; `account` is a code of the history's, or NOTHING."""

    window: Ints
    src: Ints
    dst: Ints
    account: Ints
    failures: Ints

    def __len__(self) -> int:
        return len(self.window)

    @staticmethod
    def of(window: Ints, src: Ints, dst: Ints) -> Contacts:
        """Under no account so far, none of them failed."""
        return Contacts(
            window, src, dst, np.full(len(src), NOTHING, dtype=np.int64), np.zeros(len(src), dtype=np.int64)
        )


class Past:
    """One history, indexed: who knows whom, who is awake when, who is used by many, whose account."""

    def __init__(self, graph: TemporalGraph, first: int) -> None:
        self.graph, self.first = graph, first
        self.hours = graph.width / HOUR
        self.span = graph.num_windows - first
        nodes = graph.num_nodes
        self.known = np.unique(pair_keys(graph.src, graph.dst))
        src, dst = self.known >> 32, self.known & 0xFFFFFFFF
        self.targets = np.bincount(src, minlength=nodes)
        self.sources = np.bincount(dst, minlength=nodes)
        self.hosts = np.flatnonzero(self.targets + self.sources)
        self.senders = np.flatnonzero(self.targets)
        self.row = np.searchsorted(src, np.arange(nodes + 1))
        self.neighbour = dst
        order = np.argsort(dst, kind="stable")
        self.user = src[order]
        self.column = np.searchsorted(dst[order], np.arange(nodes + 1))
        self.window = graph.window_of_edge()
        self.windows_of = np.unique(graph.src.astype(np.int64) * graph.num_windows + self.window)
        received = self.sources[self.hosts]
        busy = max(3.0, float(np.quantile(received, 0.9))) if len(received) else 0.0
        self.servers = self.hosts[received >= busy]
        self.quiet = self.hosts[received <= 1]
        self.account = _usual_accounts(graph)

    @property
    def enough(self) -> bool:
        """Whether there are hosts and windows to draw anything into."""
        return len(self.senders) > 0 and len(self.hosts) >= 8 and self.span > 0

    def targets_of(self, host: int) -> Ints:
        return self.neighbour[self.row[host] : self.row[host + 1]]

    def sources_of(self, host: int) -> Ints:
        return self.user[self.column[host] : self.column[host + 1]]

    def knows(self, source: int, target: int) -> bool:
        own = self.targets_of(source)
        place = int(np.searchsorted(own, target))
        return bool(place < len(own) and own[place] == target)

    def when_awake(self, source: int, window: Ints) -> Ints:
        """Each moment put off to the next window in which the source does something anyway."""
        windows = self.graph.num_windows
        low, high = np.searchsorted(self.windows_of, (source * windows + self.first, (source + 1) * windows))
        awake = self.windows_of[low:high] % windows
        if not len(awake):
            return window
        moved: Ints = np.sort(awake[np.minimum(np.searchsorted(awake, window), len(awake) - 1)])
        return moved

    def busy_window(self, rng: np.random.Generator) -> int:
        """A window of the whole history, the likelier the more happens in it."""
        return int(self.window[int(rng.integers(0, len(self.window)))])


def _usual_accounts(graph: TemporalGraph) -> Ints:
    """The account that each host uses in most windows; NOTHING where the log has none."""
    usual = np.full(graph.num_nodes, NOTHING, dtype=np.int64)
    column = None if graph.context is None else graph.context.user
    if column is None or not column.top.shape[1]:
        return usual
    code = column.top[:, 0].astype(np.int64)
    keys, count = np.unique((graph.src.astype(np.int64) << 32 | code)[code >= 0], return_counts=True)
    order = np.lexsort((count, keys >> 32))
    usual[keys[order] >> 32] = keys[order] & 0xFFFFFFFF  # the last of a host wins: its most frequent
    return usual


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(max(low, high)))))
