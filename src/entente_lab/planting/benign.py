"""Benign work that looks like an attack. All of it carries label 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from entente_lab.planting.base import HOUR, Contact, Generator, IntArray, Traffic, log_uniform

DAY = 24 * HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminBursts(Generator):
    """Somebody maintains many machines within an hour: inventory, repair, migration, a patch by hand."""

    name: ClassVar[str] = "admin-bursts"
    label: ClassVar[int] = 0

    per_day: float = 12.0
    """Bursts a day in the whole log (Poisson), in hours in which many hosts are awake."""
    admins: float = 0.004
    """Share of acting hosts that are admins' machines, at least four; the i-th does 1/i of the first's."""
    strangers: float = 0.25
    """Share of bursts that come from a host that is no admin's machine."""
    size: tuple[int, int] = (5, 40)
    """Machines of a burst, log-uniform."""
    minutes: tuple[float, float] = (10.0, 90.0)
    """Length of a burst, log-uniform."""
    together: float = 0.6
    """Share of bursts whose machines all use one server; the others take any machines."""

    def contacts(self, traffic: Traffic, begin: float, end: float, rng: np.random.Generator) -> list[Contact]:
        acting = np.flatnonzero(traffic.targets > 0)
        admins = rng.choice(acting, min(len(acting), max(4, round(self.admins * len(acting)))), replace=False)
        share = 1 / np.arange(1.0, len(admins) + 1)
        found: list[Contact] = []
        for burst, time in enumerate(working_moments(traffic, self.per_day, begin, end, rng)):
            stranger = rng.random() < self.strangers
            src = int(rng.choice(acting) if stranger else rng.choice(admins, p=share / share.sum()))
            size = round(log_uniform(rng, *self.size))
            pool = self._machines(traffic, size, rng)
            pool = pool[pool != src]
            chosen = rng.choice(pool, min(size, len(pool)), replace=False)
            length = log_uniform(rng, *self.minutes) * 60
            moments = time + length * rng.random(len(chosen))
            found += [
                Contact(float(at), src, int(dst), src, burst)
                for at, dst in zip(moments, chosen, strict=True)
                if at < end
            ]
        return found

    def _machines(self, traffic: Traffic, size: int, rng: np.random.Generator) -> IntArray:
        if rng.random() < self.together:
            servers = np.flatnonzero(traffic.sources >= size)
            if len(servers):
                return traffic.sources_of(int(rng.choice(servers)))
        return np.arange(len(traffic))


@dataclass(frozen=True, slots=True, kw_only=True)
class BenignPivots(Generator):
    """Somebody works on a server that then contacts others: jump host, remote desktop, a script run there."""

    name: ClassVar[str] = "benign-pivots"
    label: ClassVar[int] = 0

    per_day: float = 6.0
    """Pivots a day in the whole log (Poisson), in hours in which many hosts are awake."""
    people: float = 0.01
    """Share of the acting hosts from which people do this, at least five."""
    stones: float = 0.01
    """Share of the hosts with at least three sources that serve as stepping stones, at least three."""
    size: tuple[int, int] = (1, 8)
    """Hosts that the stone contacts afterwards, log-uniform."""
    minutes: tuple[float, float] = (5.0, 120.0)
    """From the first hop to the last contact, log-uniform."""
    second: float = 0.15
    """Probability that the work goes on from one of these hosts to one or two more."""

    def contacts(self, traffic: Traffic, begin: float, end: float, rng: np.random.Generator) -> list[Contact]:
        acting = np.flatnonzero(traffic.targets > 0)
        served = np.flatnonzero(traffic.sources >= 3)
        served = served if len(served) else acting
        people = rng.choice(acting, min(len(acting), max(5, round(self.people * len(acting)))), replace=False)
        stones = rng.choice(served, min(len(served), max(3, round(self.stones * len(served)))), replace=False)
        found: list[Contact] = []
        for number, time in enumerate(working_moments(traffic, self.per_day, begin, end, rng)):
            person, stone = int(rng.choice(people)), int(rng.choice(stones))
            length = log_uniform(rng, *self.minutes) * 60
            targets = rng.choice(len(traffic), round(log_uniform(rng, *self.size)), replace=False).tolist()
            moments = np.sort(time + length * rng.random(len(targets))).tolist()
            hops = [
                (time, person, stone),
                *((at, stone, dst) for at, dst in zip(moments, targets, strict=True)),
            ]
            if rng.random() < self.second:
                on = rng.choice(len(traffic), int(rng.integers(1, 3)), replace=False).tolist()
                hops += [(time + length + 600.0 * (i + 1), targets[-1], dst) for i, dst in enumerate(on)]
            found += [
                Contact(at, src, dst, person, number) for at, src, dst in hops if src != dst and at < end
            ]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyAccounts(Generator):
    """Accounts new on a source without malice: help at a desk, run-as, a borrowed machine."""

    name: ClassVar[str] = "noisy-accounts"
    label: ClassVar[int] = 0

    host_days: float = 0.1
    """Share of the days on which a host is a source that see another host's account there."""
    contacts_each: tuple[int, int] = (1, 5)
    """Contacts under that account, uniform, with targets that the host has in the log anyway."""
    colleague: float = 0.5
    """Share of these accounts that belong to a host which shares a target with this one."""
    admin: float = 0.3
    """Share that belong to a standing set of admins (0.4 % of acting hosts, at least four); else any."""

    def contacts(self, traffic: Traffic, begin: float, end: float, rng: np.random.Generator) -> list[Contact]:
        acting = np.flatnonzero(traffic.targets > 0)
        admins = rng.choice(acting, min(len(acting), max(4, round(0.004 * len(acting)))), replace=False)
        midnight = traffic.first // DAY * DAY
        found: list[Contact] = []
        hosts, days = np.nonzero(traffic.active & (rng.random(traffic.active.shape) < self.host_days))
        for number, (host, day) in enumerate(zip(hosts.tolist(), days.tolist(), strict=True)):
            guest = self._guest(traffic, host, acting, admins, rng)
            hour = int(rng.choice(np.flatnonzero(traffic.awake[host])))
            start = midnight + day * DAY + (hour + rng.random()) * HOUR
            count = int(rng.integers(self.contacts_each[0], self.contacts_each[1] + 1))
            targets = rng.choice(traffic.targets_of(host), count).tolist()
            moments = np.sort(start + 1800 * rng.random(count)).tolist()
            found += [
                Contact(at, host, dst, guest, number)
                for at, dst in zip(moments, targets, strict=True)
                if begin <= at < end and guest != host
            ]
        return found

    def _guest(
        self, traffic: Traffic, host: int, acting: IntArray, admins: IntArray, rng: np.random.Generator
    ) -> int:
        way = rng.random()
        if way < self.colleague:
            return int(rng.choice(traffic.peers(host, rng)))
        return int(rng.choice(admins if way < self.colleague + self.admin else acting))


def working_moments(
    traffic: Traffic, per_day: float, begin: float, end: float, rng: np.random.Generator
) -> list[float]:
    """Moments of a Poisson process whose rate follows how many hosts are awake at that hour of the day."""
    level = traffic.awake.mean(axis=0)
    level = level / level.mean() if level.sum() else np.ones(24)
    count = rng.poisson(per_day * (end - begin) / DAY * level.max())
    moments = np.sort(rng.uniform(begin, end, count))
    kept = rng.random(count) * level.max() < level[(moments // HOUR).astype(np.int64) % 24]
    found: list[float] = moments[kept].tolist()
    return found
