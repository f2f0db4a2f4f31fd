"""Benign work that looks like a campaign, drawn into a history as what it is: everyday traffic.

Rounds over many machines by a standing staff and now and then by somebody else; people who work on a server
that then contacts others; services to which many hosts move within a day; accounts that turn up on another's
desk. How much of it a company has differs widely, so every replica draws its own rates, often none. It runs
through the whole history: who does this kind of work has done it before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from entente.detectors.behaviour.injection.history import Contacts, Ints, Past, log_uniform

DAY = 24.0


@dataclass(frozen=True, slots=True)
class Rates:
    """How much of each kind a replica has, per day of the history; 0 for none."""

    rounds: float
    newcomers: float  # share of rounds by somebody who is not of the staff
    pivots: float
    moves: float

    @staticmethod
    def drawn(rng: np.random.Generator, hosts: int) -> Rates:
        """The larger the silo, the more of it, up to a point."""
        scale = float(np.clip(hosts / 400.0, 0.25, 5.0))

        def rate(none: float, low: float, high: float) -> float:
            drawn = log_uniform(rng, low, high) * scale
            return 0.0 if rng.random() < none else drawn

        return Rates(
            rounds=rate(0.3, 0.5, 20.0),
            newcomers=rng.uniform(0.05, 0.4),
            pivots=rate(0.4, 0.5, 10.0),
            moves=rate(0.5, 0.1, 1.0),
        )


class Work:
    """Draws benign work into the whole of a history."""

    def __init__(self, history: Past) -> None:
        self.history = history
        self.days = history.graph.num_windows * history.hours / DAY

    def draw(self, rng: np.random.Generator) -> list[Contacts]:
        history = self.history
        rates = Rates.drawn(rng, len(history.hosts))
        staff = self._standing(rng, 0.001, 0.008)
        people, stones = self._standing(rng, 0.002, 0.02), self._stones(rng)
        found = [
            self._round(rng, staff, rates.newcomers) for _ in range(rng.poisson(rates.rounds * self.days))
        ]
        found += [self._pivot(rng, people, stones) for _ in range(rng.poisson(rates.pivots * self.days))]
        found += [self._move(rng) for _ in range(rng.poisson(rates.moves * self.days))]
        return [contacts for contacts in found if len(contacts)]

    # ---- kinds of work ---------------------------------------------------------------------

    def _round(self, rng: np.random.Generator, staff: Ints, newcomers: float) -> Contacts:
        """One source, many machines that mostly have something in common."""
        history = self.history
        if rng.random() < newcomers:
            src = int(rng.choice(history.senders))
        else:
            src = int(staff[min(int(rng.exponential(len(staff) / 3.0)), len(staff) - 1)])
        size = round(log_uniform(rng, 3.0, min(80.0, max(3.0, len(history.hosts) / 4))))
        pool = self._machines(rng, size)
        chosen = rng.choice(pool, min(size, len(pool)), replace=False)
        window = self._within(rng, len(chosen), 0.25, 6.0)
        return self._of(window, np.full(len(chosen), src), chosen, int(history.account[src]))

    def _pivot(self, rng: np.random.Generator, people: Ints, stones: Ints) -> Contacts:
        """A person works on a server, which then contacts others in the person's name."""
        history = self.history
        person, stone = int(rng.choice(people)), int(rng.choice(stones))
        size = round(log_uniform(rng, 1.0, 10.0))
        pool = history.hosts if rng.random() < 0.5 or not len(history.servers) else history.servers
        chosen = rng.choice(pool, min(size, len(pool)), replace=False)
        window = np.sort(self._within(rng, len(chosen) + 1, 0.25, 4.0))
        src = np.full(len(chosen) + 1, stone)
        src[0] = person
        return self._of(window, src, np.concatenate(([stone], chosen)), int(history.account[person]))

    def _move(self, rng: np.random.Generator) -> Contacts:
        """Users of one server turn to another within hours or days."""
        history = self.history
        old, new = (int(rng.choice(history.servers if len(history.servers) else history.hosts)) for _ in "on")
        users = history.sources_of(old)
        if not len(users):
            return Contacts.of(*(np.zeros(0, dtype=np.int64) for _ in range(3)))
        size = round(log_uniform(rng, 2.0, max(2.0, float(len(users)))))
        src = rng.choice(users, min(size, len(users)), replace=False)
        made = self._of(self._within(rng, len(src), 1.0, 48.0), src, np.full(len(src), new), 0)
        return replace(made, account=history.account[made.src])

    # ---- who, when, whom -------------------------------------------------------------------

    def _standing(self, rng: np.random.Generator, low: float, high: float) -> Ints:
        history = self.history
        count = max(1, round(log_uniform(rng, low, high) * len(history.senders)))
        found: Ints = rng.choice(history.senders, min(count, len(history.senders)), replace=False)
        return found

    def _stones(self, rng: np.random.Generator) -> Ints:
        history = self.history
        pool = history.servers if len(history.servers) else history.hosts
        found: Ints = rng.choice(pool, min(len(pool), int(rng.integers(1, 8))), replace=False)
        return found

    def _machines(self, rng: np.random.Generator, size: int) -> Ints:
        """Machines to go to: users of one server, what another host looks after, or any of a kind."""
        history = self.history
        way = rng.random()
        if way < 0.35:
            pool = history.sources_of(int(rng.choice(history.hosts)))
        elif way < 0.6:
            pool = history.targets_of(int(rng.choice(history.senders)))
        else:
            pool = (history.hosts, history.quiet, history.servers)[int(rng.integers(0, 3))]
        return pool if len(pool) >= min(size, 3) else history.hosts

    def _within(self, rng: np.random.Generator, count: int, low: float, high: float) -> Ints:
        """Windows of one piece of work that takes `low` to `high` hours and begins when much happens."""
        history = self.history
        length = log_uniform(rng, low, high) / history.hours
        begin = history.busy_window(rng) + rng.random()
        window = np.floor(begin + length * rng.random(count)).astype(np.int64)
        found: Ints = np.minimum(window, history.graph.num_windows - 1)
        return found

    def _of(self, window: Ints, src: Ints, dst: Ints, account: int) -> Contacts:
        keep = src != dst
        made = Contacts.of(window[keep], src[keep].astype(np.int64), dst[keep].astype(np.int64))
        return replace(made, account=np.full(len(made), account, dtype=np.int64))


def visitors(rng: np.random.Generator, history: Past, account: Ints) -> Ints:
    """The accounts of the history's own edges with some of them used from another's desk.

    On some host-days, a share that every replica draws, one window is under another host's account.
    """
    graph = history.graph
    share = 0.0 if rng.random() < 0.3 else log_uniform(rng, 0.003, 0.15)
    day = (graph.start + history.window * graph.width) // (24 * 3600 * 1_000_000)
    key = graph.src.astype(np.int64) * (int(day.max(initial=0)) + 1) + day
    host_days, first = np.unique(key, return_index=True)
    chosen = np.flatnonzero(rng.random(len(host_days)) < share)
    guest = history.account[rng.choice(history.senders, len(chosen))]
    changed = account.copy()
    moment = history.window * graph.num_nodes + graph.src
    for at, who in zip(first[chosen].tolist(), guest.tolist(), strict=True):
        low, high = np.searchsorted(moment, (moment[at], moment[at] + 1))
        changed[low:high] = who
    return changed
