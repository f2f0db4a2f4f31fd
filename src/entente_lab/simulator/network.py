"""Traffic of a large network, drawn straight as a graph: only who reaches whom, and how often.

A company of `company.py` has a few hundred hosts with jobs. Large networks look different: reach and
popularity are heavy-tailed, many pairs show up for the first time in any week, hosts that reach many others
work in bursts, and clients meet servers outside that nobody has met. Every parameter is drawn from the seed,
widely, so that a model which learns from many of them fits more than one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entente.graphs.temporal import TemporalGraph

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

WINDOW = 1800
PER_DAY = 86_400 // WINDOW
MOST_EDGES = 300_000
"""Edges of a whole log, about."""


@dataclass(frozen=True, slots=True)
class NetworkShape:
    """What one network is like; `drawn` makes any."""

    hosts: int
    days: int
    edges: float  # distinct pairs in a window, mean
    reach: float  # median number of a host's targets
    reach_spread: float  # of its logarithm
    popularity: float  # exponent of Zipf's law
    community: float  # hosts of a community, mean
    local: float  # share of targets within the community
    anyone: float  # share of targets drawn uniformly
    pace_spread: float  # of the logarithm of a pair's rate
    late: float  # share of pairs that begin later ...
    late_days: float  # ... within so many days
    always_on: float  # share of hosts without working hours
    night: float  # activity outside working hours
    weekend: float  # share of work that rests at the weekend
    bursty: float  # share of far-reaching hosts that work in bursts
    burst_share: float  # share of windows with such a burst
    browsing: float  # share of hosts that meet hosts outside; 0 in most networks
    pages: float  # such contacts of one host in an active window
    outside: int  # hosts outside

    @staticmethod
    def drawn(rng: np.random.Generator) -> NetworkShape:
        days = int(rng.integers(5, 13))
        most = MOST_EDGES / (days * PER_DAY)
        browsing = float(rng.uniform(0.2, 1.0)) if rng.random() < 0.4 else 0.0
        return NetworkShape(
            hosts=round(_log_uniform(rng, 300, 8000)),
            days=days,
            edges=_log_uniform(rng, 60, most),
            reach=_log_uniform(rng, 1.5, 12),
            reach_spread=float(rng.uniform(0.8, 1.8)),
            popularity=float(rng.uniform(0.6, 1.3)),
            community=_log_uniform(rng, 30, 400),
            local=float(rng.uniform(0.1, 0.8)),
            anyone=float(rng.uniform(0.0, 0.3)),
            pace_spread=float(rng.uniform(1.0, 2.8)),
            late=float(rng.uniform(0.05, 0.45)),
            late_days=_log_uniform(rng, 6, 90),
            always_on=float(rng.uniform(0.02, 0.5)),
            night=float(rng.uniform(0.02, 0.4)),
            weekend=float(rng.uniform(0.2, 0.95)),
            bursty=float(rng.uniform(0.0, 0.9)),
            burst_share=_log_uniform(rng, 0.004, 0.05),
            browsing=browsing,
            pages=_log_uniform(rng, 0.05, 1.5),
            outside=round(_log_uniform(rng, 1000, 40_000)),
        )


def draw_network(seed: int, shape: NetworkShape | None = None) -> TemporalGraph:
    """One network's windows; the same seed gives the same graph."""
    rng = np.random.default_rng([seed, 2002])
    shape = shape or NetworkShape.drawn(rng)
    src, dst = _pairs(shape, rng)
    rate = rng.lognormal(0.0, shape.pace_spread, len(src))
    late = rng.random(len(src)) < shape.late
    born = np.where(late, rng.uniform(0, shape.late_days * PER_DAY, len(src)), 0.0)
    clock = _Clock(shape, src, rng)
    windows = shape.days * PER_DAY
    probe = [clock.level(w) * (born <= w) for w in np.linspace(0, windows - 1, 24).astype(int)]
    rate *= _scale(rate, probe, shape.edges)
    browsers = np.flatnonzero(rng.random(shape.hosts) < shape.browsing)
    pages = shape.pages * rng.lognormal(0.0, 0.8, len(browsers))
    found = []
    for window in range(windows):
        chance = -np.expm1(-rate * clock.level(window) * (born <= window))
        chosen = np.flatnonzero(rng.random(len(src)) < chance)
        out = np.repeat(browsers, rng.poisson(pages * clock.of_hosts(window)[browsers]))
        met = shape.hosts + _zipf(rng, shape.outside, 1.0, len(out))
        key = np.unique(np.concatenate(((src[chosen] << 32) | dst[chosen], (out << 32) | met)))
        found.append(key)
    return _graph(found)


class _Clock:
    """How active each pair's source is in a window."""

    def __init__(self, shape: NetworkShape, src: Ints, rng: np.random.Generator) -> None:
        hosts, windows = shape.hosts, shape.days * PER_DAY
        self._shape, self._src = shape, src
        self._shift = rng.normal(0.0, 1.5, hosts)
        self._always = rng.random(hosts) < shape.always_on
        reach = np.bincount(src, minlength=hosts)
        far = reach >= max(20.0, float(np.quantile(reach, 0.97)))
        hub = far & (rng.random(hosts) < shape.bursty)
        self._bursty = hub[src] & (rng.random(len(src)) < 0.8)
        self._hub = np.where(hub, np.cumsum(hub) - 1, 0)
        self._burst = rng.random((windows, max(1, int(hub.sum())))) < shape.burst_share

    def of_hosts(self, window: int) -> Floats:
        hour = window * 24.0 / PER_DAY
        day = self._shape.night + np.exp(-(((hour % 24.0 - 13.0 - self._shift) / 4.0) ** 2))
        rest = self._shape.weekend if hour // 24 % 7 >= 5 else 0.0
        return np.where(self._always, 0.6, day * (1.0 - rest))

    def level(self, window: int) -> Floats:
        bursts = 0.8 / self._shape.burst_share * self._burst[window][self._hub[self._src]]
        return np.where(self._bursty, bursts, self.of_hosts(window)[self._src])


def _pairs(shape: NetworkShape, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Who ever reaches whom: heavy-tailed on both sides, more within communities."""
    hosts = shape.hosts
    reach = np.minimum(rng.lognormal(np.log(shape.reach), shape.reach_spread, hosts), hosts / 3)
    count = rng.poisson(reach)
    src = np.repeat(np.arange(hosts), count)
    rank = rng.permutation(hosts)  # host of each rank of popularity
    dst = rank[_zipf(rng, hosts, shape.popularity, len(src))]
    way = rng.random(len(src))
    groups = max(1, round(hosts / shape.community))
    group = rng.integers(0, groups, hosts)
    members = np.argsort(group, kind="stable")
    begin = np.searchsorted(group[members], np.arange(groups + 1))
    own = group[src]
    size = begin[own + 1] - begin[own]
    place = np.minimum((size * rng.random(len(src)) ** 3).astype(np.int64), size - 1)
    near = members[begin[own] + place]
    dst = np.where(way < shape.local, near, dst)
    anyone = way > 1.0 - shape.anyone
    dst = np.where(anyone, rng.integers(0, hosts, len(src)), dst)
    key = np.unique((src << 32) | dst)
    key = key[key >> 32 != key & 0xFFFFFFFF]
    return key >> 32, key & 0xFFFFFFFF


def _zipf(rng: np.random.Generator, ranks: int, exponent: float, count: int) -> Ints:
    """Ranks 0.. with probabilities falling as a power."""
    weight = np.cumsum(np.arange(1.0, ranks + 1.0) ** -exponent)
    found: Ints = np.searchsorted(weight, rng.random(count) * weight[-1]).astype(np.int64)
    return found


def _scale(rate: Floats, probe: list[Floats], edges: float) -> float:
    """The factor at which a window has so many distinct pairs on the average, as near as bisection comes."""
    low, high = 1e-9, 1e3
    for _ in range(40):
        middle = (low * high) ** 0.5
        mean = np.mean([-np.expm1(-middle * rate * level).sum() for level in probe])
        low, high = (middle, high) if mean < edges else (low, middle)
    return low


def _graph(windows: list[Ints]) -> TemporalGraph:
    """Keys (src, dst) of every window as a graph, hosts numbered in the order in which they appear."""
    key = np.concatenate(windows)
    offsets = np.concatenate(([0], np.cumsum([len(part) for part in windows])))
    ends = np.stack((key >> 32, key & 0xFFFFFFFF), axis=1).ravel()
    names, first, number = np.unique(ends, return_index=True, return_inverse=True)
    place = np.empty(len(names), dtype=np.int32)
    place[np.argsort(first, kind="stable")] = np.arange(len(names), dtype=np.int32)
    src, dst = place[number].reshape(-1, 2).T
    width = WINDOW * 1_000_000
    return TemporalGraph(
        rows=np.arange(len(names), dtype=np.int32)[:, None],
        table_size=len(names),
        start=0,
        width=width,
        offsets=offsets.astype(np.int64),
        src=np.ascontiguousarray(src),
        dst=np.ascontiguousarray(dst),
        time=np.repeat(np.arange(len(windows)) * width, np.diff(offsets)).astype(np.int64),
        weight=np.ones(len(key), dtype=np.float32),
    ).in_order()


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(max(low, high)))))
