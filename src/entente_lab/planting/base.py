"""What a generator knows of the log it plants into, and what it hands back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Contact:
    """One host reaches another, once: seconds of the log's clock, hosts and account by number."""

    time: float
    src: int
    dst: int
    account: int
    """The host whose usual account is used."""
    campaign: int
    failures: int = 0
    """Attempts that failed within the minutes before."""


@dataclass(frozen=True, slots=True, eq=False)
class Planted:
    """The log with what was planted."""

    events: pa.Table
    contacts: pa.Table
    """time (microseconds), src, dst, user, campaign, label; one row per contact, in time order."""


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """The log's hosts and distinct pairs; hosts are numbered in the order of their names."""

    names: NDArray[np.str_]
    src: IntArray  # of the pairs, sorted by (src, dst)
    dst: IntArray
    by_dst: IntArray  # order of the pairs by (dst, src)
    sources: IntArray  # distinct sources per host
    targets: IntArray  # distinct targets per host
    awake: NDArray[np.bool_]  # [host, hour of the day]: hours in which the host is a source
    active: NDArray[np.bool_]  # [host, day from the first]: days on which the host is a source
    first: float  # seconds
    last: float

    def __len__(self) -> int:
        return len(self.names)

    def known(self, src: int, dst: int) -> bool:
        """Whether the log has the pair at any time."""
        targets = self.targets_of(src)
        place = int(np.searchsorted(targets, dst))
        return place < len(targets) and int(targets[place]) == dst

    def targets_of(self, host: int) -> IntArray:
        low, high = np.searchsorted(self.src, [host, host + 1])
        return self.dst[low:high]

    def sources_of(self, host: int) -> IntArray:
        ordered = self.dst[self.by_dst]
        low, high = np.searchsorted(ordered, [host, host + 1])
        return self.src[self.by_dst[low:high]]

    def peers(self, host: int, rng: np.random.Generator) -> IntArray:
        """Hosts that use one of the host's targets too."""
        targets = self.targets_of(host)
        if not len(targets):
            return targets
        return self.sources_of(int(rng.choice(targets)))

    def ordinary_sources(self) -> IntArray:
        """Hosts that act, without the tenth that reaches most others."""
        acting = np.flatnonzero(self.targets > 0)
        return acting[self.targets[acting] <= np.quantile(self.targets[acting], 0.9)]

    def footholds(self, count: int, rng: np.random.Generator) -> list[int]:
        """Ordinary sources, each another; all of them where there are fewer."""
        pool = self.ordinary_sources()
        chosen: list[int] = rng.choice(pool, min(count, len(pool)), replace=False).tolist()
        return chosen

    def busiest(self) -> IntArray:
        """The tenth of the acting hosts that reaches most others: servers, management, admins' machines."""
        acting = np.flatnonzero(self.targets > 0)
        return acting[self.targets[acting] >= np.quantile(self.targets[acting], 0.9)]

    def is_awake(self, host: int, seconds: float) -> bool:
        return bool(self.awake[host, int(seconds // HOUR) % 24])


def pick_target(
    traffic: Traffic, src: int, taken: set[tuple[int, int]], rng: np.random.Generator
) -> int | None:
    """A target that the source never has in the log and that the campaign has not used from there.

    Half by the square root of how many sources a host has, three tenths uniform, two tenths a target of
    a host that shares a target with the source.
    """
    weight = np.sqrt(traffic.sources + 1.0)
    weight /= weight.sum()
    for _ in range(40):
        way = rng.random()
        if way < 0.5:
            dst = int(rng.choice(len(traffic), p=weight))
        elif way < 0.8:
            dst = int(rng.integers(len(traffic)))
        else:
            peers = traffic.peers(src, rng)
            if not len(peers):
                continue
            dst = int(rng.choice(traffic.targets_of(int(rng.choice(peers)))))
        if dst != src and (src, dst) not in taken and not traffic.known(src, dst):
            return dst
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator(ABC):
    """One kind of thing to plant; the fields are its parameters."""

    name: ClassVar[str]
    label: ClassVar[int]
    """1 malicious, 0 benign."""

    @abstractmethod
    def contacts(self, traffic: Traffic, begin: float, end: float, rng: np.random.Generator) -> list[Contact]:
        """What happens in [begin, end), in any order."""


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
