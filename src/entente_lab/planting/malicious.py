"""Attackers of three makes. All their contacts carry label 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from entente_lab.planting.base import HOUR, Contact, Generator, Traffic, log_uniform, pick_target


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowChains(Generator):
    """One contact every few hours, moving on to hosts it has reached."""

    name: ClassVar[str] = "slow-chains"
    label: ClassVar[int] = 1

    campaigns: int = 6
    """Chains, each with its own first host; they begin in the first 40 % of the span."""
    gap_hours: tuple[float, float] = (2.0, 8.0)
    """Mean hours between contacts, log-uniform per chain; the gaps are exponential."""
    contacts_each: tuple[int, int] = (8, 40)
    """Contacts of a chain, log-uniform; fewer if the log ends before."""
    move_on: tuple[float, float] = (0.15, 0.45)
    """Probability per contact of going on from the host just reached, uniform per chain."""
    repeats: tuple[float, float] = (0.0, 0.3)
    """Share of contacts that repeat an earlier pair of the chain, uniform per chain."""
    office_hours: float = 0.5
    """Share of chains that act only in hours in which their present host is otherwise a source."""
    carried: bool = False
    """Whether the chain keeps the account of its first host; else each host's own account is used."""
    stolen: float = 0.0
    """Share of campaigns that act under one stolen account, of a host in the tenth with most targets."""

    def contacts(self, traffic: Traffic, begin: float, end: float, rng: np.random.Generator) -> list[Contact]:
        found: list[Contact] = []
        starts = traffic.footholds(self.campaigns, rng)
        for campaign, first in enumerate(starts):
            made = self._chain(campaign, first, traffic, begin, end, rng)
            found += _under_stolen_account(made, self.stolen, traffic, rng)
        return found

    def _chain(
        self, campaign: int, first: int, traffic: Traffic, begin: float, end: float, rng: np.random.Generator
    ) -> list[Contact]:
        gap = log_uniform(rng, *self.gap_hours) * HOUR
        size = round(log_uniform(rng, *self.contacts_each))
        move_on, repeats = rng.uniform(*self.move_on), rng.uniform(*self.repeats)
        waits = rng.random() < self.office_hours
        time = begin + 0.4 * (end - begin) * rng.random()
        host, made, taken = first, list[Contact](), set[tuple[int, int]]()
        while len(made) < size:
            time += rng.exponential(gap)
            if waits and traffic.targets[host]:
                time = _wait(traffic, host, time, rng)
            if time >= end:
                break
            account = first if self.carried else host
            if taken and rng.random() < repeats:
                old = made[int(rng.integers(len(made)))]
                account = first if self.carried else old.src
                made.append(Contact(time, old.src, old.dst, account, campaign))
                continue
            dst = pick_target(traffic, host, taken, rng)
            if dst is None:
                host = first if host != first else int(rng.choice(traffic.ordinary_sources()))
                continue
            taken.add((host, dst))
            made.append(Contact(time, host, dst, account, campaign))
            if rng.random() < move_on:
                host = dst
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowOperator(Generator):
    """A slow attacker of another make: a person who works at fixed hours from one base.

    On some days, at the operator's own hour, one short sitting: from the base over a stepping stone that
    is kept for days to one or two targets, chosen among what the stone's peers use. Part of the contacts
    use pairs that the log has anyway; some attempts fail first. Nothing is drawn as in `SlowChains`.
    """

    name: ClassVar[str] = "slow-operator"
    label: ClassVar[int] = 1

    campaigns: int = 6
    """Operators, each with a base of its own; they begin within the first quarter of the span."""
    days_between: float = 0.8
    """Mean whole days without a sitting between two sittings (geometric)."""
    sitting_minutes: tuple[float, float] = (15.0, 120.0)
    """Length of a sitting, uniform."""
    new_stone: float = 0.35
    """Probability per sitting of a new stepping stone."""
    known: float = 0.25
    """Share of sittings whose second hop goes to a host that the stone talks to anyway."""
    failed: float = 0.3
    """Probability that a contact is preceded by one to three failed attempts."""
    carried: bool = True
    """Whether the operator uses the account of the base everywhere; else each host's own."""

    def contacts(self, traffic: Traffic, begin: float, end: float, rng: np.random.Generator) -> list[Contact]:
        found: list[Contact] = []
        bases = traffic.footholds(self.campaigns, rng)
        for campaign, base in enumerate(bases):
            hour = rng.uniform(0, 24) * HOUR
            day = begin + 0.25 * (end - begin) * rng.random()
            taken: set[tuple[int, int]] = set()
            stone = self._reach(traffic, base, taken, rng)
            while True:
                time = day + (hour - day) % (24 * HOUR) + rng.normal(0, 0.5 * HOUR)
                if time >= end:
                    break
                if rng.random() < self.new_stone:
                    stone = self._reach(traffic, base, taken, rng)
                found += self._sitting(campaign, base, stone, max(time, begin), end, traffic, taken, rng)
                day += 24 * HOUR * rng.geometric(1 / (1 + self.days_between))
        return found

    def _reach(
        self, traffic: Traffic, src: int, taken: set[tuple[int, int]], rng: np.random.Generator
    ) -> int:
        """What the source's peers use and the source does not, if there is such; else any host that acts."""
        for _ in range(20):
            peers = traffic.peers(src, rng)
            pool = traffic.targets_of(int(rng.choice(peers))) if len(peers) else peers
            pool = pool[pool != src]
            if len(pool):
                dst = int(rng.choice(pool))
                if (src, dst) not in taken and not traffic.known(src, dst):
                    return dst
        others = np.flatnonzero((traffic.targets > 0) & (np.arange(len(traffic)) != src))
        return int(rng.choice(others))

    def _sitting(
        self,
        campaign: int,
        base: int,
        stone: int,
        begin: float,
        end: float,
        traffic: Traffic,
        taken: set[tuple[int, int]],
        rng: np.random.Generator,
    ) -> list[Contact]:
        length = rng.uniform(*self.sitting_minutes) * 60
        moments = np.sort(begin + length * rng.random(3))
        hops = [(base, stone)]
        for _ in range(int(rng.integers(1, 3))):
            own = traffic.targets_of(stone)
            rides = rng.random() < self.known and len(own) > 0
            dst = int(rng.choice(own)) if rides else self._reach(traffic, stone, taken, rng)
            if dst not in (stone, base):
                hops.append((stone, dst))
        made = []
        for time, (src, dst) in zip(moments.tolist(), hops, strict=False):
            if time < end:
                failures = int(rng.integers(1, 4)) if rng.random() < self.failed else 0
                made.append(Contact(time, src, dst, base if self.carried else src, campaign, failures))
                taken.add((src, dst))
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions(Generator):
    """A few busy sittings, each from one host the attacker holds."""

    name: ClassVar[str] = "sessions"
    label: ClassVar[int] = 1

    campaigns: int = 6
    """Campaigns, each with its own first host, beginning anywhere in the first 80 % of the span."""
    sittings: tuple[int, int] = (1, 4)
    """Sittings of a campaign, uniform, half an hour to a day apart."""
    minutes: tuple[float, float] = (15.0, 120.0)
    """Length of a sitting, log-uniform."""
    contacts_each: tuple[int, int] = (6, 60)
    """Contacts of a campaign, log-uniform, shared out over its sittings."""
    pivot: float = 0.4
    """Probability that a later sitting is held from a host reached before, not from the same one."""
    carried: bool = False
    """Whether the campaign keeps the account of its first host; else each host's own account is used."""
    stolen: float = 0.0
    """Share of campaigns that act under one stolen account, of a host in the tenth with most targets."""

    def contacts(self, traffic: Traffic, begin: float, end: float, rng: np.random.Generator) -> list[Contact]:
        found: list[Contact] = []
        starts = traffic.footholds(self.campaigns, rng)
        for campaign, first in enumerate(starts):
            sittings = int(rng.integers(self.sittings[0], self.sittings[1] + 1))
            size = round(log_uniform(rng, *self.contacts_each))
            time = begin + 0.8 * (end - begin) * rng.random()
            host, made, taken = first, list[Contact](), set[tuple[int, int]]()
            for share in np.array_split(np.arange(size), sittings):
                length = log_uniform(rng, *self.minutes) * 60
                for moment in np.sort(time + length * rng.random(len(share))).tolist():
                    dst = pick_target(traffic, host, taken, rng)
                    if dst is None or moment >= end:
                        continue
                    taken.add((host, dst))
                    made.append(Contact(moment, host, dst, first if self.carried else host, campaign))
                time += length + log_uniform(rng, 0.5, 24.0) * HOUR
                if made and rng.random() < self.pivot:
                    host = int(rng.choice([contact.dst for contact in made]))
            found += _under_stolen_account(made, self.stolen, traffic, rng)
        return found


def _under_stolen_account(
    made: list[Contact], share: float, traffic: Traffic, rng: np.random.Generator
) -> list[Contact]:
    if share <= 0 or rng.random() >= share:
        return made
    owner = int(rng.choice(traffic.busiest()))
    return [replace(contact, account=owner) for contact in made]


def _wait(traffic: Traffic, host: int, time: float, rng: np.random.Generator) -> float:
    """The moment itself if the host is awake, else some time in its next waking hour."""
    for ahead in range(25):
        if traffic.is_awake(host, time + ahead * HOUR):
            return time if ahead == 0 else ((time + ahead * HOUR) // HOUR + rng.random()) * HOUR
    return time
