"""Campaigns drawn into a silo's own history: what the network learns to tell from everyday traffic.

A campaign is an intruder who holds one host and contacts others from it. The distributions are broad on
purpose: small and large, an hour and the whole span, in sessions, around the clock or only while the held
host is awake, staying put or moving on. They know no label, no test window and no other silo.

In ATT&CK's terms: discovery from a foothold (T1018, T1046, T1135) is many targets from one source; lateral
movement (T1021) is pivoting; living off the held host's working hours is `awake`; the slow chain is the
patient intruder with hours between two steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entente.detectors.behaviour.memory import HOUR, pair_keys
from entente.graphs.temporal import Int32, TemporalGraph

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How campaigns are drawn. Rates are per replica of a history; `U` is uniform, `logU` log-uniform."""

    quick: float = 0.6
    """Share of quick campaigns: size logU(2, `largest`), length logU(half an hour, the whole span)."""
    slow: float = 0.4
    """Share of slow chains: 3 to 59 contacts, mean gap logU(1 h, 12 h), moving on with U(.1, .5)."""
    largest: int = 200
    """Most contacts of a quick campaign; never more than half of the hosts."""
    hosts_per_campaign: float = 20.0
    """One campaign for so many hosts of the silo ..."""
    fewest: int = 4
    most: int = 30
    """... but at least and at most so many in one replica."""
    pivots: tuple[float, ...] = (0.0, 0.05, 0.2)
    """Chance that a quick campaign goes on from the host it has just reached."""
    repeats: float = 0.4
    """Up to this share of a campaign's contacts is made again later."""
    sessions: float = 0.5
    """Share of quick campaigns whose contacts come in sessions."""
    awake: float = 0.5
    """Share of campaigns that act only in windows in which the first held host is active."""


@dataclass(frozen=True, slots=True, eq=False)
class Replica:
    """A history with campaigns in it. `campaign` is 0 for the silo's own edges, else a number from 1 on."""

    graph: TemporalGraph
    campaign: Int32


class Injector:
    """Draws campaigns into the windows from `first` on of one history."""

    def __init__(self, graph: TemporalGraph, first: int, recipe: Recipe | None = None) -> None:
        self.graph, self.first, self.recipe = graph, first, recipe or Recipe()
        self.hours = graph.width / HOUR
        nodes = graph.num_nodes
        self.known = np.unique(pair_keys(graph.src, graph.dst))
        pair_src, pair_dst = self.known >> 32, self.known & 0xFFFFFFFF
        self.targets = np.bincount(pair_src, minlength=nodes)
        self.sources = np.bincount(pair_dst, minlength=nodes)
        self.hosts = np.flatnonzero(self.targets + self.sources)
        self.senders = np.flatnonzero(self.targets)
        self.row = np.searchsorted(pair_src, np.arange(nodes + 1))
        self.neighbour = pair_dst
        window = graph.window_of_edge()
        self.windows_of = np.unique(graph.src.astype(np.int64) * graph.num_windows + window)
        received = self.sources[self.hosts]
        self.servers = (
            self.hosts[received >= max(3.0, float(np.quantile(received, 0.9)))]
            if len(self.hosts)
            else self.hosts
        )
        self.quiet = self.hosts[received <= 1]

    def draw(self, rng: np.random.Generator) -> Replica:
        """One replica; the history alone where it is too short or too small for a campaign."""
        recipe, graph = self.recipe, self.graph
        count = int(np.clip(len(self.hosts) / recipe.hosts_per_campaign, recipe.fewest, recipe.most))
        parts: list[tuple[Ints, Ints, Ints]] = []
        if len(self.senders) and len(self.hosts) >= 8 and self.first < graph.num_windows:
            for _ in range(count):
                slow = rng.random() < recipe.slow / (recipe.slow + recipe.quick)
                parts.append(self._slow(rng) if slow else self._quick(rng))
        return self._merged(parts)

    # ---- two kinds of campaign -------------------------------------------------------------

    def _quick(self, rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
        recipe, span = self.recipe, self.graph.num_windows - self.first
        source = self._foothold(rng)
        largest = max(2.0, min(float(recipe.largest), len(self.hosts) / 2))
        size = round(_log_uniform(rng, 2.0, largest))
        length = min(span, max(1, round(_log_uniform(rng, 0.5, span * self.hours) / self.hours)))
        begin = self.first + int(rng.integers(0, span - length + 1))
        window = self._moments(rng, source, begin, length, size)
        pivot = float(rng.choice(recipe.pivots))
        src, dst = self._contacts(rng, source, len(window), pivot, 0.0)
        return self._again(rng, window[: len(src)], src, dst, rng.uniform(0, recipe.repeats), begin + length)

    def _slow(self, rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
        span = self.graph.num_windows - self.first
        source = self._foothold(rng)
        size = int(rng.integers(3, 60))
        gap = _log_uniform(rng, 1.0, 12.0) / self.hours
        begin = self.first + rng.uniform(0, span * 0.7)
        moment = begin + np.cumsum(rng.exponential(gap, size)) - gap
        window = np.floor(moment).astype(np.int64)
        window = np.maximum(window[window < self.graph.num_windows], self.first)
        if rng.random() < 0.4:
            window = np.unique(self._when_awake(rng, source, window))
        src, dst = self._contacts(rng, source, len(window), rng.uniform(0.1, 0.5), 0.1)
        return self._again(rng, window[: len(src)], src, dst, rng.uniform(0, 0.35), self.graph.num_windows)

    # ---- who, when, whom -------------------------------------------------------------------

    def _foothold(self, rng: np.random.Generator) -> int:
        """Mostly any sender, sometimes a busy one, sometimes a host that has sent nothing so far."""
        draw = rng.random()
        if draw < 0.15:
            return int(rng.choice(self.hosts))
        if draw < 0.3:
            weight = np.sqrt(self.targets[self.senders])
            return int(rng.choice(self.senders, p=weight / weight.sum()))
        return int(rng.choice(self.senders))

    def _moments(self, rng: np.random.Generator, source: int, begin: int, length: int, size: int) -> Ints:
        if rng.random() < self.recipe.sessions:
            sessions = max(1, int(rng.integers(1, 2 + max(1, size // 4))))
            middle = rng.uniform(0, length, sessions)
            spread = _log_uniform(rng, 0.25, 4.0) / self.hours
            drawn = middle[rng.integers(0, sessions, size)] + rng.exponential(spread, size)
        else:
            drawn = rng.uniform(0, length, size)
        window: Ints = np.sort(begin + np.minimum(np.floor(drawn).astype(np.int64), length - 1))
        if rng.random() < self.recipe.awake:
            window = self._when_awake(rng, source, window)
        return window

    def _when_awake(self, rng: np.random.Generator, source: int, window: Ints) -> Ints:
        """Each moment put off to the next window in which the source does something anyway."""
        windows = self.graph.num_windows
        low, high = np.searchsorted(self.windows_of, (source * windows + self.first, (source + 1) * windows))
        awake = self.windows_of[low:high] % windows
        if not len(awake):
            return window
        moved: Ints = np.sort(awake[np.minimum(np.searchsorted(awake, window), len(awake) - 1)])
        return moved

    def _contacts(
        self, rng: np.random.Generator, source: int, count: int, pivot: float, back: float
    ) -> tuple[Ints, Ints]:
        """Targets one after another, none of which the host that is held at the time knows."""
        mix = rng.dirichlet(np.full(5, 0.4))
        power = rng.uniform(0.0, 1.0)
        held, current, made = [source], source, set()
        src, dst = [], []
        for _ in range(count):
            for _ in range(8):
                target = self._target(rng, current, int(rng.choice(5, p=mix)), power)
                if target != current and (current, target) not in made and not self._knows(current, target):
                    break
            else:
                continue
            made.add((current, target))
            src.append(current)
            dst.append(target)
            if rng.random() < pivot:
                held.append(target)
                current = target
            elif rng.random() < back:
                current = held[int(rng.integers(0, len(held)))]
        return np.array(src, dtype=np.int64), np.array(dst, dtype=np.int64)

    def _target(self, rng: np.random.Generator, source: int, kind: int, power: float) -> int:
        if kind == 1:  # popular hosts
            edge = self.neighbour[int(rng.integers(0, len(self.neighbour)))]
            return int(edge) if rng.random() < power else int(rng.choice(self.hosts))
        if kind == 2:  # a neighbour's neighbour
            at = source
            for _ in range(2):
                low, high = self.row[at], self.row[at + 1]
                if high == low:
                    break
                at = int(self.neighbour[int(rng.integers(low, high))])
            return at if at != source else int(rng.choice(self.hosts))
        pool = {3: self.servers, 4: self.quiet}.get(kind, self.hosts)
        return int(rng.choice(pool if len(pool) else self.hosts))

    def _knows(self, source: int, target: int) -> bool:
        low, high = self.row[source], self.row[source + 1]
        place = low + int(np.searchsorted(self.neighbour[low:high], target))
        return bool(place < high and self.neighbour[place] == target)

    @staticmethod
    def _again(
        rng: np.random.Generator, window: Ints, src: Ints, dst: Ints, share: float, end: int
    ) -> tuple[Ints, Ints, Ints]:
        chosen = np.flatnonzero(rng.random(len(src)) < share)
        later = window[chosen] + np.floor(rng.random(len(chosen)) * (end - window[chosen])).astype(np.int64)
        return (
            np.concatenate((window, later)),
            np.concatenate((src, src[chosen])),
            np.concatenate((dst, dst[chosen])),
        )

    # ---- into the history ------------------------------------------------------------------

    def _merged(self, parts: list[tuple[Ints, Ints, Ints]]) -> Replica:
        """The silo's own edges and the campaigns', in a graph's order; no pair twice in a window."""
        graph = self.graph
        own = graph.num_edges
        sizes = [len(part[0]) for part in parts]
        number = np.repeat(np.arange(1, len(parts) + 1), sizes)
        window, src, dst = (
            np.concatenate([first, *(part[at] for part in parts)]).astype(np.int64)
            for at, first in enumerate((graph.window_of_edge(), graph.src, graph.dst))
        )
        campaign = np.concatenate((np.zeros(own, dtype=np.int64), number))
        order = np.lexsort((campaign, dst, src, window))
        keep = np.ones(len(order), dtype=bool)
        same = [np.diff(values[order]) == 0 for values in (window, src, dst)]
        keep[1:] = ~(same[0] & same[1] & same[2])
        order = order[keep]
        events = np.concatenate((graph.weight, np.ones(len(number), dtype=np.float32)))
        time = np.concatenate((graph.time, graph.start + window[own:] * graph.width))
        merged = TemporalGraph(
            rows=graph.rows,
            table_size=graph.table_size,
            start=graph.start,
            width=graph.width,
            offsets=np.searchsorted(window[order], np.arange(graph.num_windows + 1)).astype(np.int64),
            src=src[order].astype(np.int32),
            dst=dst[order].astype(np.int32),
            time=time[order],
            weight=events[order],
        )
        return Replica(merged, campaign[order].astype(np.int32))


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(max(low, high)))))
